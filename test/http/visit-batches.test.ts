// POST /product/visit/batch: many visits in one request, each counted as if it had come on its own.

import t, { type Test } from 'tap';
import { type Answer, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestCluster, startTestRedis, type TestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const VISIT = '/product/visit';
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

function send(app: TestApp, visits: unknown, query = ''): Promise<Answer> {
  return app.post(PATH + query, { visits }, TRUSTED);
}

async function read(app: TestApp, identity: Ids, productHandle = 'p') {
  const { json } = await app.get(withQuery(VISIT, { ...identity, productHandle }), TRUSTED);
  return json as { readonly profileId: string; readonly count: number };
}

/** Answered with an error, and Redis is as it was. */
async function isRefused(
  t: Test,
  redis: TestRedis,
  app: TestApp,
  expected: object,
  ask: () => Promise<Answer>,
) {
  const before = await dumpRedis(redis, app.prefix);
  const answer = await ask();
  t.match(answer, expected, answer.text.slice(0, 200));
  t.same(await dumpRedis(redis, app.prefix), before, 'nothing is counted');
}

/** On one Redis and on a cluster: visitors of several slots are one batch. */
async function onEither(t: Test, redis: TestRedis, rounds: number): Promise<void> {
  const app = await startApp(t, redis);

  t.test('each visit is counted and has its result, in order, exactly as the contract has it', async (t) => {
    const { profileId } = (await app.post(VISIT, visitOf('one'))).json;
    const visits = [
      visitOf('one'),
      visitOf('two', '__proto__'),
      { identity: { customerId: '7' }, productHandle: 'p' },
    ];
    const answer = await send(app, visits);
    t.match(answer, { status: 200, headers: { 'content-type': 'application/json' } });
    const [two, seven] = [
      await read(app, { sessionId: 'two' }, '__proto__'),
      await read(app, { customerId: '7' }),
    ];
    const results = [
      `{"profileId":"${profileId}","productHandle":"p"}`,
      `{"profileId":"${two.profileId}","productHandle":"__proto__"}`,
      `{"profileId":"${seven.profileId}","productHandle":"p"}`,
    ];
    t.equal(answer.text, `{"results":[${results.join()}]}`);
    t.same([two.count, seven.count, (await read(app, { sessionId: 'one' })).count], [1, 1, 2]);
  });

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
      for (const visit of visits) one.push((await alone.post(VISIT, visit, TRUSTED)).json);
      const { results } = (await send(together, visits)).json;
      const names = [
        ...customers.map((name) => ({ customerId: `${name}-${era}` })),
        ...sessions.map((name) => ({ sessionId: `${name}-${era}` })),
      ];
      const state = (app: TestApp): Promise<{ profileId: string; counts: object }[]> =>
        Promise.all(
          names.map(async (identity) => {
            const body = { identity, productHandles: ['p', 'q'] };
            return (await app.post(`${VISIT}/list`, body, TRUSTED)).json;
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
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  await onEither(t, redis, 20);
  const app = await startApp(t, redis);

  t.test('one visitor several times is counted so many times; ?count=true tells each count', async (t) => {
    const visits = many(30, (i) => visitOf('often', i % 3 ? 'p' : 'q'));
    const { json } = await send(app, visits, '?count=true');
    const counts = (handle: string) =>
      json.results.flatMap((one: Visit & { count: number }) =>
        one.productHandle === handle ? one.count : [],
      );
    t.same(
      counts('p'),
      many(20, (i) => i + 1),
    );
    t.same(
      counts('q'),
      many(10, (i) => i + 1),
    );
    for (const value of ['false', '1', '']) {
      const { results } = (await send(app, [visitOf('often')], `?count=${value}`)).json;
      t.same(Object.keys(results[0]), ['profileId', 'productHandle']);
    }
    t.equal((await read(app, { sessionId: 'often' })).count, 23);
  });

  t.test('an Idempotency-Key is not looked at', async (t) => {
    for (const value of ['key', 'key', '']) {
      const headers = { ...TRUSTED, 'idempotency-key': value };
      t.equal((await app.post(PATH, { visits: [visitOf('again')] }, headers)).status, 200);
    }
    t.equal((await read(app, { sessionId: 'again' })).count, 3);
  });

  t.test('500 visits are taken, none and 501 are not', async (t) => {
    const { status, json } = await send(
      app,
      many(500, (i) => visitOf(`limit-${i}`)),
    );
    t.same([status, json.results.length], [200, 500]);
    t.equal(new Set(json.results.map((one: { profileId: string }) => one.profileId)).size, 500);
    for (const [visits, message] of [
      [many(501, (i) => visitOf(`over-${i}`)), 'must have at most 500'],
      [[], 'must have at least 1'],
    ] as const) {
      const issues = [{ path: '/visits', message }];
      await isRefused(t, redis, app, { status: 400, json: { code: 'invalid_request', issues } }, () =>
        send(app, visits),
      );
    }
  });

  t.test('a body of 524,288 bytes passes and one of 524,289 does not', async (t) => {
    const bodyOf = (bytes: number) => {
      const empty = JSON.stringify({ visits: [visitOf('large')], fill: '' });
      return JSON.stringify({ visits: [visitOf('large')], fill: 'x'.repeat(bytes - empty.length) });
    };
    t.equal((await app.post(PATH, bodyOf(MAX_BODY), TRUSTED)).status, 200);
    const expected = { status: 413, json: { code: 'payload_too_large' } };
    await isRefused(t, redis, app, expected, () => app.post(PATH, bodyOf(MAX_BODY + 1), TRUSTED));
    t.equal((await app.post(VISIT, bodyOf(65_537), TRUSTED)).status, 413, 'other bodies are as they were');
  });

  t.test('all faults of all entries are told, and nothing is counted', async (t) => {
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
      [[good, { identity: {}, productHandle: 'p' }], ['/visits/1/identity']],
      [{ 0: good }, ['/visits']],
      [undefined, ['/visits']],
    ];
    for (const [visits, paths] of wrong) {
      await isRefused(t, redis, app, { status: 400 }, async () => {
        const answer = await send(app, visits);
        t.same(answer.json.issues.map((issue: { path: string }) => issue.path).sort(), paths);
        return answer;
      });
    }
    const long = await app.post(PATH, { visits: new Array(200_000).fill(0) }, TRUSTED);
    t.equal(long.json.issues.length, 502, 'the list, and its first 501 entries');
    for (const body of ['null', '[]', '"visits"'])
      t.match(await app.post(PATH, body, TRUSTED), { status: 400 });
    t.match(await app.post(PATH, '{', TRUSTED), { status: 400, json: { code: 'invalid_json' } });
    const typed = { ...TRUSTED, 'content-type': 'text/plain' };
    t.match(await app.post(PATH, { visits: [good] }, typed), { status: 415 });
  });

  t.test('a profile at MAX_PRODUCTS is told of on its own; the others are counted', async (t) => {
    const capped = await startApp(t, redis, { env: { MAX_PRODUCTS: '2' } });
    await send(capped, [visitOf('full', 'a'), visitOf('full', 'b')]);
    const visits = [visitOf('full', 'a'), visitOf('full', 'c'), visitOf('free', 'c')];
    const { status, json } = await send(capped, visits, '?count=true');
    t.equal(status, 200);
    t.match(json.results, [{ productHandle: 'a', count: 2 }, {}, { productHandle: 'c', count: 1 }]);
    t.same(json.results[1], {
      error: 'This profile counts as many products as it may.',
      code: 'too_many_products',
    });
    const none = { status: 200, json: { results: [{ code: 'too_many_products' }] } };
    await isRefused(t, redis, capped, none, () => send(capped, [visitOf('full', 'c')]));
    const ids = { customerId: 'c', sessionId: 'full' };
    const linking = await send(capped, [
      { identity: ids, productHandle: 'c' },
      { identity: ids, productHandle: 'a' },
    ]);
    t.match(
      linking.json.results,
      [{ code: 'too_many_products' }, { productHandle: 'a' }],
      'no caller waits for it',
    );
  });

  t.test('the visits of a batch are one script call', async (t) => {
    const calls = async () =>
      /^wishmeter_batch_operations_count\{script="visits"\} (\d+)$/m.exec(await app.figures())?.[1] ?? '0';
    const before = Number(await calls());
    await send(
      app,
      many(100, (i) => visitOf(`call-${i}`)),
    );
    t.equal(Number(await calls()) - before, 1);
  });

  t.test('it is for servers', async (t) => {
    const [key, origin] = ['pk_0123456789abcdef', 'https://shop.example'];
    const env = {
      PUBLISHABLE_KEYS: key,
      ALLOWED_ORIGINS: origin,
      SHOPIFY_SECRET: SECRET,
      VISIT_ACCESS: 'open',
    };
    const app = await startApp(t, redis, { env });
    const body = { visits: [visitOf('s')] };
    const unauthorized = {
      status: 401,
      headers: { 'www-authenticate': 'Bearer' },
      json: { code: 'unauthorized' },
    };
    const forbidden = { status: 403, json: { code: 'forbidden' } };
    await isRefused(t, redis, app, unauthorized, () => app.post(PATH, body));
    await isRefused(t, redis, app, unauthorized, () =>
      app.post(PATH, body, { 'x-api-key': 'sk_wrong_0123456789' }),
    );
    await isRefused(t, redis, app, forbidden, () => app.post(PATH, body, { 'x-api-key': key, origin }));
    await isRefused(t, redis, app, forbidden, () => postProxied(app, PATH, '', body));
    await isRefused(t, redis, app, forbidden, () => postProxied(app, PATH, '7', body));
    t.equal((await send(app, body.visits)).status, 200);
  });

  t.test('for RATE_LIMIT a batch is as many requests as it has visits', async (t) => {
    const limited = () => startApp(t, redis, { env: { RATE_LIMIT: '5' }, timing: { now: () => 1_000 } });
    const batch = (app: TestApp, count: number, of = 's') =>
      send(
        app,
        many(count, () => visitOf(of)),
      );
    const never = {
      status: 400,
      json: { code: 'invalid_request', error: /as 6 requests, and RATE_LIMIT is 5/ },
    };
    const fresh = await limited();
    t.equal((await batch(fresh, 5)).status, 200, 'as many as may be');
    const strict = await limited();
    await isRefused(t, redis, strict, never, () => batch(strict, 6));
    const faulty = await limited();
    await isRefused(t, redis, faulty, never, () => send(faulty, new Array(6).fill(0)));
    const empty = await limited();
    const asked = await Promise.all(Array.from({ length: 11 }, () => send(empty, [])));
    t.same(
      [...new Set(asked.map(({ status }) => status))].sort(),
      [400, 429],
      'one without visits is one request',
    );
    const wrong = await limited();
    await isRefused(t, redis, wrong, { status: 400 }, () => send(wrong, 'x'));
    const ones = await limited();
    const answers = await Promise.all(Array.from({ length: 5 }, () => batch(ones, 1)));
    t.ok(
      answers.every(({ status }) => status === 200),
      'a batch of one is one request',
    );

    const app = await limited();
    t.equal((await batch(app, 5)).status, 200);
    t.equal((await app.post(VISIT, visitOf('s'), TRUSTED)).status, 429);
    const other = await startApp(t, redis, { prefix: app.prefix });
    t.equal((await read(other, { sessionId: 's' })).count, 5, 'what was refused was not counted');
  });

  t.test('where Redis is away it is 503', async (t) => {
    const redis = await startTestRedis();
    const app = await startApp(t, redis, { timeoutMs: 500 });
    await redis.stop();
    const both = { identity: { customerId: 'c', sessionId: 's' }, productHandle: 'p' };
    for (const visits of [many(500, (i) => visitOf(`away-${i}`)), new Array(500).fill(both)]) {
      t.match(await send(app, visits), {
        status: 503,
        headers: { 'retry-after': '1' },
        json: { code: 'unavailable', error: String },
      });
    }
  });
});

t.test('on a Redis Cluster', async (t) => {
  const redis = await startTestCluster();
  t.teardown(() => redis.stop());
  await onEither(t, redis, 8);
  const patient = await startApp(t, redis);
  const app = await startApp(t, redis, { timeoutMs: 2_000, prefix: patient.prefix });
  const pid = redis.pids[1] as number;
  t.teardown(() => process.kill(pid, 'SIGCONT'));
  const whileFrozen = async (visits: readonly unknown[], query = '') => {
    process.kill(pid, 'SIGSTOP');
    const { status, json } = await send(app, visits, query);
    t.equal(status, 200);
    process.kill(pid, 'SIGCONT');
    await until('the node is there', async () => (await patient.get('/readyz')).status === 200);
    return json.results as { code?: string }[];
  };

  t.test('visits of a frozen node are named in the results and may be sent again', async (t) => {
    const visits = many(60, (i) => visitOf(`node-${i}`));
    t.equal((await send(patient, visits)).status, 200);
    const results = await whileFrozen(visits, '?count=true');
    const left = visits.filter((_, i) => results[i]?.code !== undefined);
    t.ok(left.length > 0 && left.length < 60, `${left.length} of 60 were not counted`);
    const unavailable = { error: 'The store does not answer; send the request again.', code: 'unavailable' };
    for (const [i, visit] of visits.entries()) {
      if (left.includes(visit)) t.same(results[i], unavailable);
      else t.match(results[i], { productHandle: 'p', count: 2 });
    }
    const again = await send(patient, left, '?count=true');
    t.same(
      [...new Set(again.json.results.map((one: { count: number }) => one.count))],
      [2],
      'counted once each',
    );
  });

  t.test(
    'a visit that waits for one that failed is not tried: both are sent again, in their order',
    async (t) => {
      const visits = many(60, (i) => [
        { identity: { customerId: `c-${i}`, sessionId: `s-${i}` }, productHandle: 'p' },
        visitOf(`s-${i}`),
      ]).flat();
      const results = await whileFrozen(visits);
      const isDone = (i: number) => results[i]?.code === undefined;
      const failed = visits.filter((_, i) => !isDone(i));
      t.ok(failed.length > 0 && failed.length < visits.length, `${failed.length} of 120 were not counted`);
      for (let i = 0; i < visits.length; i += 2) t.ok(isDone(i) || !isDone(i + 1), `pair ${i / 2}`);
      t.equal((await send(patient, failed)).status, 200);
      for (let i = 0; i < 60; i++) t.equal((await read(patient, { customerId: `c-${i}` })).count, 2);
    },
  );
});
