// Robots: their visits are answered and not counted. The user agents are those that the robots and browsers send.

import t from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

const PATH = '/product/visit';
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

const redis = await startTestRedis();
t.teardown(() => redis.stop());
const app = await startApp(t, redis, {
  env: { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN, SHOPIFY_SECRET: SECRET },
});

let sessions = 0;
const newVisit = () => ({ identity: { sessionId: `r-${sessions++}` }, productHandle: 'red-shoe' });
type Visit = ReturnType<typeof newVisit>;
const countOf = async ({ identity, productHandle }: Visit): Promise<number> =>
  (await app.get(withQuery(PATH, { ...identity, productHandle }), TRUSTED)).json.count;
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
  t.equal(await countOf(visit), 2);
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
  t.same(await Promise.all(visits.map(countOf)), [0, 1, 1]);
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
