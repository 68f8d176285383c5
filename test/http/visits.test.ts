// POST, GET and DELETE /product/visit: what they answer, what they count and log, and that robots are not counted.

import t, { type Test } from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { loggedVisits } from '../harness/stream.js';

const PATH = '/product/visit';

const guest = (sessionId: string, device: string | null = null) => ({ sessionId, device });
const visit = (identity: object, productHandle: string) => ({ identity, productHandle });
const visitOf = (sessionId: string, productHandle = 'red-shoe') => ({
  identity: { sessionId },
  productHandle,
});

async function countOf(app: TestApp, sessionId: string, productHandle = 'red-shoe'): Promise<number> {
  const answer = await app.get(withQuery(PATH, { sessionId, productHandle }));
  return answer.json.count;
}

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);

  t.test('a visit is counted, read and reset, with exactly the bodies of the contract', async (t) => {
    const posted = await app.post(PATH, visitOf('guest-1'));
    t.equal(posted.status, 200);
    t.equal(posted.headers['content-type'], 'application/json');
    const { profileId } = posted.json;
    t.match(profileId, /^[0-9a-z]+\.s[A-Za-z0-9_-]{16}$/);
    t.same(posted.json, { profileId, productHandle: 'red-shoe' });

    const query = withQuery(PATH, { sessionId: 'guest-1', productHandle: 'red-shoe', device: 'desktop' });
    t.match(await app.get(query), {
      status: 200,
      text: `{"profileId":"${profileId}","productHandle":"red-shoe","count":1}`,
    });
    await app.post(PATH, visitOf('guest-1'));
    t.same((await app.get(query)).json, { profileId, productHandle: 'red-shoe', count: 2 });
    t.equal(await countOf(app, 'guest-1', 'blue-shoe'), 0, 'another product has its own count');

    const reset = await app.del(PATH, visitOf('guest-1'));
    t.equal(reset.status, 200);
    t.same(reset.json, { profileId, productHandle: 'red-shoe' });
    t.same((await app.get(query)).json, { profileId, productHandle: 'red-shoe', count: 0 });
    t.equal((await app.del(PATH, visitOf('guest-1'))).status, 200, 'resetting what is 0 is no error');
  });

  t.test('?count=true answers the count after this visit, any other value does not', async (t) => {
    const { profileId } = (await app.post(PATH, visitOf('guest-2'))).json;
    const counted = await app.post(`${PATH}?count=true`, visitOf('guest-2'));
    t.same(counted.json, { profileId, productHandle: 'red-shoe', count: 2 });
    for (const value of ['false', '1', '', 'TRUE']) {
      t.same((await app.post(`${PATH}?count=${value}`, visitOf('guest-2'))).json, {
        profileId,
        productHandle: 'red-shoe',
      });
    }
  });

  t.test('DELETE takes the same names from the query where a proxy dropped the body', async (t) => {
    await app.post(PATH, visitOf('guest-3'));
    await app.post(PATH, visitOf('guest-3', 'kept'));
    const reset = await app.del(withQuery(PATH, { sessionId: 'guest-3', productHandle: 'red-shoe' }));
    t.match(reset, { status: 200, json: { productHandle: 'red-shoe' } });
    t.equal(await countOf(app, 'guest-3'), 0);
    t.equal(await countOf(app, 'guest-3', 'kept'), 1);
  });

  t.test('DELETE believes its body where it has both', async (t) => {
    await app.post(PATH, visitOf('guest-4'));
    await app.post(PATH, visitOf('guest-5'));
    await app.del(withQuery(PATH, { sessionId: 'guest-4', productHandle: 'red-shoe' }), visitOf('guest-5'));
    t.equal(await countOf(app, 'guest-4'), 1);
    t.equal(await countOf(app, 'guest-5'), 0);
  });

  t.test(
    'reading an unknown identity writes nothing, and names the profile that its first write gets',
    async (t) => {
      const before = await dumpRedis(redis, app.prefix);
      const unknown: Record<string, string>[] = [
        { sessionId: 'unseen-s' },
        { customerId: '9001' },
        { customerId: 'unseen-c', sessionId: 'unseen-cs' },
      ];
      const read = await Promise.all(
        unknown.map((ids) => app.get(withQuery(PATH, { ...ids, productHandle: 'x' }), TRUSTED)),
      );
      t.same(await dumpRedis(redis, app.prefix), before);
      for (const [i, identity] of unknown.entries()) {
        const written = await app.post(PATH, { identity, productHandle: 'x' }, TRUSTED);
        t.same(read[i]?.json, { ...written.json, count: 0 });
      }
    },
  );

  t.test('a reset of an unknown visitor answers the profile id that a read names', async (t) => {
    const { profileId } = (await app.get(withQuery(PATH, { sessionId: 'reset-only', productHandle: 'x' })))
      .json;
    t.equal((await app.del(PATH, visitOf('reset-only', 'x'))).json.profileId, profileId);
  });

  t.test('visits at once over two servers answer each count once', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix });
    const [visits, visitors] = [600, 20];
    const answers = await Promise.all(
      Array.from({ length: visits }, (_, i) =>
        (i % 3 ? app : second).post(`${PATH}?count=true`, visitOf(`crowd-${i % visitors}`)),
      ),
    );
    for (let who = 0; who < visitors; who++) {
      const counts = answers.filter((_, i) => i % visitors === who).map(({ json }) => json.count);
      t.same(
        counts.sort((a, b) => a - b),
        Array.from({ length: visits / visitors }, (_, i) => i + 1),
      );
    }
    await Promise.all(Array.from({ length: 300 }, () => app.post(PATH, visitOf('crowd'))));
    t.equal(await countOf(app, 'crowd'), 300);
  });

  t.test('two servers name the same profile, another deployment another one', async (t) => {
    await assertSameProfile(t, app, await startApp(t, redis, { prefix: app.prefix }), true);
    await assertSameProfile(t, app, await startApp(t, redis), false);
  });

  t.test('the log of visits', async (t) => {
    /** All that is logged, as texts, sorted: visits of several entries have no order. */
    const logged = async (app: TestApp) =>
      (await loggedVisits(redis, app))
        .flat()
        .map((columns) => columns.join(' '))
        .sort();

    t.test(
      'has each visit once, counted with a key, with a count, in a batch, or for a linked visitor',
      async (t) => {
        const app = await startApp(t, redis);
        const expected: string[] = [];
        const expect = (profileId: string, handle: string, device = '') =>
          expected.push(`${profileId} ${handle} ${device}`);

        for (let i = 0; i < 20; i++) {
          const { json } = await app.post(PATH, visit(guest(`plain-${i}`, 'desktop'), `p${i % 3}`));
          expect(json.profileId, `p${i % 3}`, 'desktop');
        }
        const counted = await app.post(`${PATH}?count=true`, visit(guest('plain-0', 'tv'), 'p0'));
        t.equal(counted.json.count, 2);
        expect(counted.json.profileId, 'p0', 'tv');

        for (let i = 0; i < 8; i++) {
          const headers = { ...TRUSTED, 'idempotency-key': `key-${i}` };
          const body = visit(guest(`keyed-${i}`, 'phone'), 'keyed');
          const first = await app.post(PATH, body, headers);
          t.same((await app.post(PATH, body, headers)).json, first.json, 'the same key again');
          expect(first.json.profileId, 'keyed', 'phone');
        }

        const visits = Array.from({ length: 50 }, (_, i) =>
          visit(guest(`batch-${i % 20}`, 'tablet'), `b${i}`),
        );
        const { json } = await app.post(`${PATH}/batch`, { visits }, TRUSTED);
        for (const { profileId, productHandle } of json.results) expect(profileId, productHandle, 'tablet');

        const both = { customerId: '77', sessionId: 'linked', device: 'watch' };
        for (const identity of [both, guest('linked', 'watch'), { customerId: '77', device: 'watch' }]) {
          const answer = await app.post(PATH, visit(identity, 'linked'), TRUSTED);
          expect(answer.json.profileId, 'linked', 'watch');
        }
        t.equal(new Set(expected.slice(-3)).size, 1, 'three visits under one profile');
        t.same(await logged(app), expected.sort());
        t.match(await app.figures(), /^wishmeter_visits_not_logged_total\{why="full"\} 0$/m);
        t.match(await app.figures(), /^wishmeter_visits_not_logged_total\{why="elsewhere"\} 0$/m);
      },
    );

    t.test('visits of one turn are few entries', async (t) => {
      const app = await startApp(t, redis);
      const visits = Array.from({ length: 400 }, (_, i) => visit(guest(`s${i}`), 'x'));
      await app.post(`${PATH}/batch`, { visits }, TRUSTED);
      const entries = await loggedVisits(redis, app);
      t.equal(entries.flat().length, 400);
      t.ok(entries.length <= 12, `${entries.length} entries`);
    });

    t.test('what is read, reset or refused is not in it', async (t) => {
      const app = await startApp(t, redis, { env: { MAX_PRODUCTS: '2' } });
      for (const handle of ['a', 'b']) await app.post(PATH, visit(guest('full'), handle));
      const before = await logged(app);
      t.equal(before.length, 2);
      t.equal((await app.post(PATH, visit(guest('full'), 'c'))).status, 409);
      const keyed = { ...TRUSTED, 'idempotency-key': 'refused' };
      t.equal((await app.post(PATH, visit(guest('full'), 'c'), keyed)).status, 409);
      t.equal((await app.post(PATH, visit(guest('full'), 'tab\there'))).status, 400);
      await app.get(`${PATH}?sessionId=full&productHandle=a`);
      await app.del(PATH, visit(guest('full'), 'a'));
      t.same(await logged(app), before);

      const visits = ['b', 'd', 'e'].map((handle) => visit(guest('full'), handle));
      const { json } = await app.post(`${PATH}/batch`, { visits }, TRUSTED);
      t.match(json.results, [{ productHandle: 'b' }, { productHandle: 'd' }, { code: 'too_many_products' }]);
      const after = (await logged(app)).map((line) => line.split(' ')[1]);
      t.same(after, ['a', 'b', 'b', 'd'], 'of a batch those that were counted');
    });

    t.test('takes handles and devices of any characters', async (t) => {
      const app = await startApp(t, redis);
      const handle = `${'\\'.repeat(250)}ü"'$`;
      t.equal(Buffer.byteLength(handle), 255);
      const { json } = await app.post(PATH, visit(guest('odd', 'back\\slash ü'), handle));
      t.same((await loggedVisits(redis, app)).flat(), [
        [json.profileId, handle.replaceAll('\\', '\\\\'), 'back\\\\slash ü'],
      ]);
    });

    t.test(
      'at VISIT_LOG_HIGH_WATER visits are counted and not logged, and a figure says how many',
      async (t) => {
        const app = await startApp(t, redis, { env: { VISIT_LOG_HIGH_WATER: '200' } });
        for (let i = 1; i <= 40; i++) {
          const answer = await app.post(`${PATH}?count=true`, visit(guest('one'), 'x'));
          t.match(answer, { status: 200, json: { count: i } });
        }
        const keyed = { ...TRUSTED, 'idempotency-key': 'over' };
        const over = await app.post(`${PATH}?count=true`, visit(guest('one'), 'x'), keyed);
        t.match(over, { status: 200, json: { count: 41 } });
        const visits = await logged(app);
        const bytes = visits.join(' ').length + 1;
        t.ok(bytes <= 200 && bytes > 150, `${bytes} bytes wait`);
        const figures = await app.figures();
        t.match(
          figures,
          new RegExp(`^wishmeter_visits_not_logged_total{why="full"} ${41 - visits.length}$`, 'm'),
        );
        t.match(figures, /^wishmeter_visit_stream_high_water_bytes 200$/m);
        const waiting = [
          ...figures.matchAll(/^wishmeter_visit_stream_pending_visits\{shard="\d+"\} (\d+)$/gm),
        ];
        t.equal(
          waiting.reduce((sum, [, n]) => sum + Number(n), 0),
          visits.length,
        );
      },
    );

    t.test('VISIT_LOG=off: visits are counted, and there is no log', async (t) => {
      const app = await startApp(t, redis, { env: { VISIT_LOG: 'off' } });
      const keyed = { ...TRUSTED, 'idempotency-key': 'off' };
      await app.post(PATH, visit(guest('off'), 'x'));
      await app.post(PATH, visit(guest('off'), 'x'), keyed);
      t.match((await app.get(`${PATH}?sessionId=off&productHandle=x`)).json, { count: 2 });
      t.same(await loggedVisits(redis, app), []);
    });
  });
});

