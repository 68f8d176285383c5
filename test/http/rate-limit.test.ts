// RATE_LIMIT, ANONYMOUS_RATE_LIMIT and TRUST_PROXY: who counts as one caller, what a 429 says, what several workers accept.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { createHmac } from 'node:crypto';
import t from 'tap';
import type { ServiceError } from '../../src/errors.js';
import type { Caller } from '../../src/http/access.js';
import { RateLimit, RateLimits } from '../../src/http/limits.js';
import { KEY, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { BROWSER, SECRET, SHOPPERS } from '../harness/app-proxy.js';
import type { Answer, Headers } from '../harness/client.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const LIMIT = 5;
const visit = (sessionId: string) => ({ identity: { sessionId }, productHandle: 'x' });
const range = (count: number) => Array.from({ length: count }, (_, i) => i);
const from = (...addresses: string[]): Headers => ({ 'x-forwarded-for': addresses.join(', ') });
const passed = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;
async function flood(app: TestApp, headers: (i: number) => Headers): Promise<number[]> {
  const answers = await Promise.all(range(2 * LIMIT + 1).map((i) => app.post(PATH, visit('s'), headers(i))));
  return [...new Set(answers.map(({ status }) => status))].sort();
}
t.test('rate limit', async (t) => {
  const redis = await startTestRedis(t);
  let now = 1_000;
  const limited = (env: Record<string, string> = {}) =>
    startApp(t, redis, {
      timing: { now: () => now },
      env: { RATE_LIMIT: String(LIMIT), ANONYMOUS_RATE_LIMIT: '0', TRUST_PROXY: '1', ...env },
    });
  const other = 'sk_test_another_0123456789';
  const app = await limited({ API_KEYS: `${KEY},${other}` });
  t.beforeEach(() => {
    now += 60_000;
  });

  t.test('a request over RATE_LIMIT is 429 on any path for a second, and changes nothing', async (t) => {
    const identity = { sessionId: 's' };
    const requests: [path: string, body: object][] = [
      [PATH, visit('s')],
      ['/event', { identity, type: 'add' }],
      ['/item/list', { identity }],
      ['/share', { identity }],
    ];
    // Fewer requests than the limit to each path.
    const sent = range(LIMIT - 1).flatMap(() =>
      requests.map(([path, body]) => app.post(path, body, TRUSTED)),
    );
    const answers = await Promise.all(sent);
    t.equal(passed(answers), LIMIT);
    const refused = answers.find(({ status }) => status !== 200);
    t.match(refused, { status: 429, json: { code: 'rate_limited', error: String } });
    t.match(refused?.headers, { 'retry-after': '1', 'x-request-id': String, 'cache-control': 'no-store' });
    const counted = passed(answers.filter((_, i) => requests[i % requests.length]?.[0] === PATH));
    now += 999;
    t.equal((await app.post(PATH, visit('s'), TRUSTED)).status, 429);
    now += 1;
    const next = await app.post(`${PATH}?count=true`, visit('s'), TRUSTED);
    t.match(next, { status: 200, json: { count: counted + 1 } });
  });

  t.test('each address is a caller of its own, and so is each secret key, from any address', async (t) => {
    t.same(await flood(app, () => from('192.0.2.1')), [200, 429]);
    const others = ['192.0.2.2', '2001:db8:0:1::1', '2001:db8:0:2::1'].map((address) => from(address));
    const keys = [TRUSTED, { 'x-api-key': other }].map((key) => ({ ...from('192.0.2.1'), ...key }));
    for (const headers of [...others, ...keys])
      t.equal((await app.post(PATH, visit('s'), headers)).status, 200, JSON.stringify(headers));
    const spread = (i: number) => ({ ...TRUSTED, ...from(`192.0.2.${i}`) });
    t.same(await flood(app, spread), [200, 429], 'a key is one caller from all of its addresses');
    const written = (i: number) => from(i % 2 ? '192.0.2.7' : '[::FFFF:c000:0207]:1');
    t.same(await flood(app, written), [200, 429], 'an address is one caller, however it is written');
    const network = (i: number) => from(`2001:DB8:0:3::${i}`);
    t.same(await flood(app, network), [200, 429], 'and so is the network of an IPv6 one');
  });

  t.test("a caller can't choose its address by writing X-Forwarded-For", async (t) => {
    const spoof = (i: number) => [`203.0.113.${i}`, `203.0.113.${i + 100}`];
    const ownLine = (i: number) => ({ 'x-forwarded-for': [`203.0.113.${i}`, '192.0.2.9'] });
    for (const [proxies, ...cases] of [
      ['0', [[200, 429], 'without a proxy: the connection', (i: number) => from(...spoof(i))]],
      [
        'true',
        [[200, 429], 'one proxy: the last', (i: number) => from(...spoof(i), '192.0.2.1')],
        [[200, 429], 'what is no address: the connection', (i: number) => from(`junk${i}`)],
        [[200, 429], 'the proxy adds a line of its own', ownLine],
      ],
      [
        '2',
        [[200, 429], 'two: the last but one', (i: number) => from(...spoof(i), '192.0.2.1', `10.0.0.${i}`)],
        [[200], 'whom the first proxy saw, differs', (i: number) => from(`198.51.100.${i}`, '10.0.0.1')],
      ],
    ] as [string, ...[number[], string, (i: number) => Headers][]][]) {
      const app = await limited({ TRUST_PROXY: proxies });
      for (const [statuses, what, headers] of cases) t.same(await flood(app, headers), statuses, what);
    }
  });

  t.test('requests with wrong credentials count for their address', async (t) => {
    const wrong = { ...from('192.0.2.1'), 'x-api-key': 'sk_wrong_0123456789' };
    t.same(await flood(app, () => wrong), [401, 429]);
    t.equal((await app.post(PATH, visit('s'), from('192.0.2.1'))).status, 429);
    t.equal((await app.post(PATH, visit('s'), { ...from('192.0.2.1'), ...TRUSTED })).status, 200);
  });

  t.test('health, metrics and public routes are never rate-limited', async (t) => {
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/beacon.js']) {
      const answers = await Promise.all(range(2 * LIMIT).map(() => app.get(path)));
      t.equal(passed(answers), answers.length, path);
    }
    t.equal((await app.post(PATH, visit('s'))).status, 200);
  });

  t.test(
    'a limited request is refused before its body has arrived, and the rest of the body is dropped',
    async (t) => {
      await flood(app, () => ({}));
      const wire = await Wire.open(t, app.port);
      wire.sendHead('POST', PATH, { 'content-length': '1000' });
      wire.send('{');
      t.match(await wire.next(), { status: 429 });
      wire.send(' '.repeat(999));
      wire.sendHead('GET', '/healthz');
      t.match(await wire.next(), { status: 200 }, 'the connection is as good as before');
    },
  );

  t.test(
    'ANONYMOUS_RATE_LIMIT applies to each address, but not to loopback ones or signed webhooks',
    async (t) => {
      const app = await limited({ RATE_LIMIT: '0', ANONYMOUS_RATE_LIMIT: String(LIMIT), ...SHOPPERS });
      t.same(await flood(app, () => from('192.0.2.1')), [200, 429]);
      t.same(await flood(app, () => from('2001:db8::1')), [200, 429]);
      const key = { ...from('192.0.2.2'), 'x-api-key': BROWSER['x-api-key'] };
      t.same(await flood(app, () => key), [403, 429], 'a publishable key is none that opens the limit');
      t.same(await flood(app, () => ({ ...from('192.0.2.1'), ...TRUSTED })), [200]);
      t.equal((await app.post(PATH, visit('s'), from('192.0.2.3'))).status, 200, 'another address');
      for (const near of ['10.0.0.1', '12.7.0.1', '::2', '::ffff:12.0.0.1'])
        t.same(await flood(app, () => from(near)), [200, 429], near);
      for (const loopback of ['127.0.0.1', '127.255.3.2', '::1', '::ffff:127.0.0.1'])
        t.same(await flood(app, () => from(loopback)), [200], loopback);
      // The signature can be checked only with the body.
      const order = JSON.stringify({ id: 1, line_items: [] });
      const hmac = createHmac('sha256', SECRET).update(order).digest('base64');
      const headers = { ...from('192.0.2.1'), 'x-shopify-hmac-sha256': hmac };
      const send = () => app.post('/webhook/purchase', order, headers);
      t.equal(passed(await Promise.all(range(2 * LIMIT).map(send))), 2 * LIMIT);
    },
  );

  t.test('by default a caller on the same machine is never refused', async (t) => {
    const app = await startApp(t, redis);
    const answers = await Promise.all(range(60).map((i) => app.post(PATH, visit(`local-${i}`))));
    t.equal(passed(answers), answers.length);
  });

  t.test("an X-Forwarded-For that TRUST_PROXY ignores is logged once, with the setting's name", async (t) => {
    for (const trusted of ['0', '1']) {
      const lines: unknown[] = [];
      const onLog = ({ msg }: Readonly<Record<string, unknown>>) => void lines.push(msg);
      const app = await startApp(t, redis, { env: { TRUST_PROXY: trusted }, onLog });
      const named = () => lines.filter((line) => /TRUST_PROXY/.test(String(line))).length;
      t.equal(named(), 0);
      for (const path of ['/healthz', `${PATH}?sessionId=s&productHandle=p`, '/openapi.json'])
        await app.get(path, from('192.0.2.1'));
      t.equal(named(), trusted === '0' ? 1 : 0);
    }
  });
});
/** A caller at this address, without a proxy. */
function callerAt(remote: readonly number[], caller: Partial<Caller>): (limits: RateLimits) => boolean {
  const res = { getRemoteAddress: () => Uint8Array.from(remote).buffer } as HttpResponse;
  const req = { forEach() {} } as unknown as HttpRequest;
  return (limits) => {
    try {
      return limits.count('visits', { account: null, ...caller } as Caller, res, req) !== undefined;
    } catch {
      return false;
    }
  };
}
// Tests connect from loopback, which has no limit: this asks the limiter itself.
t.test(
  "visitors behind a shop's proxy don't share a limit if TRUST_PROXY hides their addresses",
  async (t) => {
    const isLimited = (caller: Partial<Caller>, trustedProxies = 0) => {
      const limits = new RateLimits({ perCaller: 0, perAnonymousAddress: 1, trustedProxies });
      const ask = callerAt([23, 227, 38, 1], caller);
      return [ask(limits), ask(limits)].includes(false);
    };
    t.equal(isLimited({ kind: 'storefront' }), false);
    t.equal(isLimited({ kind: 'storefront' }, 1), true);
    t.equal(isLimited({ kind: 'browser' }), true, 'a publishable key is no secret');
    t.equal(isLimited({ kind: 'server', account: 'key 1' }), false);
  },
);
t.test('a large answer counts as one request per 16 KiB, also in the following seconds', async (t) => {
  let now = 0;
  const env = { RATE_LIMIT: '100', ANONYMOUS_RATE_LIMIT: '2', TRUST_PROXY: '1' };
  const app = await startApp(t, await startTestRedis(t), { env, timing: { now: () => now } });
  const who = { sessionId: 'much' };
  const properties = { text: 'x'.repeat(16_000) };
  for (let i = 1; i <= 40; i++, now += 1_000)
    await app.shop.add(who, { productId: String(i), properties, productTitle: 'y'.repeat(1_000) });
  const { code } = await app.shop.share(who);
  const from = (address: string) => ({ 'x-forwarded-for': address });
  const page = (address: string) => app.get(`/wishlist/share/${code}`, from(address));
  now += 10_000;
  t.equal((await page('203.0.113.1')).status, 200);
  const refused = await page('203.0.113.1');
  t.match(refused, { status: 429 });
  const seconds = Number(refused.headers['retry-after']);
  t.ok(seconds >= 2, 'the excess goes over more than a second');
  t.equal((await page('203.0.113.2')).status, 200, 'another address has a limit of its own');
  now += (seconds - 1) * 1_000;
  t.equal((await page('203.0.113.1')).status, 429);
  now += 1_000;
  t.equal((await page('203.0.113.1')).status, 200);

  now += 100_000;
  const list = () => app.post('/item/list', { identity: who }, TRUSTED);
  const shared = () => app.get(`/share/${code}/items`, TRUSTED);
  for (const ask of [list, shared]) {
    const first = await ask();
    const weight = 1 + Math.floor(Buffer.byteLength(first.text) / 16_384);
    t.ok(weight > 10, first.text.slice(0, 200));
    let passed = 1;
    while (passed < 100 && (await ask()).status === 200) passed++;
    t.equal(passed, Math.ceil(100 / weight));
    now += 100_000;
  }
});

