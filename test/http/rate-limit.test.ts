// RATE_LIMIT, ANONYMOUS_RATE_LIMIT and TRUST_PROXY: who counts as one caller, what a 429 says, who is never counted, and
// what several workers accept together. The clock is the test's: a second ends where a test says so.

import { createHmac } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import type { ServiceError } from '../../src/errors.js';
import { normaliseAddress } from '../../src/http/address.js';
import { type Accepted, RateLimit } from '../../src/http/rate-limit.js';
import { type Answer, type Headers, KEY, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const VISIT = { identity: { sessionId: 's' }, productHandle: 'x' };
const LIMIT = 5;
const SECRET = 'shpss_0123456789abcdef';

const from = (...addresses: string[]): Headers => ({
  'x-forwarded-for': addresses.join(', '),
});

/** More than the limit, at once. */
function flood(app: TestApp, headers: Headers = {}): Promise<Answer[]> {
  return Promise.all(Array.from({ length: 2 * LIMIT + 1 }, () => app.post(PATH, VISIT, headers)));
}

const statuses = (answers: readonly Answer[]) => [...new Set(answers.map(({ status }) => status))].sort();
const passed = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;

t.test('rate limit', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  let now = 1_000;
  const timing = { now: () => now };
  const limited = (env: Record<string, string> = {}) =>
    startApp(t, redis, {
      timing,
      env: {
        RATE_LIMIT: String(LIMIT),
        ANONYMOUS_RATE_LIMIT: '0',
        TRUST_PROXY: '1',
        ...env,
      },
    });

  t.test(
    'what is over the limit is 429 with Retry-After and changes nothing, until a second has passed',
    async (t) => {
      const app = await limited();
      const answers = await flood(app);
      t.equal(passed(answers), LIMIT);
      const [refused] = answers.filter(({ status }) => status !== 200);
      t.match(refused, {
        status: 429,
        headers: {
          'retry-after': '1',
          'x-request-id': String,
          'cache-control': 'no-store',
        },
        json: { code: 'rate_limited', error: String },
      });
      now += 999;
      t.equal((await app.post(PATH, VISIT)).status, 429);
      now += 1;
      t.match(await app.post(`${PATH}?count=true`, VISIT), {
        status: 200,
        json: { count: LIMIT + 1 },
      });
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
    // Less than the limit to each path.
    const answers = await Promise.all(Array.from({ length: LIMIT - 1 }, once).flat());
    t.equal(passed(answers), LIMIT);
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
    const lines = (i: number): Headers => ({
      'x-forwarded-for': [`203.0.113.${i}`, '192.0.2.9'],
    });
    t.same(await attempts(one, lines), [200, 429], 'the proxy adds a line of its own');
  });

  t.test('wrong credentials count for their address, and change nothing', async (t) => {
    const app = await limited();
    const before = await dumpRedis(redis, app.prefix);
    const wrong = {
      ...from('192.0.2.1'),
      'x-api-key': 'sk_wrong_0123456789',
    };
    t.same(statuses(await flood(app, wrong)), [401, 429]);
    t.equal((await app.post(PATH, VISIT, from('192.0.2.1'))).status, 429);
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
    'a body that is still coming is refused without waiting for it, and the rest of it is dropped',
    async (t) => {
      const app = await limited();
      await flood(app);
      const wire = await Wire.open(t, app.port);
      wire.sendHead('POST', PATH, { 'content-length': '1000' });
      wire.send('{');
      t.match(await wire.next(), { status: 429 });
      wire.send(' '.repeat(999));
      wire.sendHead('GET', '/healthz');
      t.match(await wire.next(), { status: 200 }, 'the connection is as good as before');
    },
  );

  t.test('anonymous callers are limited by their address, and a secret key is not', async (t) => {
    const anonymous = {
      ANONYMOUS_RATE_LIMIT: String(LIMIT),
      TRUST_PROXY: '1',
    };
    const env = { ...anonymous, PUBLISHABLE_KEYS: 'pk_0123456789abcdef' };
    const app = await startApp(t, redis, { timing, env });
    const answers = await flood(app, from('192.0.2.1'));
    t.equal(passed(answers), LIMIT);
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
      timing,
      env: {
        ANONYMOUS_RATE_LIMIT: '1',
        TRUST_PROXY: '1',
        SHOPIFY_SECRET: SECRET,
      },
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
    const answers = await Promise.all(Array.from({ length: 200 }, () => app.post(PATH, VISIT)));
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

// Several workers, with messages that the test holds in its hands.

const SHARED_LIMIT = 60;
const WORKERS = 3;
const CALLER = 'a caller';

class Port {
  /** In the middle of a second. */
  now = 1_000_500;
  /** Messages that are on their way: whom they come from, and what they say. */
  readonly sent: [number, Accepted][] = [];
  readonly workers: readonly RateLimit[];

  constructor(limit = SHARED_LIMIT) {
    this.workers = Array.from(
      { length: WORKERS },
      (_, i) =>
        new RateLimit(limit, {
          workers: WORKERS,
          now: () => this.now,
          tell: (accepted) => void this.sent.push([i, accepted]),
        }),
    );
  }

  /** Sends requests to one worker, one after the other. @returns how many it accepted */
  ask(worker: number, requests: number, caller = CALLER): number {
    let accepted = 0;
    for (let i = 0; i < requests; i++) if (this.accepts(worker, 1, caller)) accepted++;
    return accepted;
  }

  accepts(worker: number, requests: number, caller = CALLER): boolean {
    try {
      this.workers[worker]?.count(caller, requests);
      return true;
    } catch {
      return false;
    }
  }

  /** Brings every message to the others. */
  async deliver(): Promise<void> {
    await turn();
    for (const [from, accepted] of this.sent.splice(0)) {
      for (const [i, worker] of this.workers.entries()) if (i !== from) worker.told(accepted);
    }
  }

  nextSecond(): void {
    this.now += 1_000;
  }
}

t.test(
  'a caller whose connections meet one worker may send the whole limit, second after second',
  async (t) => {
    const port = new Port();
    for (let second = 0; second < 5; second++) {
      t.equal(port.ask(0, SHARED_LIMIT + 10), SHARED_LIMIT);
      await port.deliver();
      t.equal(port.ask(1, 1), 0, 'and nothing more to another one');
      port.nextSecond();
    }
  },
);

t.test(
  'a caller who keeps to the limit is never refused, whomever it meets and whatever is late',
  async (t) => {
    const port = new Port();
    for (let second = 0; second < 20; second++) {
      for (let i = 0; i < SHARED_LIMIT; i++) {
        t.equal(port.ask((second + i * i) % WORKERS, 1), 1);
        // Now and then nothing is heard for more than a second.
        if (second % 3 !== 0 && i % 7 === 0) await port.deliver();
      }
      port.nextSecond();
    }
  },
);

t.test('a flood over all workers: a tenth above the limit at most in any second', async (t) => {
  const port = new Port();
  for (let second = 0; second < 10; second++) {
    let accepted = 0;
    for (let i = 0; i < SHARED_LIMIT; i++) {
      for (let worker = 0; worker < WORKERS; worker++) accepted += port.ask(worker, 1);
      await port.deliver();
    }
    t.ok(accepted <= SHARED_LIMIT * 1.1, `${accepted} accepted`);
    t.ok(accepted >= SHARED_LIMIT * 0.9, `${accepted} accepted`);
    port.nextSecond();
  }
});

/** Seconds in each of which a caller sends more than the limit to each worker, one after the other. */
async function floodAll(port: Port, seconds: number, { isLate }: { isLate: boolean }): Promise<number[]> {
  const accepted: number[] = [];
  for (let second = 0; second < seconds; second++) {
    accepted.push(port.workers.reduce((sum, _, worker) => sum + port.ask(worker, 2 * SHARED_LIMIT), 0));
    if (!isLate) await port.deliver();
    port.nextSecond();
    if (isLate) await port.deliver();
  }
  return accepted;
}

t.test(
  'a flood that none hears of at first: paid back, and then each worker accepts its share',
  async (t) => {
    const port = new Port();
    const accepted = await floodAll(port, 12, { isLate: false });
    t.same(accepted, [WORKERS * SHARED_LIMIT, 0, 0, ...new Array(9).fill(SHARED_LIMIT)]);
    // No caller is a flood for ever.
    t.equal(port.ask(0, 5), 5);
    port.nextSecond();
    t.equal(port.ask(0, SHARED_LIMIT), SHARED_LIMIT);
  },
);

t.test('what is heard of only when its second is over is paid back, too', async (t) => {
  const port = new Port();
  const accepted = await floodAll(port, 12, { isLate: true });
  t.same(accepted.slice(0, 3), [WORKERS * SHARED_LIMIT, 0, 0]);
  const sum = accepted.reduce((a, b) => a + b);
  t.ok(sum <= 12 * SHARED_LIMIT * 1.1, String(accepted));
});

t.test('who comes back later finds the debt paid by the time in between', async (t) => {
  const port = new Port();
  for (let worker = 0; worker < WORKERS; worker++) port.ask(worker, SHARED_LIMIT);
  await port.deliver();
  port.nextSecond();
  t.equal(port.ask(0, 1), 0);
  port.now += 60_000;
  t.equal(port.ask(0, SHARED_LIMIT), SHARED_LIMIT);
});

t.test('what is refused counts for nothing, also for a batch', async (t) => {
  const port = new Port();
  t.notOk(port.accepts(0, SHARED_LIMIT + 1));
  t.ok(port.accepts(0, SHARED_LIMIT - 1));
  t.notOk(port.accepts(0, 2));
  t.ok(port.accepts(0, 1));
  await port.deliver();
  port.nextSecond();
  t.equal(port.ask(1, SHARED_LIMIT), SHARED_LIMIT, 'no debt');
});

t.test('callers have nothing to do with each other', async (t) => {
  const port = new Port();
  for (let worker = 0; worker < WORKERS; worker++) port.ask(worker, 2 * SHARED_LIMIT);
  await port.deliver();
  t.equal(port.ask(0, 1), 0);
  for (let worker = 0; worker < WORKERS; worker++) t.equal(port.ask(worker, 1, `other ${worker}`), 1);
});

t.test('many callers with one request each are one message, and it is sent by itself', async (t) => {
  const port = new Port();
  for (let i = 0; i < 1_000; i++) port.ask(0, 1, `visitor ${i}`);
  await turn();
  t.equal(port.sent.length, 0, 'not at once');
  await until('the others are told', () => port.sent.length > 0);
  t.equal(port.sent.length, 1);
  t.equal(port.sent[0]?.[1].requests.length, 1_000);
});

t.test('however much one caller sends in a turn of the event loop, it is one message', async (t) => {
  const port = new Port(1_000);
  port.ask(0, 1_000);
  await turn();
  t.same(port.sent, [[0, { second: 1_000, requests: [[CALLER, 1_000]] }]]);
});

t.test('Retry-After is the second in which the same request passes', async (t) => {
  const port = new Port();
  const passes = async (requests: number) => {
    const limit = port.workers[0] as RateLimit;
    const retryAfterS = () => {
      try {
        limit.count(CALLER, requests);
        return 0;
      } catch (error) {
        return (error as ServiceError).retryAfterS;
      }
    };
    const told = retryAfterS();
    t.ok(told > 0, 'refused');
    for (let left = told; left > 0; left--) {
      t.equal(retryAfterS(), left);
      port.nextSecond();
      await port.deliver();
    }
    t.equal(retryAfterS(), 0, `${requests} requests pass after ${told} s`);
    port.now += 60_000;
    return told;
  };
  port.ask(0, SHARED_LIMIT);
  t.equal(await passes(1), 1, 'at the limit');
  for (const worker of [0, 1, 2]) port.ask(worker, SHARED_LIMIT);
  await port.deliver();
  t.equal(await passes(1), 3, 'in debt');
  for (const worker of [0, 1, 2]) port.ask(worker, SHARED_LIMIT);
  await port.deliver();
  t.equal(await passes(SHARED_LIMIT / WORKERS), 3, 'in debt, as much as the share of a worker');
  for (const worker of [0, 1]) port.ask(worker, SHARED_LIMIT * 0.6);
  await port.deliver();
  t.equal(await passes(SHARED_LIMIT / 2), 2, 'more than the share that a worker has of a flood');
});
