// POST, GET and DELETE /product/visit, /batch and /list: what they answer, count and log. Robots are not counted.

import t from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { BROWSER, proxied, SHOPPERS } from '../harness/app-proxy.js';
import type { Answer } from '../harness/client.js';
import { startTestRedis } from '../harness/redis.js';
import { HANDLE } from '../harness/shop.js';

const PATH = '/product/visit';
const BATCH = '/product/visit/batch';
const LIST = '/product/visit/list';
const MAX_BODY = 524_288;

type Ids = Readonly<Record<string, string>>;
const visitOf = (sessionId: string, productHandle = HANDLE, device: string | null = null) => ({
  identity: { sessionId, device },
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
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const keyed = (key: string) => ({ ...TRUSTED, 'idempotency-key': key });
  /** The logged visits as sorted texts: visits of different entries have no order. */
  const logged = async (of: TestApp) =>
    (await of.visitLog())
      .flat()
      .map((columns) => columns.join(' '))
      .sort();

  t.test('each visit of a batch is counted once, whichever ids the batch links', async (t) => {
    const app = await startApp(t, redis);
    const random = randomNumbers(20_261_122);
    const handles = ['p', 'q'] as const;
    // New ids in each era: what a link does depends on which ids are known.
    for (let era = 0; era < (redis.urls.length > 1 ? 1 : 4); era++) {
      const sent = { p: 0, q: 0 };
      for (let round = 0; round < 4; round++) {
        const visits = many(1 + random(16), () => {
          const kind = random(3);
          const customer = kind === 0 ? {} : { customerId: `c${random(3)}-${era}` };
          const session = kind === 1 ? {} : { sessionId: `s${random(4)}-${era}` };
          return { identity: { ...customer, ...session }, productHandle: handles[random(2)] as 'p' | 'q' };
        });
        for (const { productHandle } of visits) sent[productHandle]++;
        const { results } = (await send(app, visits)).json;
        t.ok(results.length === visits.length && results.every((one: object) => 'profileId' in one));
        const people = [
          ...many(3, (n) => ({ customerId: `c${n}-${era}` })),
          ...many(4, (n) => ({ sessionId: `s${n}-${era}` })),
        ];
        const states = await Promise.all(people.map((identity) => list(app, identity, ...handles)));
        const counts = [...new Map(states.map((state) => [state.profileId, state.counts])).values()];
        const sum = (handle: 'p' | 'q') => counts.reduce((all, one) => all + one[handle], 0);
        t.same({ p: sum('p'), q: sum('q') }, sent, JSON.stringify(visits));
      }
    }
  });

  t.test('the visit log has each visit once: with a key, with a count, in a batch, or linked', async (t) => {
    const app = await startApp(t, redis);
    const expected: string[] = [];
    const expect = (profileId: string, handle: string, device: string) =>
      expected.push(`${profileId} ${handle} ${device}`);

    for (let i = 0; i < 20; i++) {
      const { json } = await app.post(PATH, visitOf(`plain-${i}`, `p${i % 3}`, 'desktop'));
      expect(json.profileId, `p${i % 3}`, 'desktop');
    }
    const counted = await app.post(`${PATH}?count=true`, visitOf('plain-0', 'p0', 'tv'));
    t.equal(counted.json.count, 2);
    expect(counted.json.profileId, 'p0', 'tv');
    for (let i = 0; i < 8; i++) {
      const body = visitOf(`keyed-${i}`, 'keyed', 'phone');
      const first = await app.post(PATH, body, keyed(`key-${i}`));
      t.same((await app.post(PATH, body, keyed(`key-${i}`))).json, first.json, 'the same key again');
      expect(first.json.profileId, 'keyed', 'phone');
    }
    const visits = Array.from({ length: 50 }, (_, i) => visitOf(`batch-${i % 20}`, `b${i}`, 'tablet'));
    const { json } = await app.post(`${PATH}/batch`, { visits }, TRUSTED);
    for (const { profileId, productHandle } of json.results) expect(profileId, productHandle, 'tablet');
    const [session, customer] = [{ sessionId: 'linked' }, { customerId: '77' }];
    for (const who of [{ ...session, ...customer }, session, customer]) {
      const { profileId } = await app.shop.visit({ ...who, device: 'watch' }, 'linked');
      expect(profileId, 'linked', 'watch');
    }
    t.equal(new Set(expected.slice(-3)).size, 1, 'three visits under one profile');
    t.same(await logged(app), expected.sort());
    t.equal(await app.figure('visits_not_logged_total'), 0);
  });

  t.test(
    'POST /product/visit/list creates and links nothing, and returns the profile id that a write would get',
    async (t) => {
      await visitEach(app, { sessionId: 's-known' }, 'a', 'a');
      const customer = await visitEach(app, { customerId: 'c-known' }, 'a');
      await visitEach(app, { customerId: 'c-linked', sessionId: 's-linked' }, 'a', 'b');
      const cases: [string, Ids, string | undefined, number][] = [
        ['an unknown session', { sessionId: 's-new' }, undefined, 0],
        ['an unknown customer', { customerId: 'c-new' }, undefined, 0],
        ['two unknown ids', { customerId: 'c-new-2', sessionId: 's-new-2' }, undefined, 0],
        ['a linked session', { sessionId: 's-linked' }, undefined, 1],
        ['a linked customer', { customerId: 'c-linked', sessionId: 's-linked' }, undefined, 1],
        ['a known customer, an unknown session', { customerId: 'c-known', sessionId: 's-new' }, customer, 1],
        ['an unknown customer, a known session', { customerId: 'c-new', sessionId: 's-known' }, undefined, 0],
        ['both known, not linked yet', { customerId: 'c-known', sessionId: 's-known' }, customer, 1],
      ];
      const several = await app.post(LIST, listOf({ sessionId: 's-linked' }, 'b', 'a', 'none', 'b'), TRUSTED);
      t.match(several.text, /"counts":{"b":1,"a":1,"none":0}}$/, 'each product once');
      const before = await app.dump();
      const profiles: string[] = [];
      for (const [what, ids, expected, count] of cases) {
        const { profileId, counts } = await list(app, ids, 'a', 'none');
        t.same(counts, { a: count, none: 0 }, what);
        if (expected !== undefined) t.equal(profileId, expected, what);
        const read = await app.get(withQuery('/product/visit', { ...ids, productHandle: 'a' }), TRUSTED);
        t.same(read.json, { profileId, productHandle: 'a', count }, `${what}: as a single read`);
        profiles.push(profileId);
      }
      t.same(await app.dump(), before, 'nothing was written');
      for (const [i, [what, identity]] of cases.slice(0, 3).entries()) {
        t.equal((await app.shop.reset(identity)).profileId, profiles[i], `${what}: a reset names it, too`);
        t.equal(await visitEach(app, identity, 'a'), profiles[i], `${what}: its first write gets it`);
      }
    },
  );

  // The tests below cross no slots.
  if (redis.urls.length > 1) return;

  t.test('a visit is counted, read and reset with exactly the bodies of the contract', async (t) => {
    const posted = await app.post(PATH, visitOf('guest-1'));
    t.match(posted, { status: 200, headers: { 'content-type': 'application/json' } });
    const { profileId } = posted.json;
    t.same(posted.json, { profileId, productHandle: HANDLE });
    const query = withQuery(PATH, { sessionId: 'guest-1', productHandle: HANDLE, device: 'desktop' });
    t.equal((await app.get(query)).text, JSON.stringify({ profileId, productHandle: HANDLE, count: 1 }));
    const counted = await app.post(`${PATH}?count=true`, visitOf('guest-1'));
    t.same(counted.json, { profileId, productHandle: HANDLE, count: 2 });
    t.equal(await app.shop.count({ sessionId: 'guest-1' }), 2);
    t.equal(await app.shop.count({ sessionId: 'guest-1' }, 'blue-shoe'), 0, 'another product');
    for (let i = 0; i < 2; i++) {
      const reset = await app.del(PATH, visitOf('guest-1'));
      t.match(reset, { status: 200 }, 'resetting what is 0 is no error');
      t.same(reset.json, { profileId, productHandle: HANDLE });
    }
    t.same((await app.get(query)).json, { profileId, productHandle: HANDLE, count: 0 });
  });

  t.test(
    'DELETE /product/visit reads the query if a proxy dropped the body, and otherwise the body',
    async (t) => {
      for (const sessionId of ['guest-3', 'guest-4']) await app.shop.visit({ sessionId });
      await app.shop.visit({ sessionId: 'guest-3' }, 'kept');
      const query = withQuery(PATH, { sessionId: 'guest-3', productHandle: HANDLE });
      await app.del(query, visitOf('guest-4'));
      t.equal(await app.shop.count({ sessionId: 'guest-3' }), 1);
      t.equal(await app.shop.count({ sessionId: 'guest-4' }), 0);
      t.match(await app.del(query), { status: 200, json: { productHandle: HANDLE } });
      t.equal(await app.shop.count({ sessionId: 'guest-3' }), 0);
      t.equal(await app.shop.count({ sessionId: 'guest-3' }, 'kept'), 1);
    },
  );

  t.test('reads, resets and refused visits are not in the visit log', async (t) => {
    const app = await startApp(t, redis, { env: { MAX_PRODUCTS: '2' } });
    const who = { sessionId: 'full' };
    for (const handle of ['a', 'b']) await app.shop.visit(who, handle);
    const before = await logged(app);
    t.equal(before.length, 2);
    t.equal((await app.post(PATH, visitOf('full', 'c'))).status, 409);
    t.equal((await app.post(PATH, visitOf('full', 'c'), keyed('refused'))).status, 409);
    await app.shop.count(who, 'a');
    await app.shop.reset(who, 'a');
    t.same(await logged(app), before);
    const visits = [...['b', 'd', 'e'].map((handle) => visitOf('full', handle)), visitOf('free', 'e')];
    const { status, json } = await send(app, visits, '?count=true');
    const refused = { error: String, code: 'too_many_products' };
    t.match([status, ...json.results], [200, { count: 2 }, { count: 1 }, refused, { count: 1 }]);
    const after = (await logged(app)).map((line) => line.split(' ')[1]);
    t.same(after.sort(), ['a', 'b', 'b', 'd', 'e'], 'of a batch those that were counted');
  });

  t.test('the visit log keeps handles and devices of any characters', async (t) => {
    const app = await startApp(t, redis);
    const handle = `${'\\'.repeat(250)}ü"'$`;
    const visit = visitOf('odd', handle, 'back\\slash ü');
    const { json } = await app.post(PATH, visit, TRUSTED);
    await app.post(PATH, visit);
    const logged = [json.profileId, handle.replaceAll('\\', '\\\\')];
    const bySender = [
      [...logged, 'back\\\\slash ü'],
      [...logged, 'other'],
    ];
    t.same((await app.visitLog()).flat(), bySender, "a server's device is kept as it was sent");
  });

  t.test(
    'at VISIT_LOG_HIGH_WATER visits are counted but not logged, and a metric says how many',
    async (t) => {
      const app = await startApp(t, redis, { env: { VISIT_LOG_HIGH_WATER: '200' } });
      for (let count = 1; count <= 40; count++)
        t.match(await app.shop.visit({ sessionId: 'one' }), { count });
      const over = await app.post(`${PATH}?count=true`, visitOf('one'), keyed('over'));
      t.match(over, { status: 200, json: { count: 41 } });
      const visits = await logged(app);
      const bytes = visits.join(' ').length + 1;
      t.ok(bytes <= 200 && bytes > 150, `${bytes} bytes wait`);
      for (const read of ['once', 'and again'])
        t.equal(await app.figure('visits_not_logged_total'), 41 - visits.length, read);
      t.equal(await app.figure('visits_logged_total'), visits.length);
      t.equal(await app.figure('visit_stream_high_water_bytes'), 200);
      const series = /^wishmeter_visit_stream_pending_visits\{stream="\d+"\} (\d+)$/gm;
      const waiting = (await app.stats()).matchAll(series);
      const sum = [...waiting].reduce((all, [, n]) => all + Number(n), 0);
      t.equal(sum, visits.length);
    },
  );

  t.test('with VISIT_LOG=off visits are counted and not logged', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_LOG: 'off' } });
    await app.post(PATH, visitOf('off'));
    await app.post(PATH, visitOf('off'), keyed('off'));
    t.equal(await app.shop.count({ sessionId: 'off' }), 2);
    t.same(await app.visitLog(), []);
  });

  t.test(
    'POST /product/visit/batch answers each visit in order, with exactly the bodies of the contract',
    async (t) => {
      const { profileId } = await app.shop.visit({ sessionId: 'one' });
      const visits = [visitOf('one'), visitOf('two', '__proto__'), visitOf('one')];
      const answer = await send(app, visits);
      t.match(answer, { status: 200, headers: { 'content-type': 'application/json' } });
      const two = await app.shop.visit({ sessionId: 'two' }, '__proto__');
      t.equal(two.count, 2);
      const one = `{"profileId":"${profileId}","productHandle":"${HANDLE}"}`;
      const other = `{"profileId":"${two.profileId}","productHandle":"__proto__"}`;
      t.equal(answer.text, `{"results":[${one},${other},${one}]}`);
      t.equal(await app.shop.count({ sessionId: 'one' }), 3);
    },
  );

  t.test('a batch counts every visit of a visitor, and ?count=true returns each count', async (t) => {
    const visits = many(30, (i) => visitOf('often', i % 3 ? 'p' : 'q'));
    const { results } = (await send(app, visits, '?count=true')).json;
    const counts = (handle: string) =>
      results.flatMap((one: { productHandle: string; count: number }) =>
        one.productHandle === handle ? one.count : [],
      );
    const upTo = (count: number) => many(count, (i) => i + 1);
    t.same([counts('p'), counts('q')], [upTo(20), upTo(10)]);
  });

  t.test('POST /product/visit/batch ignores an Idempotency-Key', async (t) => {
    for (const value of ['key', 'key', '']) {
      const headers = { ...TRUSTED, 'idempotency-key': value };
      t.equal((await app.post(BATCH, { visits: [visitOf('again')] }, headers)).status, 200);
    }
    t.equal(await app.shop.count({ sessionId: 'again' }), 3);
  });

  t.test('a batch of 500 visits and 524,288 bytes is accepted, in one script call', async (t) => {
    const calls = async () => (await app.figure('batch_operations_count{script="countVisits"}')) ?? 0;
    const before = await calls();
    const visits = many(500, (i) => visitOf(`limit-${i}`));
    const empty = JSON.stringify({ visits, fill: '' });
    const body = JSON.stringify({ visits, fill: 'x'.repeat(MAX_BODY - empty.length) });
    const { status, json } = await app.post(BATCH, body, TRUSTED);
    t.same([status, json.results.length], [200, 500]);
    t.equal(new Set(json.results.map((one: { profileId: string }) => one.profileId)).size, 500);
    t.equal(await calls(), before + 1);
    const dump = await app.dump();
    t.match(await app.post(BATCH, ` ${body}`, TRUSTED), { status: 413, json: { code: 'payload_too_large' } });
    t.same(await app.dump(), dump);
  });

  t.test('RATE_LIMIT counts each visit of a batch as a request', async (t) => {
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
    t.equal(await other.shop.count({ sessionId: 's' }), 5, 'what was refused was not counted');
  });

  t.test(
    "a read with both ids returns the customer's counts, with and without the right to link",
    async (t) => {
      const open = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' }, prefix: app.prefix });
      const ids = { customerId: 'c-open', sessionId: 's-open' };
      await visitEach(app, { sessionId: 's-open' }, 'a', 'a');
      const answers = [await list(app, ids, 'a'), (await open.post(LIST, listOf(ids, 'a'))).json];
      const profileId = await visitEach(app, { customerId: 'c-open' }, 'a');
      t.same(answers, Array(2).fill({ profileId, counts: { a: 0 } }));
    },
  );
});