async function assertSameProfile(t: Test, a: TestApp, b: TestApp, same: boolean): Promise<void> {
  const [one, other] = await Promise.all([a, b].map((app) => app.post(PATH, visitOf('shared'))));
  t.equal(one?.json.profileId === other?.json.profileId, same);
}

// The user agents are those that robots and browsers send.

const ORIGIN = 'https://shop.example';
const PUBLISHABLE = 'pk_robots_0123456789';
const LINUX = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)';
const CRAWLER = 'Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible;';
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)';
const DATADOG = `${LINUX} Chrome/139.0.0.0 Safari/537.36 DatadogSynthetics`;

const ROBOTS = [
  DATADOG,
  `${LINUX} Chrome/108.0.0.0 Safari/537.36 PingdomTMS/0.8.5`,
  `${LINUX} Chrome/134.0.0.0 Safari/537.36 NewRelicSynthetics/chrome-browser`,
  'Mozilla/5.0 (X11; Linux x86_64; GTmetrix https://gtmetrix.com/) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  `${LINUX} Chrome/139.0.0.0 Safari/537.36 PTST/250801.123`,
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/117.0.0.0 Safari/537.36 StatusCake',
  'Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)',
  'Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b',
  'Mozilla/5.0 (Linux; Android 11; moto g power (2022)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse',
  `${LINUX} HeadlessChrome/139.0.0.0 Safari/537.36`,
  `${CRAWLER} Claude-User/1.0; +Claude-User@anthropic.com)`,
  `${CRAWLER} ChatGPT-User/1.0; +https://openai.com/bot`,
  `${CRAWLER} Perplexity-User/1.0; +https://perplexity.ai/perplexity-user)`,
  `${CRAWLER} Googlebot/2.1; +http://www.google.com/bot.html) Chrome/139.0.0.0 Safari/537.36`,
  `${CRAWLER} bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/139.0.0.0 Safari/537.36`,
  'Mozilla/5.0 (compatible; Google-InspectionTool/1.0;)',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)',
  'Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)',
  // Without an engine, by their names.
  'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
  'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
  'Twitterbot/1.0',
  'LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)',
  'WhatsApp/2.23.20.0',
  'Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)',
  'GoogleStackdriverMonitoring-UptimeChecks(https://cloud.google.com/monitoring)',
];

