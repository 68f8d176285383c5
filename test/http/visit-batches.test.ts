// POST /product/visit/batch: many visits in one request, each counted as if it had come on its own.

import t, { type Test } from 'tap';
import { type Answer, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestCluster, startTestRedis, type TestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const PATH = '/product/visit/batch';
const MAX_BODY = 524_288;

type Ids = Readonly<Record<string, string>>;
interface Visit {
  readonly identity: Ids;
  readonly productHandle: string;
}
const visitOf = (sessionId: string, productHandle = 'p'): Visit => ({
  identity: { sessionId },
  productHandle,
});
const many = <T>(count: number, of: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => of(i));
const send = (app: TestApp, visits: unknown, query = ''): Promise<Answer> =>
  app.post(PATH + query, { visits }, TRUSTED);

/** On one Redis and on a cluster: visitors of several slots are one batch. */
function assertSameAsAlone(t: Test, redis: TestRedis, rounds: number): void {
  t.test('a batch does what its visits do one after the other', async (t) => {
    const [alone, together] = [await startApp(t, redis), await startApp(t, redis)];
    const sessions = ['s1', 's2', 's3', 's4'];
    const customers = ['c1', 'c2', 'c3'];
    const random = randomNumbers(20_261_122);
    const pick = (names: readonly string[]) => names[random(names.length)] as string;
    for (let round = 0; round < rounds; round++) {
      // New names now and then: what links do depends on who is known.
      const era = Math.floor(round / 4);
      const visits = many(1 + random(16), () => {
        const ids: Record<string, string> = {};
        const kind = random(3);
        if (kind !== 0) ids['customerId'] = `${pick(customers)}-${era}`;
        if (kind !== 1) ids['sessionId'] = `${pick(sessions)}-${era}`;
        return { identity: ids, productHandle: pick(['p', 'q']) };
      });
      const one: { profileId: string }[] = [];
      for (const visit of visits) one.push((await alone.post('/product/visit', visit, TRUSTED)).json);
      const { results } = (await send(together, visits)).json;
      const names = [
        ...customers.map((name) => ({ customerId: `${name}-${era}` })),
        ...sessions.map((name) => ({ sessionId: `${name}-${era}` })),
      ];
      const state = (app: TestApp): Promise<{ profileId: string; counts: object }[]> =>
        Promise.all(
          names.map(async (identity) => {
            const body = { identity, productHandles: ['p', 'q'] };
            return (await app.post('/product/visit/list', body, TRUSTED)).json;
          }),
        );
      const [expected, actual] = [await state(alone), await state(together)];
      const same = t.same(
        [renamed([...results, ...actual]), actual.map(({ counts }) => counts)],
        [renamed([...one, ...expected]), expected.map(({ counts }) => counts)],
        `round ${round}`,
      );
      if (!same) return t.comment(JSON.stringify(visits));
    }
  });
}

/** Profiles by the number of their first mention: another deployment has other ids for them. */
function renamed(answers: readonly { readonly profileId: string }[]): number[] {
  const seen: string[] = [];
  return answers.map(({ profileId }) => {
    if (!seen.includes(profileId)) seen.push(profileId);
    return seen.indexOf(profileId);
  });
}

/** Numbers below a bound, the same ones each time. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

t.test('on one Redis', async (t) => {
  const redis = await startTestRedis(t);
  assertSameAsAlone(t, redis, 16);
  const app = await startApp(t, redis);

  t.test('each visit has its result, in order, exactly as the contract has it', async (t) => {
    const { profileId } = await app.shop.visit({ sessionId: 'one' }, 'p');
    const visits = [visitOf('one'), visitOf('two', '__proto__'), visitOf('one')];
    const answer = await send(app, visits);
    t.match(answer, { status: 200, headers: { 'content-type': 'application/json' } });
    const two = await app.shop.visit({ sessionId: 'two' }, '__proto__');
    t.equal(two.count, 2);
    const one = `{"profileId":"${profileId}","productHandle":"p"}`;
    const other = `{"profileId":"${two.profileId}","productHandle":"__proto__"}`;
    t.equal(answer.text, `{"results":[${one},${other},${one}]}`);
    t.equal(await app.shop.count({ sessionId: 'one' }, 'p'), 3);
  });

  t.test('one visitor several times is counted so many times; ?count=true tells each count', async (t) => {
    const { json } = await send(
      app,
      many(30, (i) => visitOf('often', i % 3 ? 'p' : 'q')),
      '?count=true',
    );
    for (const [handle, count] of [
      ['p', 20],
      ['q', 10],
    ] as const)
      t.same(
        json.results.flatMap((one: Visit & { count: number }) =>
          one.productHandle === handle ? one.count : [],
        ),
        many(count, (i) => i + 1),
      );
    for (const value of ['false', '1', '']) {
      const { results } = (await send(app, [visitOf('often')], `?count=${value}`)).json;
      t.same(Object.keys(results[0]), ['profileId', 'productHandle']);
    }
  });

  t.test('an Idempotency-Key is not looked at', async (t) => {
    for (const value of ['key', 'key', '']) {
      const headers = { ...TRUSTED, 'idempotency-key': value };
      t.equal((await app.post(PATH, { visits: [visitOf('again')] }, headers)).status, 200);
    }
    t.equal(await app.shop.count({ sessionId: 'again' }, 'p'), 3);
  });

  t.test('500 visits and 524,288 bytes are taken, and are one script call', async (t) => {
    const calls = async () =>
      /^wishmeter_batch_operations_count\{script="visits"\} (\d+)$/m.exec(await app.figures())?.[1] ?? '0';
    const before = Number(await calls());
    const visits = many(500, (i) => visitOf(`limit-${i}`));
    const empty = JSON.stringify({ visits, fill: '' });
    const body = JSON.stringify({ visits, fill: 'x'.repeat(MAX_BODY - empty.length) });
    const { status, json } = await app.post(PATH, body, TRUSTED);
    t.same([status, json.results.length], [200, 500]);
    t.equal(new Set(json.results.map((one: { profileId: string }) => one.profileId)).size, 500);
    t.equal(Number(await calls()) - before, 1);
    const dump = await dumpRedis(redis, app.prefix);
    t.match(await app.post(PATH, ` ${body}`, TRUSTED), { status: 413, json: { code: 'payload_too_large' } });
    t.same(await dumpRedis(redis, app.prefix), dump);
  });

  t.test('all faults of all entries are listed, and nothing is counted', async (t) => {
    const good = visitOf('good');
    const wrong: [unknown, string[]][] = [
      [[good, good, good, { ...good, productHandle: '' }], ['/visits/3/productHandle']],
      [
        [{}, good, { identity: { sessionId: 'null', device: 5 }, productHandle: 7 }, 'x', null],
        [
          '/visits/0/identity',
          '/visits/0/productHandle',
          '/visits/2/identity/device',
          '/visits/2/identity/sessionId',
          '/visits/2/productHandle',
          '/visits/3',
          '/visits/4',
        ],
      ],
      [{ 0: good }, ['/visits']],
      [undefined, ['/visits']],
      [[], ['/visits']],
      [many(501, (i) => visitOf(`over-${i}`)), ['/visits']],
    ];
    const before = await dumpRedis(redis, app.prefix);
    for (const [visits, paths] of wrong) {
      const { status, json } = await send(app, visits);
      t.equal(status, 400);
      t.same(json.issues.map((issue: { path: string }) => issue.path).sort(), paths);
    }
    const long = await app.post(PATH, { visits: new Array(200_000).fill(0) }, TRUSTED);
    t.equal(long.json.issues.length, 502, 'the list, and its first 501 entries');
    for (const body of ['null', '[]', '"visits"', '{'])
      t.match(await app.post(PATH, body, TRUSTED), { status: 400 });
    const typed = { ...TRUSTED, 'content-type': 'text/plain' };
    t.match(await app.post(PATH, { visits: [good] }, typed), { status: 415 });
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a profile at MAX_PRODUCTS has a result of its own; the others are counted', async (t) => {
    const capped = await startApp(t, redis, { env: { MAX_PRODUCTS: '2' } });
    await send(capped, [visitOf('full', 'a'), visitOf('full', 'b')]);
    const visits = [visitOf('full', 'a'), visitOf('full', 'c'), visitOf('free', 'c')];
    const { status, json } = await send(capped, visits, '?count=true');
    t.equal(status, 200);
    t.match(json.results, [{ productHandle: 'a', count: 2 }, {}, { productHandle: 'c', count: 1 }]);
    t.match(json.results[1], { error: String, code: 'too_many_products' });
    const none = await send(capped, [visitOf('full', 'c')]);
    t.match(none, { status: 200, json: { results: [{ code: 'too_many_products' }] } });
    const identity = { customerId: 'c', sessionId: 'full' };
    const linking = await send(capped, [
      { identity, productHandle: 'c' },
      { identity, productHandle: 'a' },
    ]);
    const expected = [{ code: 'too_many_products' }, { productHandle: 'a' }];
    t.match(linking.json.results, expected, 'the second does not wait for the first');
  });

  t.test('it is for servers', async (t) => {
    const [key, origin] = ['pk_0123456789abcdef', 'https://shop.example'];
    const browsers = { PUBLISHABLE_KEYS: key, ALLOWED_ORIGINS: origin };
    const env = { ...browsers, SHOPIFY_SECRET: SECRET, VISIT_ACCESS: 'open' };
    const app = await startApp(t, redis, { env });
    const body = { visits: [visitOf('s')] };
    t.match(await app.post(PATH, body), { status: 401, headers: { 'www-authenticate': 'Bearer' } });
    for (const answer of [
      await app.post(PATH, body, { 'x-api-key': key, origin }),
      await postProxied(app, PATH, '', body),
      await postProxied(app, PATH, '7', body),
    ])
      t.match(answer, { status: 403, json: { code: 'forbidden' } });
    t.equal(await app.shop.count({ sessionId: 's' }, 'p'), 0);
  });

  t.test('for RATE_LIMIT a batch is as many requests as it has visits', async (t) => {
    const limited = () => startApp(t, redis, { env: { RATE_LIMIT: '5' }, timing: { now: () => 1_000 } });
    const batch = (app: TestApp, count: number) =>
      send(
        app,
        many(count, () => visitOf('s')),
      );
    t.match(await batch(await limited(), 6), {
      status: 400,
      json: { code: 'invalid_request', error: /as 6 requests, and RATE_LIMIT is 5/ },
    });
    const empty = await limited();
    const asked = await Promise.all(many(11, () => send(empty, [])));
    const statuses = [...new Set(asked.map(({ status }) => status))].sort();
    t.same(statuses, [400, 429], 'one without visits is one request');
    const app = await limited();
    t.equal((await batch(app, 5)).status, 200);
    t.equal((await app.post('/product/visit', visitOf('s'), TRUSTED)).status, 429);
    const other = await startApp(t, redis, { prefix: app.prefix });
    t.equal(await other.shop.count({ sessionId: 's' }, 'p'), 5, 'what was refused was not counted');
  });

  t.test('where Redis is away it is 503', async (t) => {
    const redis = await startTestRedis(t);
    const app = await startApp(t, redis, { timeoutMs: 500 });
    await redis.stop();
    const both = { identity: { customerId: 'c', sessionId: 's' }, productHandle: 'p' };
    for (const visits of [many(500, (i) => visitOf(`away-${i}`)), new Array(500).fill(both)])
      t.match(await send(app, visits), {
        status: 503,
        headers: { 'retry-after': '1' },
        json: { code: 'unavailable', error: String },
      });
  });
});

t.test('on a Redis Cluster', async (t) => {
  const redis = await startTestCluster(t);
  assertSameAsAlone(t, redis, 4);

  t.test('of a frozen node: its visits are named, and wait with those after them', async (t) => {
    const patient = await startApp(t, redis);
    const app = await startApp(t, redis, { timeoutMs: 2_000, prefix: patient.prefix });
    const pid = redis.pids[1] as number;
    t.teardown(() => process.kill(pid, 'SIGCONT'));
    const plain = many(60, (i) => visitOf(`node-${i}`));
    t.equal((await send(patient, plain)).status, 200);
    const pairs = many(60, (i) => [
      { identity: { customerId: `c-${i}`, sessionId: `s-${i}` }, productHandle: 'p' },
      visitOf(`s-${i}`),
    ]).flat();
    process.kill(pid, 'SIGSTOP');
    const { status, json } = await send(app, [...plain, ...pairs], '?count=true');
    process.kill(pid, 'SIGCONT');
    t.equal(status, 200);
    await until('the node is there', async () => (await patient.get('/readyz')).status === 200);

    const isDone = (i: number) => json.results[i].code === undefined;
    const left = plain.filter((_, i) => !isDone(i));
    t.ok(left.length > 0 && left.length < 60, `${left.length} of 60 were not counted`);
    for (const i of plain.keys())
      t.match(json.results[i], isDone(i) ? { productHandle: 'p', count: 2 } : { code: 'unavailable' });
    for (let i = plain.length; i < plain.length + pairs.length; i += 2)
      t.ok(isDone(i) || !isDone(i + 1), `pair ${i}: what waits for a failed visit is not tried`);
    const again = await send(patient, left, '?count=true');
    const counts = again.json.results.map(({ count }: { count: number }) => count);
    t.same([...new Set(counts)], [2], 'counted once each');
    const failed = pairs.filter((_, i) => !isDone(plain.length + i));
    t.equal((await send(patient, failed)).status, 200);
    for (let i = 0; i < 60; i++) t.equal(await patient.shop.count({ customerId: `c-${i}` }, 'p'), 2);
  });
});
