// POST, GET and DELETE /product/visit: what they answer, what they count and log, and that robots are not counted.

import t from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { HANDLE } from '../harness/shop.js';
import { loggedVisits } from '../harness/stream.js';

const PATH = '/product/visit';
const visitOf = (sessionId: string, productHandle = HANDLE, device: string | null = null) => ({
  identity: { sessionId, device },
  productHandle,
});

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  const keyed = (key: string) => ({ ...TRUSTED, 'idempotency-key': key });
  /** All that is logged, as texts, sorted: visits of several entries have no order. */
  const logged = async (of: TestApp) =>
    (await loggedVisits(redis, of))
      .flat()
      .map((columns) => columns.join(' '))
      .sort();

  t.test('visits at once over two servers answer each count once, of one profile', async (t) => {
    const [visits, visitors] = [600, 20];
    const answers = await Promise.all(
      Array.from({ length: visits }, (_, i) =>
        (i % 3 ? app : other).post(`${PATH}?count=true`, visitOf(`crowd-${i % visitors}`)),
      ),
    );
    for (let who = 0; who < visitors; who++) {
      const theirs = answers.filter((_, i) => i % visitors === who).map(({ json }) => json);
      t.same(
        theirs.map(({ count }) => count).sort((a, b) => a - b),
        Array.from({ length: visits / visitors }, (_, i) => i + 1),
      );
      t.equal(new Set(theirs.map(({ profileId }) => profileId)).size, 1);
    }
    const elsewhere = await startApp(t, redis);
    const { profileId } = (await elsewhere.post(PATH, visitOf('crowd-0'))).json;
    t.not(profileId, answers[0]?.json.profileId, 'another deployment names another profile');
  });

  t.test('the log has each visit once: with a key, with a count, in a batch, or linked', async (t) => {
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

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test('a visit is counted, read and reset, with exactly the bodies of the contract', async (t) => {
    const posted = await app.post(PATH, visitOf('guest-1'));
    t.match(posted, { status: 200, headers: { 'content-type': 'application/json' } });
    const { profileId } = posted.json;
    t.same(posted.json, { profileId, productHandle: HANDLE });
    const query = withQuery(PATH, { sessionId: 'guest-1', productHandle: HANDLE, device: 'desktop' });
    t.match(await app.get(query), {
      status: 200,
      text: `{"profileId":"${profileId}","productHandle":"red-shoe","count":1}`,
    });
    const counted = await app.post(`${PATH}?count=true`, visitOf('guest-1'));
    t.same(counted.json, { profileId, productHandle: HANDLE, count: 2 });
    for (const query of ['?count=false', '?count='])
      t.same((await app.post(PATH + query, visitOf('guest-1'))).json, posted.json, query);
    for (const value of ['1', 'TRUE', 'yes'])
      t.match(await app.post(`${PATH}?count=${value}`, visitOf('guest-1')), {
        status: 400,
        json: { code: 'invalid_request', issues: [{ path: '/count' }] },
      });
    t.equal(await app.shop.count({ sessionId: 'guest-1' }), 4);
    t.equal(await app.shop.count({ sessionId: 'guest-1' }, 'blue-shoe'), 0, 'another product');
    for (let i = 0; i < 2; i++) {
      const reset = await app.del(PATH, visitOf('guest-1'));
      t.match(reset, { status: 200 }, 'resetting what is 0 is no error');
      t.same(reset.json, { profileId, productHandle: HANDLE });
    }
    t.same((await app.get(query)).json, { profileId, productHandle: HANDLE, count: 0 });
  });

  t.test('DELETE takes the query where a proxy dropped the body, and believes the body', async (t) => {
    for (const sessionId of ['guest-3', 'guest-4']) await app.shop.visit({ sessionId });
    await app.shop.visit({ sessionId: 'guest-3' }, 'kept');
    const query = withQuery(PATH, { sessionId: 'guest-3', productHandle: HANDLE });
    await app.del(query, visitOf('guest-4'));
    t.equal(await app.shop.count({ sessionId: 'guest-3' }), 1);
    t.equal(await app.shop.count({ sessionId: 'guest-4' }), 0);
    t.match(await app.del(query), { status: 200, json: { productHandle: HANDLE } });
    t.equal(await app.shop.count({ sessionId: 'guest-3' }), 0);
    t.equal(await app.shop.count({ sessionId: 'guest-3' }, 'kept'), 1);
  });

  t.test('reads and resets of an unknown identity name the profile that its first write gets', async (t) => {
    const unknown: Record<string, string>[] = [
      { sessionId: 'unseen-s' },
      { customerId: '9001' },
      { customerId: 'unseen-c', sessionId: 'unseen-cs' },
    ];
    const before = await dumpRedis(redis, app.prefix);
    const read = await Promise.all(
      unknown.map((ids) => app.get(withQuery(PATH, { ...ids, productHandle: HANDLE }), TRUSTED)),
    );
    t.same(await dumpRedis(redis, app.prefix), before, 'a read writes nothing');
    for (const [i, identity] of unknown.entries()) {
      const { profileId } = await app.shop.reset(identity);
      t.same(read[i]?.json, { profileId, productHandle: HANDLE, count: 0 });
      t.equal((await app.shop.visit(identity)).profileId, profileId);
    }
  });

  t.test('visits of one turn are few entries of the log', async (t) => {
    const app = await startApp(t, redis);
    const visits = Array.from({ length: 400 }, (_, i) => visitOf(`s${i}`));
    await app.post(`${PATH}/batch`, { visits }, TRUSTED);
    const entries = await loggedVisits(redis, app);
    t.equal(entries.flat().length, 400);
    t.ok(entries.length <= 12, `${entries.length} entries`);
  });

  t.test('what is read, reset or refused is not in the log', async (t) => {
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
    const visits = ['b', 'd', 'e'].map((handle) => visitOf('full', handle));
    const { json } = await app.post(`${PATH}/batch`, { visits }, TRUSTED);
    t.match(json.results, [{ productHandle: 'b' }, { productHandle: 'd' }, { code: 'too_many_products' }]);
    const after = (await logged(app)).map((line) => line.split(' ')[1]);
    t.same(after, ['a', 'b', 'b', 'd'], 'of a batch those that were counted');
  });

  t.test('the log takes handles and devices of any characters', async (t) => {
    const app = await startApp(t, redis);
    const handle = `${'\\'.repeat(250)}ü"'$`;
    const visit = visitOf('odd', handle, 'back\\slash ü');
    const { json } = await app.post(PATH, visit, TRUSTED);
    await app.post(PATH, visit);
    const logged = [json.profileId, handle.replaceAll('\\', '\\\\')];
    t.same(
      (await loggedVisits(redis, app)).flat(),
      [
        [...logged, 'back\\\\slash ü'],
        [...logged, 'other'],
      ],
      "a server's device is kept as sent, a stranger's is one of the known words",
    );
  });

  t.test('at VISIT_LOG_HIGH_WATER visits are counted, not logged, and a figure says how many', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_LOG_HIGH_WATER: '200' } });
    for (let count = 1; count <= 40; count++) t.match(await app.shop.visit({ sessionId: 'one' }), { count });
    const over = await app.post(`${PATH}?count=true`, visitOf('one'), keyed('over'));
    t.match(over, { status: 200, json: { count: 41 } });
    const visits = await logged(app);
    const bytes = visits.join(' ').length + 1;
    t.ok(bytes <= 200 && bytes > 150, `${bytes} bytes wait`);
    for (const read of ['once', 'and again'])
      t.equal(await app.figure('visits_not_logged_total'), 41 - visits.length, read);
    t.equal(await app.figure('visit_stream_high_water_bytes'), 200);
    const waiting = (await app.figures()).matchAll(
      /^wishmeter_visit_stream_pending_visits\{stream="\d+"\} (\d+)$/gm,
    );
    t.equal(
      [...waiting].reduce((sum, [, n]) => sum + Number(n), 0),
      visits.length,
    );
  });

  t.test('VISIT_LOG=off: visits are counted, and there is no log', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_LOG: 'off' } });
    await app.post(PATH, visitOf('off'));
    await app.post(PATH, visitOf('off'), keyed('off'));
    t.equal(await app.shop.count({ sessionId: 'off' }), 2);
    t.same(await loggedVisits(redis, app), []);
  });
});