const BROWSERS = [
  `${IPHONE} Version/18.6 Mobile/15E148 Safari/604.1`,
  `${IPHONE} CriOS/139.0.7258.76 Mobile/15E148 Safari/604.1`,
  `${IPHONE} GSA/380.0.788317806 Mobile/15E148 Safari/604.1`,
  `${IPHONE} Mobile/15E148 Instagram 393.0.0.34.79 (iPhone16,2; iOS 18_6; de_DE; de; scale=3.00; 1290x2796; 775155152; IABMV/1)`,
  `${IPHONE} Mobile/15E148 [FBAN/FBIOS;FBAV/525.0.0.53.107;FBBV/762112441;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS;FBSV/18.6;FBSS/3;FBCR/;FBID/phone;FBLC/de_DE;FBOP/80]`,
  `${IPHONE} Mobile/15E148 musical_ly_40.9.0 BytedanceWebview/d8a21c6 musical_ly_40.9.0 JsSdk/2.0 NetType/WIFI Channel/App Store ByteLocale/de Region/DE`,
  `${IPHONE} Mobile/15E148 [Pinterest/iOS]`,
  `${IPHONE} Mobile/15E148 Snapchat/13.50.0.44 (like Safari/8621.3.11.10.3, panda)`,
  'Mozilla/5.0 (Linux; Android 14; SM-S918B Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/139.0.7258.94 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/525.0.0.50.109;IABMV/1;]',
  'Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP2A.240805.005; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/139.0.7258.94 Mobile Safari/537.36 Instagram 393.0.0.50.90 Android (34/14; 420dpi; 1080x2205; Google/google; Pixel 8; shiba; shiba; de_DE; 774922814; IABMV/1)',
  'Mozilla/5.0 (Linux; Android 13; SM-A536B) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Mobile Safari/537.36 trill_400905 JsSdk/1.0 NetType/WIFI Channel/googleplay AppName/musical_ly app_version/40.9.5 ByteLocale/de-DE ByteFullLocale/de-DE Region/DE BytedanceWebview/d8a21c6',
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36',
  'Mozilla/5.0 (Linux; Android 13; CUBOT P80 Build/TP1A.220624.014; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/139.0.0.0 Mobile Safari/537.36',
  'Mozilla/5.0 (Linux; Android 12; CUBOT_X50) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Mobile Safari/537.36',
  `${LINUX} Chrome/139.0.0.0 Safari/537.36`,
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36 Edg/139.0.0.0',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:142.0) Gecko/20100101 Firefox/142.0',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15',
];

