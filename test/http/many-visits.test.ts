// Many visits in one request: POST /product/visit/batch counts each as if it had come on its own; POST /product/visit/list
// answers the counts of many products, creates nothing and links nothing.

import t, { type Test } from 'tap';
import type { Counting } from '../../src/profiles/counting.js';
import type { Places } from '../../src/profiles/places.js';
import { Visitors } from '../../src/profiles/visitors.js';
import { type Answer, eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis, type TestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import { until } from '../harness/until.js';

const BATCH = '/product/visit/batch';
const LIST = '/product/visit/list';
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
  app.post(BATCH + query, { visits }, TRUSTED);
const listOf = (identity: object, ...productHandles: unknown[]) => ({ identity, productHandles });
const list = async (app: TestApp, identity: object, ...handles: string[]) =>
  (await app.post(LIST, listOf(identity, ...handles), TRUSTED)).json;
const visitEach = async (app: TestApp, identity: object, ...handles: string[]): Promise<string> => {
  const answers = await Promise.all(handles.map((handle) => app.shop.visit(identity, handle)));
  return answers[0]?.profileId as string;
};
const issuesOf = (t: Test, { status, json }: Answer): string[] => {
  t.equal(status, 400);
  return json.issues.map(({ path }: { path: string }) => path).sort();
};

/** On one Redis and on a cluster: visitors of several slots are one batch. */
function assertEachCountedOnce(t: Test, redis: TestRedis, rounds: number): void {
  t.test('each visit of a batch is counted once, whatever its visits link', async (t) => {
    const app = await startApp(t, redis);
    const sessions = ['s1', 's2', 's3', 's4'];
    const customers = ['c1', 'c2', 'c3'];
    const random = randomNumbers(20_261_122);
    const pick = (names: readonly string[]) => names[random(names.length)] as string;
    let sent: Record<string, number> = {};
    for (let round = 0; round < rounds; round++) {
      // New names now and then: what links do depends on who is known.
      const era = Math.floor(round / 4);
      if (round % 4 === 0) sent = { p: 0, q: 0 };
      const visits = many(1 + random(16), () => {
        const ids: Record<string, string> = {};
        const kind = random(3);
        if (kind !== 0) ids['customerId'] = `${pick(customers)}-${era}`;
        if (kind !== 1) ids['sessionId'] = `${pick(sessions)}-${era}`;
        return { identity: ids, productHandle: pick(['p', 'q']) };
      });
      const { results } = (await send(app, visits)).json;
      t.equal(
        results.filter(({ profileId }: { profileId?: string }) => profileId !== undefined).length,
        visits.length,
      );
      const names = [
        ...customers.map((name) => ({ customerId: `${name}-${era}` })),
        ...sessions.map((name) => ({ sessionId: `${name}-${era}` })),
      ];
      for (const { productHandle } of visits) sent[productHandle] = (sent[productHandle] ?? 0) + 1;
      const states = await Promise.all(names.map((identity) => list(app, identity, 'p', 'q')));
      const counts = new Map<string, { p: number; q: number }>();
      for (const state of states) counts.set(state.profileId, state.counts);
      const sum = (handle: 'p' | 'q') => [...counts.values()].reduce((all, one) => all + one[handle], 0);
      if (!t.same({ p: sum('p'), q: sum('q') }, sent, `round ${round}`))
        return t.comment(JSON.stringify(visits));
    }
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

eachRedis(t, async (t, redis) => {
  const isCluster = redis.urls.length > 1;
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  assertEachCountedOnce(t, redis, isCluster ? 4 : 16);

  t.test('a list creates and links nothing; the profile is where a write would land', async (t) => {
    const session = await visitEach(app, { sessionId: 's-known' }, 'a', 'a');
    const customer = await visitEach(app, { customerId: 'c-known' }, 'a');
    await visitEach(app, { customerId: 'c-linked', sessionId: 's-linked' }, 'a', 'b');
    const cases: [string, Ids, string | undefined, number][] = [
      ['an unknown session', { sessionId: 's-new' }, undefined, 0],
      ['an unknown customer', { customerId: 'c-new' }, undefined, 0],
      ['two unknown ids', { customerId: 'c-new-2', sessionId: 's-new-2' }, undefined, 0],
      ['a linked session', { sessionId: 's-linked' }, undefined, 1],
      ['a linked customer', { customerId: 'c-linked', sessionId: 's-linked' }, undefined, 1],
      ['a known customer, an unknown session', { customerId: 'c-known', sessionId: 's-new' }, customer, 1],
      ['an unknown customer, a known session', { customerId: 'c-new', sessionId: 's-known' }, session, 2],
      ['both known, not linked yet', { customerId: 'c-known', sessionId: 's-known' }, customer, 1],
    ];
    const before = await dumpRedis(redis, app.prefix);
    const profiles: string[] = [];
    for (const [what, ids, expected, count] of cases) {
      const { profileId, counts } = await list(app, ids, 'a', 'none');
      t.same(counts, { a: count, none: 0 }, what);
      if (expected !== undefined) t.equal(profileId, expected, what);
      const read = await app.get(withQuery('/product/visit', { ...ids, productHandle: 'a' }), TRUSTED);
      t.same(read.json, { profileId, productHandle: 'a', count }, `${what}: as a single read`);
      profiles.push(profileId);
    }
    t.same(await dumpRedis(redis, app.prefix), before, 'nothing was written');
    for (const [i, [what, identity]] of cases.slice(0, 3).entries())
      t.equal(await visitEach(app, identity, 'a'), profiles[i], `${what}: its first write gets that profile`);
  });

  if (isCluster) return frozenNode(t, redis);

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
    for (const value of ['false', '']) {
      const { results } = (await send(app, [visitOf('often')], `?count=${value}`)).json;
      t.same(Object.keys(results[0]), ['profileId', 'productHandle']);
    }
    t.match(await send(app, [visitOf('often')], '?count=1'), {
      status: 400,
      json: { issues: [{ path: '/count' }] },
    });
  });

  t.test('an Idempotency-Key is not looked at', async (t) => {
    for (const value of ['key', 'key', '']) {
      const headers = { ...TRUSTED, 'idempotency-key': value };
      t.equal((await app.post(BATCH, { visits: [visitOf('again')] }, headers)).status, 200);
    }
    t.equal(await app.shop.count({ sessionId: 'again' }, 'p'), 3);
  });

  t.test('500 visits and 524,288 bytes are taken, and are one script call', async (t) => {
    const calls = async () => (await app.figure('batch_operations_count{script="countVisits"}')) ?? 0;
    const before = await calls();
    const visits = many(500, (i) => visitOf(`limit-${i}`));
    const empty = JSON.stringify({ visits, fill: '' });
    const body = JSON.stringify({ visits, fill: 'x'.repeat(MAX_BODY - empty.length) });
    const { status, json } = await app.post(BATCH, body, TRUSTED);
    t.same([status, json.results.length], [200, 500]);
    t.equal(new Set(json.results.map((one: { profileId: string }) => one.profileId)).size, 500);
    t.equal(await calls(), before + 1);
    const dump = await dumpRedis(redis, app.prefix);
    t.match(await app.post(BATCH, ` ${body}`, TRUSTED), { status: 413, json: { code: 'payload_too_large' } });
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
    for (const [visits, paths] of wrong) t.same(issuesOf(t, await send(app, visits)), paths);
    const long = await app.post(BATCH, { visits: new Array(200_000).fill(0) }, TRUSTED);
    t.equal(long.json.issues.length, 50, 'no answer lists more');
    for (const body of ['null', '[]', '"visits"', '{'])
      t.match(await app.post(BATCH, body, TRUSTED), { status: 400 });
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a profile at MAX_PRODUCTS has a result of its own; the others are counted', async (t) => {
    const capped = await startApp(t, redis, { env: { MAX_PRODUCTS: '2' } });
    await send(capped, [visitOf('full', 'a'), visitOf('full', 'b')]);
    const visits = [visitOf('full', 'a'), visitOf('full', 'c'), visitOf('free', 'c')];
    const { status, json } = await send(capped, visits, '?count=true');
    t.equal(status, 200);
    t.match(json.results, [{ productHandle: 'a', count: 2 }, Object, { productHandle: 'c', count: 1 }]);
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

  t.test('for RATE_LIMIT a batch is as many requests as it has visits', async (t) => {
    const limited = () => startApp(t, redis, { env: { RATE_LIMIT: '5' }, timing: { now: () => 1_000 } });
    const visits = many(6, () => visitOf('s'));
    t.match(await send(await limited(), visits), { status: 400, json: { code: 'invalid_request' } });
    const empty = await limited();
    const asked = await Promise.all(many(11, () => send(empty, [])));
    const statuses = [...new Set(asked.map(({ status }) => status))].sort();
    t.same(statuses, [400, 429], 'one without visits is one request');
    const app = await limited();
    t.equal((await send(app, visits.slice(1))).status, 200);
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

  t.test('a list has the count of each product, once, 0 where nothing was recorded', async (t) => {
    const identity = { sessionId: 's-guest', device: 'mobile' };
    const profileId = await visitEach(app, identity, 'a', 'b', 'a', 'c');
    const answer = await app.post(LIST, listOf(identity, 'b', 'a', 'none', 'b'));
    t.match(answer, { status: 200, headers: { 'content-type': 'application/json' } });
    t.equal(answer.text, `{"profileId":"${profileId}","counts":{"b":1,"a":2,"none":0}}`);
  });

  t.test('handles that mean something to JavaScript or JSON are just names', async (t) => {
    const names = ['__proto__', 'constructor', 'toString', '"quoted"', 'back\\slash', '1', '😀', 'a b'];
    await visitEach(app, { sessionId: 'names' }, ...names);
    const { text, json } = await app.post(LIST, listOf({ sessionId: 'names' }, ...names, 'hasOwnProperty'));
    t.equal(Object.keys(json.counts).length, names.length + 1);
    t.match(text, '{"__proto__":1,"constructor":1,');
    t.match(text, ',"hasOwnProperty":0}');
  });

  t.test('100 products are taken; every fault is named by its path', async (t) => {
    const handles = Array.from({ length: 101 }, (_, i) => `p${i}`);
    const full = await list(app, { sessionId: 'limits' }, ...handles.slice(0, 100));
    t.equal(Object.keys(full.counts).length, 100);
    const who = { sessionId: 's-guest' };
    const cases: [body: unknown, paths: string[]][] = [
      [listOf(who, ...handles), ['/productHandles']],
      [listOf(who), ['/productHandles']],
      [listOf(who, 'a', '', 5, null, 'x'.repeat(256)), [1, 2, 3, 4].map((i) => `/productHandles/${i}`)],
      [listOf({ sessionId: 'null' }, ''), ['/identity/sessionId', '/productHandles/0']],
      [{}, ['/identity', '/productHandles']],
      [{ identity: {}, productHandles: 'a' }, ['/identity', '/productHandles']],
      ['null', ['']],
    ];
    for (const [body, paths] of cases)
      t.same(issuesOf(t, await app.post(LIST, body)), paths, JSON.stringify(body).slice(0, 80));
    const long = issuesOf(t, await app.post(LIST, listOf(who, ...new Array(20_000).fill(0))));
    t.equal(long.length, 50, 'no answer lists more');
  });

  t.test('without the right to link, both ids read the customer', async (t) => {
    const open = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' }, prefix: app.prefix });
    const ids = { customerId: 'c-open', sessionId: 's-open' };
    await visitEach(app, { sessionId: 's-open' }, 'a', 'a');
    t.same((await list(app, ids, 'a')).counts, { a: 2 }, "the session's, which a link would give");
    const answer = await open.post(LIST, listOf(ids, 'a'));
    const customer = await visitEach(app, { customerId: 'c-open' }, 'a');
    t.same(answer.json, { profileId: customer, counts: { a: 0 } });
  });

  t.test('a storefront reads the list of the customer who is logged in', async (t) => {
    await visitEach(app, { sessionId: 's' }, 'a');
    await visitEach(app, { customerId: '7' }, 'a', 'a');
    const bySession = listOf({ sessionId: 's' }, 'a');
    t.same((await postProxied(app, LIST, '7', bySession)).json.counts, { a: 2 });
    t.same((await postProxied(app, LIST, '', bySession)).json.counts, { a: 1 });
    t.match(await postProxied(app, LIST, '8', listOf({ customerId: '7' }, 'a')), { status: 403 });
  });
});

/** A batch while a node of the cluster is frozen. */
function frozenNode(t: Test, redis: TestRedis): void {
  t.test('of a frozen node the visits are named', async (t) => {
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
    const again = await send(patient, left, '?count=true');
    const counts = again.json.results.map(({ count }: { count: number }) => count);
    t.same([...new Set(counts)], [2], 'counted once each');
    const failed = pairs.filter((_, i) => !isDone(plain.length + i));
    t.equal((await send(patient, failed)).status, 200);
    for (let i = 0; i < 60; i++) t.equal(await patient.shop.count({ customerId: `c-${i}` }, 'p'), 2);
  });
}

// Between two batches of one request Redis does what others ask, for microseconds: too short for a test with a server.
t.test('an answer is about one profile: what was read while the visitor moved is read again', async (t) => {
  const moves = (rounds: number) => {
    let reads = 0;
    const run = async () => {
      const isAtNew = reads++ % 2 === 1 || reads > 2 * rounds;
      return { profileId: isAtNew ? 'new' : 'old', answer: isAtNew ? 7 : 1 };
    };
    const places = { run } as unknown as Places;
    const counting = { at: () => {} } as unknown as Counting;
    return new Visitors({ places, counting } as ConstructorParameters<typeof Visitors>[0]);
  };
  const read = (rounds: number) => moves(rounds).readAll(identityOf({ sessionId: 's' }), true, ['a', 'b']);
  for (const rounds of [0, 3]) t.same(await read(rounds), { profileId: 'new', counts: [7, 7] });
  await t.rejects(read(100), { code: 'unavailable' }, 'not for ever');
});