const ORIGIN = 'https://shop.example';
const PUBLISHABLE = 'pk_robots_0123456789';

// User agents as they are sent, of each kind that the service tells apart: with an engine, by a robot's name without one.
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
  'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
  'WhatsApp/2.23.20.0',
  'Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)',
  'GoogleStackdriverMonitoring-UptimeChecks(https://cloud.google.com/monitoring)',
  'Baiduspider+(+http://www.baidu.com/search/spider.htm)',
  'crawler4j (https://github.com/yasserg/crawler4j/)',
  'Iframely/1.3.1 (+https://iframely.com/docs/about) link preview',
];
const VISITORS = [
  `${LINUX} Chrome/139.0.0.0 Safari/537.36`,
  `${IPHONE} Mobile/15E148 Instagram 393.0.0.34.79 (iPhone16,2; iOS 18_6; de_DE; de; scale=3.00; 1290x2796)`,
  `${IPHONE} Mobile/15E148 [FBAN/FBIOS;FBAV/525.0.0.53.107;FBDV/iPhone14,5;FBSN/iOS;FBLC/de_DE;FBOP/80]`,
  `${IPHONE} Mobile/15E148 [Pinterest/iOS]`,
  `Mozilla/5.0 (Linux; Android 13; CUBOT P80 Build/TP1A.220624.014; wv) ${ANDROID}`,
  `Mozilla/5.0 (Linux; Android 12; CUBOT_X50) ${ANDROID}`,
  '',
  'curl/8.14.1',
  'node-fetch/1.0 (+https://github.com/bitinn/node-fetch)',
  'got (https://github.com/sindresorhus/got)',
  'Apache-HttpClient/5.5 (Java/21.0.8)',
];