const CLIENTS = [
  '',
  'curl/8.14.1',
  'node',
  'undici',
  'node-fetch/1.0 (+https://github.com/bitinn/node-fetch)',
  'axios/1.11.0',
  'got (https://github.com/sindresorhus/got)',
  'python-requests/2.32.4',
  'python-httpx/0.28.1',
  'Python/3.13 aiohttp/3.12.15',
  'okhttp/4.12.0',
  'Go-http-client/2.0',
  'Java/21.0.8',
  'Apache-HttpClient/5.5 (Java/21.0.8)',
  'GuzzleHttp/7',
  'Ruby',
  'PostmanRuntime/7.45.0',
  'Wget/1.25.0',
  'wrk',
  'shop-relay/1.0',
];

t.test('robots', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const env = { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN, SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env });

  let sessions = 0;
  const newVisit = () => ({ identity: { sessionId: `r-${sessions++}` }, productHandle: 'red-shoe' });
  type Visit = ReturnType<typeof newVisit>;
  const countOfVisit = ({ identity, productHandle }: Visit) =>
    countOf(app, identity.sessionId, productHandle);
  const from = (userAgent: string) => (userAgent === '' ? {} : { 'user-agent': userAgent });

  t.test('a visit of a robot is answered, and nothing is counted or created', async (t) => {
    for (const userAgent of ROBOTS) {
      const visit = newVisit();
      const before = await dumpRedis(redis, app.prefix);
      const answer = await app.post(PATH, visit, from(userAgent));
      const counted = await app.post(`${PATH}?count=true`, visit, from(userAgent));
      t.same(await dumpRedis(redis, app.prefix), before, userAgent);
      const { profileId } = answer.json;
      t.match(answer, { status: 200, json: { productHandle: 'red-shoe' } });
      t.same(answer.json, { profileId, productHandle: 'red-shoe' });
      t.same(counted.json, { profileId, productHandle: 'red-shoe', count: 0 });
      t.equal((await app.post(PATH, visit)).json.profileId, profileId, 'the profile that a first visit gets');
    }
  });

  t.test("a robot's ?count=true is the present count", async (t) => {
    const visit = newVisit();
    await app.post(PATH, visit);
    await app.post(PATH, visit);
    t.equal((await app.post(`${PATH}?count=true`, visit, from(DATADOG))).json.count, 2);
    const retried = { ...from(DATADOG), 'idempotency-key': 'robot' };
    t.equal(
      (await app.post(`${PATH}?count=true`, visit, retried)).json.count,
      2,
      'also under an Idempotency-Key',
    );
    t.equal(await countOfVisit(visit), 2);
  });

  t.test('a visit of a browser or of an HTTP client is counted', async (t) => {
    for (const userAgent of [...BROWSERS, ...CLIENTS]) {
      const visit = newVisit();
      const answer = await app.post(`${PATH}?count=true`, visit, from(userAgent));
      t.equal(answer.json.count, 1, userAgent);
    }
  });

  t.test('a publishable key makes no visitor of a robot; a secret key or a signature does', async (t) => {
    const visits = [newVisit(), newVisit(), newVisit()] as const;
    const robot = from(DATADOG);
    await app.post(PATH, visits[0], { ...robot, 'x-api-key': PUBLISHABLE, origin: ORIGIN });
    await app.post(PATH, visits[1], { ...robot, ...TRUSTED });
    await app.post(proxied(PATH, { logged_in_customer_id: '' }), visits[2], robot);
    t.same(await Promise.all(visits.map(countOfVisit)), [0, 1, 1]);
  });

  t.test('a robot may do no more than any caller', async (t) => {
    const named = { identity: { customerId: '7' }, productHandle: 'red-shoe' };
    t.equal((await app.post(PATH, named, from(DATADOG))).status, 401);
    t.equal((await app.post(PATH, { productHandle: 'red-shoe' }, from(DATADOG))).status, 400);
  });

  t.test('/metrics says how many visits robots made', async (t) => {
    const read = async () => /^wishmeter_visits_by_robots_total (\d+)$/m.exec(await app.figures())?.[1];
    const before = Number(await read());
    await app.post(PATH, newVisit(), from(DATADOG));
    await app.post(PATH, newVisit(), from('curl/8.14.1'));
    t.equal(Number(await read()), before + 1);
  });
});
