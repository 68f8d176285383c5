// RATE_LIMIT, ANONYMOUS_RATE_LIMIT and TRUST_PROXY: who counts as one caller, what a 429 says, and who is never counted.

import { createHmac } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { normaliseAddress } from '../../src/http/address.js';
import { type Answer, type Headers, KEY, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const VISIT = { identity: { sessionId: 's' }, productHandle: 'x' };
const LIMIT = 5;
const SECRET = 'shpss_0123456789abcdef';

const from = (...addresses: string[]): Headers => ({ 'x-forwarded-for': addresses.join(', ') });

/** Two windows' worth and one more, at once: some of it is too many, whenever a window begins. */
function flood(app: TestApp, headers: Headers = {}): Promise<Answer[]> {
  return Promise.all(Array.from({ length: 2 * LIMIT + 1 }, () => app.post(PATH, VISIT, headers)));
}

/** Floods, and probes before the window is over; again where this machine was too slow for that. */
async function afterFlood(app: TestApp, headers: Headers, probe: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 20; attempt++) {
    await flood(app, headers);
    if (await probe()) return;
  }
  throw new Error('not refused after any of 20 floods');
}

const statuses = (answers: readonly Answer[]) => [...new Set(answers.map(({ status }) => status))].sort();

t.test('rate limit', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const limited = (env: Record<string, string> = {}) =>
    startApp(t, redis, {
      env: { RATE_LIMIT: String(LIMIT), ANONYMOUS_RATE_LIMIT: '0', TRUST_PROXY: '1', ...env },
    });

  t.test(
    'what is over the limit is 429 with Retry-After and changes nothing; a second later all is well',
    async (t) => {
      const app = await limited();
      const answers = await flood(app);
      t.same(statuses(answers), [200, 429]);
      const [refused] = answers.filter(({ status }) => status === 429);
      t.match(refused, {
        headers: { 'retry-after': '1', 'x-request-id': String, 'cache-control': 'no-store' },
        json: { code: 'rate_limited', error: 'Too many requests from this caller.' },
      });
      await new Promise((resolve) => setTimeout(resolve, 1_050));
      const { status, json } = await app.post(`${PATH}?count=true`, VISIT);
      t.equal(status, 200);
      t.equal(json.count, 1 + answers.filter((answer) => answer.status === 200).length);
    },
  );

  t.test('callers are told apart: each address, each secret key wherever it calls from', async (t) => {
    const other = 'sk_test_another_0123456789';
    const app = await limited({ API_KEYS: `${KEY},${other}` });
    t.same(statuses(await flood(app, from('192.0.2.1'))), [200, 429]);
    for (const headers of [
      from('192.0.2.2'),
      { ...from('192.0.2.1'), ...TRUSTED },
      { ...from('192.0.2.1'), 'x-api-key': other },
      from('2001:db8:0:1::1'),
      from('2001:db8:0:2::1'),
    ])
      t.equal((await app.post(PATH, VISIT, headers)).status, 200, JSON.stringify(headers));
    const spread = await Promise.all(
      Array.from({ length: 2 * LIMIT + 1 }, (_, i) =>
        app.post(PATH, VISIT, { ...TRUSTED, ...from(`192.0.2.${i}`) }),
      ),
    );
    t.same(statuses(spread), [200, 429], 'a key is one caller from all of its addresses');
  });

  t.test('a caller is one caller on all paths together', async (t) => {
    const app = await limited();
    const identity = { sessionId: 's' };
    const bodies: Record<string, object> = {
      [PATH]: VISIT,
      '/event': { identity, type: 'add' },
      '/item/list': { identity },
      '/item/remove': { identity, productId: '1' },
      '/share': { identity },
    };
    const once = () => Object.entries(bodies).map(([path, body]) => app.post(path, body, TRUSTED));
    // Less than the limit to each path; to all of them more than two windows' worth.
    const answers = await Promise.all(Array.from({ length: LIMIT - 1 }, once).flat());
    t.ok(answers.length > 2 * LIMIT);
    t.same(statuses(answers), [200, 429]);
  });

  t.test('one address is one caller however it is written', async (t) => {
    const app = await limited();
    const spellings = [
      ['192.0.2.7', '192.0.2.7:443', ' 192.0.2.7', '::ffff:192.0.2.7', '[::FFFF:c000:0207]:1'],
      ['2001:db8::1', '2001:DB8:0:0:0:0:0:1', '[2001:db8::1]:99', '2001:db8::ffff:1', '2001:db8::1%eth0'],
    ];
    for (const same of spellings) {
      const all = [...same, ...same, ...same].map((address) => app.post(PATH, VISIT, from(address)));
      t.same(statuses(await Promise.all(all)), [200, 429], same.join());
    }
  });

  t.test('what a caller writes into X-Forwarded-For itself is not believed', async (t) => {
    const spoof = (i: number) => [`203.0.113.${i}`, `203.0.113.${i + 100}`];
    const attempts = async (app: TestApp, headers: (i: number) => Headers) =>
      statuses(await Promise.all(Array.from({ length: 11 }, (_, i) => app.post(PATH, VISIT, headers(i)))));
    const bare = await limited({ TRUST_PROXY: '0' });
    t.same(await attempts(bare, (i) => from(...spoof(i))), [200, 429], 'without a proxy: the connection');
    const one = await limited({ TRUST_PROXY: 'true' });
    t.same(await attempts(one, (i) => from(...spoof(i), '192.0.2.1')), [200, 429], 'one proxy: the last');
    const two = await limited({ TRUST_PROXY: '2' });
    t.same(
      await attempts(two, (i) => from(...spoof(i), '192.0.2.1', `10.0.0.${i}`)),
      [200, 429],
      'two: the last but one',
    );
    t.same(
      await attempts(two, (i) => from(`198.51.100.${i}`, '10.0.0.1')),
      [200],
      'whom the first proxy saw, differs',
    );
    t.same(await attempts(one, (i) => from(`junk${i}`)), [200, 429], 'what is no address: the connection');
    const lines = (i: number): Headers => ({ 'x-forwarded-for': [`203.0.113.${i}`, '192.0.2.9'] });
    t.same(await attempts(one, lines), [200, 429], 'the proxy adds a line of its own');
  });

  t.test('wrong credentials count for their address, and change nothing', async (t) => {
    const app = await limited();
    const before = await dumpRedis(redis, app.prefix);
    const wrong = { ...from('192.0.2.1'), 'x-api-key': 'sk_wrong_0123456789' };
    t.same(statuses(await flood(app, wrong)), [401, 429]);
    await afterFlood(app, wrong, async () => {
      const { status } = await app.post(PATH, VISIT, from('192.0.2.1'));
      return status === 429;
    });
    t.equal((await app.post(PATH, VISIT, { ...from('192.0.2.1'), ...TRUSTED })).status, 200);
    const after = await dumpRedis(redis, app.prefix);
    t.not(Object.keys(after).length, Object.keys(before).length, 'only the right key did anything');
  });

  t.test('health, metrics and public routes are never counted', async (t) => {
    const app = await limited();
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/beacon.js']) {
      const answers = await Promise.all(Array.from({ length: 4 * LIMIT }, () => app.get(path)));
      t.same(statuses(answers), [200], path);
    }
    t.equal((await app.post(PATH, VISIT)).status, 200);
  });

  t.test(
    'a body that is still coming is refused without waiting for it, and what follows of it is dropped',
    async (t) => {
      const app = await limited();
      const wire = await Wire.open(t, app.port);
      await afterFlood(app, {}, async () => {
        wire.sendHead('POST', PATH, { 'content-length': '1000' });
        wire.send('{');
        const answer = wire.next();
        const early = await Promise.race([answer, sleep(100).then(() => undefined)]);
        wire.send(' '.repeat(999));
        await answer;
        return early?.status === 429;
      });
      wire.sendHead('GET', '/healthz');
      t.match(await wire.next(), { status: 200 }, 'the connection is as good as before');
    },
  );

  t.test('anonymous callers are limited by their address, and a secret key is not', async (t) => {
    const anonymous = { ANONYMOUS_RATE_LIMIT: String(LIMIT), TRUST_PROXY: '1' };
    const app = await startApp(t, redis, { env: { ...anonymous, PUBLISHABLE_KEYS: 'pk_0123456789abcdef' } });
    const answers = await flood(app, from('192.0.2.1'));
    t.same(statuses(answers), [200, 429]);
    t.match(
      answers.find(({ status }) => status === 429),
      { headers: { 'retry-after': '1' }, json: { code: 'rate_limited' } },
    );
    const key = { ...from('192.0.2.2'), 'x-api-key': 'pk_0123456789abcdef' };
    t.same(statuses(await flood(app, key)), [403, 429], 'a publishable key is none that opens the limit');
    t.same(statuses(await flood(app, { ...from('192.0.2.1'), ...TRUSTED })), [200]);
    t.equal((await app.post(PATH, VISIT, from('192.0.2.3'))).status, 200, 'another address');
  });

  t.test('a webhook is not anonymous: its signature comes with the body', async (t) => {
    const app = await startApp(t, redis, {
      env: { ANONYMOUS_RATE_LIMIT: '1', TRUST_PROXY: '1', SHOPIFY_SECRET: SECRET },
    });
    const order = JSON.stringify({ id: 1, line_items: [] });
    const signed = {
      ...from('192.0.2.1'),
      'x-shopify-hmac-sha256': createHmac('sha256', SECRET).update(order).digest('base64'),
    };
    const answers = Array.from({ length: 5 }, () => app.post('/webhook/purchase', order, signed));
    t.same(statuses(await Promise.all(answers)), [200]);
  });

  t.test('without RATE_LIMIT no caller is limited', async (t) => {
    const app = await startApp(t, redis);
    const answers = await Promise.all(Array.from({ length: 500 }, () => app.post(PATH, VISIT)));
    t.same(statuses(answers), [200]);
  });
});

t.test('addresses have one spelling, an IPv6 one that of its network', async (t) => {
  const spelled: [string, string | undefined][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:80', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['[2001:DB8:1:2::6]:443', '2001:db8:1:2::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '::1'],
    ['::', '0:0:0:0::/64'],
    ['', undefined],
    ['unknown', undefined],
    ['_hidden', undefined],
    ['1.2.3', undefined],
    ['1.2.3.4.5', undefined],
    ['::1::2', undefined],
    ['[::1', undefined],
  ];
  for (const [text, address] of spelled) t.equal(normaliseAddress(text), address, text);
});