// The kernel chooses a worker for each connection, so a test by requests could not tell which one answers.
t.test('several workers', async (t) => {
  const LIMIT = 60;
  const WORKERS = 3;
  const SHARE = LIMIT / WORKERS;
  let now = 1_000_500;
  const start = (limit = LIMIT) => range(WORKERS).map(() => new RateLimit(limit, WORKERS, () => now));
  const pass = (seconds = 1) => {
    now += 1_000 * seconds;
  };
  /** Why a worker refuses a request that weighs as much; undefined if it accepts it. */
  const refusal = (worker: RateLimit | undefined, weight = 1, caller = 'a caller') => {
    try {
      worker?.count(caller);
      if (weight !== 1) worker?.countWeight(caller, weight);
      return undefined;
    } catch (error) {
      return error as ServiceError;
    }
  };
  const accepted = (...workers: (RateLimit | undefined)[]) =>
    workers.flatMap((worker) => range(LIMIT).filter(() => refusal(worker) === undefined)).length;

  t.test(
    'a flood at all workers gets exactly the limit in every second, and each worker its share',
    async (t) => {
      const workers = start();
      for (const second of range(10)) {
        t.equal(accepted(...workers), LIMIT, `second ${second}`);
        t.equal(refusal(workers[0], 1, `another caller ${second}`), undefined);
        pass();
      }
      t.equal(accepted(workers[0]), SHARE);
      t.match(refusal(workers[0]), { code: 'rate_limited', retryAfterS: 1 });
    },
  );
  t.test(
    'a limit that is not divisible by the workers is rounded up, so that each accepts something',
    async (t) => {
      t.same([accepted(...start(2)), accepted(...start(4))], [WORKERS, 2 * WORKERS]);
    },
  );
  t.test(
    'a batch up to the limit passes at one worker, and the next seconds pay for its excess',
    async (t) => {
      const [worker, other] = start();
      t.equal(refusal(worker, LIMIT), undefined);
      const seconds = range(5).map(() => {
        pass();
        return accepted(worker);
      });
      t.same(seconds, [0, 0, SHARE, SHARE, SHARE], 'as much as without the batch');
      pass();
      t.equal(refusal(worker, LIMIT), undefined);
      pass(60);
      t.equal(accepted(worker), SHARE, 'also if nothing is asked meanwhile');
      t.equal(refusal(other, 5), undefined);
      t.match(refusal(other, SHARE), { code: 'rate_limited' });
      t.equal(accepted(other), SHARE - 6, 'what is refused counts for nothing beyond its first request');
    },
  );
  t.test('Retry-After is the number of seconds after which the same request passes', async (t) => {
    for (const [what, sent, weight, seconds] of [
      ['at the share', [...range(SHARE).map(() => 1)], 1, 1],
      ['after a batch of the limit', [LIMIT], 1, 3],
      ['a batch, after one of the limit', [LIMIT], SHARE, 3],
      ['a large batch, after a single request', [1], LIMIT, 1],
      ['a large batch, after another', [2 * SHARE], 2 * SHARE, 2],
    ] as [string, number[], number, number][]) {
      const [worker] = start();
      for (const one of sent) t.equal(refusal(worker, one), undefined, what);
      for (const left of range(seconds)) {
        t.match(refusal(worker, weight), { code: 'rate_limited', retryAfterS: seconds - left }, what);
        pass();
      }
      t.equal(refusal(worker, weight), undefined, `${what}: passes after ${seconds} s`);
    }
  });
  t.test(
    'both rate limits are divided by the workers, and neither with one worker or without a limit',
    async (t) => {
      const anyone = callerAt([192, 0, 2, 1], { kind: 'anyone' });
      const server = callerAt([192, 0, 2, 1], { kind: 'server', account: 'key 1' });
      for (const [ask, perCaller, perAnonymousAddress, workers, expected] of [
        [server, 6, 0, 2, 3],
        [anyone, 0, 6, 2, 3],
        [server, 6, 0, 1, 6],
        [server, 0, 6, 2, 20],
        [anyone, 0, 0, 2, 20],
      ] as const) {
        const given = { perCaller, perAnonymousAddress, workers };
        const limits = new RateLimits({ ...given, trustedProxies: 0, now: () => now });
        t.equal(range(20).filter(() => ask(limits)).length, expected);
      }
    },
  );
});

t.test('the limiter remembers at most 100,000 callers, even in a flood from more addresses', async (t) => {
  const limit = new RateLimit(1, 1, () => 0);
  limit.count('first');
  t.throws(() => limit.count('first'), { code: 'rate_limited' });
  for (let n = 0; n < 100_000; n++) limit.count(`address ${n}`);
  t.doesNotThrow(() => limit.count('first'), 'the oldest is dropped');
  t.throws(() => limit.count('address 99999'), { code: 'rate_limited' });
});