t.test('robots', async (t) => {
  const redis = await startTestRedis(t);
  const env = { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN, SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env });
  let sessions = 0;
  const newVisit = () => visitOf(`r-${sessions++}`);
  const countOf = ({ identity: { sessionId } }: ReturnType<typeof visitOf>) => app.shop.count({ sessionId });
  const from = (userAgent: string) => (userAgent === '' ? {} : { 'user-agent': userAgent });

  t.test('a visit of a robot is answered, and nothing is counted or created', async (t) => {
    const byRobots = async () => Number(await app.figure('visits_by_robots_total'));
    const [before, figure] = [await dumpRedis(redis, app.prefix), await byRobots()];
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
    t.same(await dumpRedis(redis, app.prefix), before);
    t.equal(await byRobots(), figure + 2 * ROBOTS.length, '/metrics says how many');
    for (const [i, visit] of visits.entries())
      t.equal((await app.post(PATH, visit)).json.profileId, profiles[i], 'the profile of a first visit');
  });

  t.test("a robot's ?count=true is the present count, also under an Idempotency-Key", async (t) => {
    const visit = newVisit();
    for (let i = 0; i < 2; i++) await app.post(PATH, visit);
    for (const headers of [{}, { 'idempotency-key': 'robot' }])
      t.equal((await app.post(`${PATH}?count=true`, visit, { ...from(DATADOG), ...headers })).json.count, 2);
    t.equal(await countOf(visit), 2);
  });

  t.test('a visit of a browser or of an HTTP client is counted', async (t) => {
    for (const userAgent of VISITORS) {
      const answer = await app.post(`${PATH}?count=true`, newVisit(), from(userAgent));
      t.equal(answer.json.count, 1, userAgent);
    }
  });

  t.test('a publishable key makes no visitor of a robot; a secret key or a signature does', async (t) => {
    const visits = [newVisit(), newVisit(), newVisit()] as const;
    const robot = from(DATADOG);
    await app.post(PATH, visits[0], { ...robot, 'x-api-key': PUBLISHABLE, origin: ORIGIN });
    await app.post(PATH, visits[1], { ...robot, ...TRUSTED });
    await app.post(proxied(PATH, { logged_in_customer_id: '' }), visits[2], robot);
    t.same(await Promise.all(visits.map(countOf)), [0, 1, 1]);
  });

  t.test('a robot may do no more than any caller', async (t) => {
    const named = { identity: { customerId: '7' }, productHandle: HANDLE };
    t.equal((await app.post(PATH, named, from(DATADOG))).status, 401);
  });
});