// Real user agents of each kind that the service distinguishes: by a browser engine, and by a robot's name
// without one.
const LINUX = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)';
const ANDROID =
  'AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/139.0.7258.94 Mobile Safari/537.36';
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)';
const DATADOG = `${LINUX} Chrome/139.0.0.0 Safari/537.36 DatadogSynthetics`;
const ROBOTS = [
  DATADOG,
  `${LINUX} HeadlessChrome/139.0.0.0 Safari/537.36`,
  'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
  'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
  'WhatsApp/2.23.20.0',
  'GoogleStackdriverMonitoring-UptimeChecks(https://cloud.google.com/monitoring)',
  'Baiduspider+(+http://www.baidu.com/search/spider.htm)',
  'Iframely/1.3.1 (+https://iframely.com/docs/about) link preview',
];
const VISITORS = [
  `${LINUX} Chrome/139.0.0.0 Safari/537.36`,
  `${IPHONE} Mobile/15E148 Instagram 393.0.0.34.79 (iPhone16,2; iOS 18_6; de_DE; de; scale=3.00; 1290x2796)`,
  `${IPHONE} Mobile/15E148 [Pinterest/iOS]`,
  `Mozilla/5.0 (Linux; Android 13; CUBOT P80 Build/TP1A.220624.014; wv) ${ANDROID}`,
  '',
  'curl/8.14.1',
  'node-fetch/1.0 (+https://github.com/bitinn/node-fetch)',
  'got (https://github.com/sindresorhus/got)',
  'Apache-HttpClient/5.5 (Java/21.0.8)',
];

t.test('robots', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: SHOPPERS });
  let sessions = 0;
  const newVisit = () => visitOf(`r-${sessions++}`);
  const countOf = ({ identity: { sessionId } }: ReturnType<typeof visitOf>) => app.shop.count({ sessionId });
  const from = (userAgent: string) => (userAgent === '' ? {} : { 'user-agent': userAgent });

  t.test('a visit of a robot is answered, and nothing is counted or created', async (t) => {
    const byRobots = async () => Number(await app.figure('visits_by_robots_total'));
    const [before, figure] = [await app.dump(), await byRobots()];
    const visits = ROBOTS.map(newVisit);
    const profiles: string[] = [];
    for (const [i, userAgent] of ROBOTS.entries()) {
      const { status, json } = await app.post(PATH, visits[i], from(userAgent));
      const { profileId } = json;
      t.same([status, json], [200, { profileId, productHandle: HANDLE }], userAgent);
      const counted = await app.post(`${PATH}?count=true`, visits[i], from(userAgent));
      t.same(counted.json, { profileId, productHandle: HANDLE, count: 0 }, userAgent);
      profiles.push(profileId);
    }
    t.same(await app.dump(), before);
    t.equal(await byRobots(), figure + 2 * ROBOTS.length, '/metrics says how many');
    for (const [i, visit] of visits.entries()) {
      t.equal((await app.post(PATH, visit)).json.profileId, profiles[i], 'the profile of a first visit');
      const headers = { ...from(ROBOTS[i] as string), 'idempotency-key': `robot-${i}` };
      t.equal((await app.post(`${PATH}?count=true`, visit, headers)).json.count, 1, 'the present count');
    }
  });

  t.test('a visit of a browser or of an HTTP client is counted', async (t) => {
    for (const userAgent of VISITORS) {
      const answer = await app.post(`${PATH}?count=true`, newVisit(), from(userAgent));
      t.equal(answer.json.count, 1, userAgent);
    }
  });

  t.test(
    "a robot's visit with a publishable key is not counted, with a secret key or a signature it is",
    async (t) => {
      const visits = [newVisit(), newVisit(), newVisit()] as const;
      const robot = from(DATADOG);
      await app.post(PATH, visits[0], { ...robot, ...BROWSER });
      await app.post(PATH, visits[1], { ...robot, ...TRUSTED });
      await app.post(proxied(PATH, { logged_in_customer_id: '' }), visits[2], robot);
      t.same(await Promise.all(visits.map(countOf)), [0, 1, 1]);
      const named = { identity: { customerId: '7' }, productHandle: HANDLE };
      t.equal((await app.post(PATH, named, robot)).status, 401, 'nor may it do more than any caller');
    },
  );
});
