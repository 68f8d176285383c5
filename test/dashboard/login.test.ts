// Logging in to the dashboard and out of it, over HTTP. Its ClickHouse is away, so a panel is 503 with a session and 401
// without one.

import { pino } from 'pino';
import t, { type Test } from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { Login } from '../../src/dashboard/login.js';
import { startDashboard } from '../../src/dashboard/server.js';

const TOKEN = '0123456789abcdef';
const PANEL = '/panels/days?from=2026-03-01&to=2026-03-02';
const NOW = Date.UTC(2026, 2, 1);
const WEEK_MS = 7 * 86_400_000;

/** @param wrongMs see Login */
async function start(t: Test, wrongMs: number) {
  const clickhouse = createClickHouse('http://127.0.0.1:1', 'shop');
  t.teardown(() => clickhouse.close());
  const log = pino({ level: 'silent' });
  const dashboard = await startDashboard({
    host: '127.0.0.1',
    port: 0,
    token: TOKEN,
    clickhouse,
    log,
    wrongMs,
  });
  t.teardown(() => dashboard.close());
  const url = `http://127.0.0.1:${dashboard.port}`;
  const logIn = (token = TOKEN, headers: Record<string, string> = {}) =>
    fetch(`${url}/login`, { method: 'POST', body: JSON.stringify({ token }), headers });
  return {
    url,
    logIn,
    logOut: (headers: Record<string, string>) => fetch(`${url}/logout`, { method: 'POST', headers }),
    /** A new session's header `Cookie`. */
    session: async () => cookieOf((await logIn()).headers.get('set-cookie')),
    isIn: async (cookie: string) => (await fetch(url + PANEL, { headers: { cookie } })).status !== 401,
  };
}

const cookieOf = (header: string | null) => (header ?? '').split(';')[0] as string;

t.test('25 clients that guess do not keep the right token out', async (t) => {
  // Their answers wait until the test is over.
  const { url, logIn } = await start(t, 3_600_000);
  const guessers = new AbortController();
  const guesses = Array.from({ length: 25 }, (_, i) =>
    fetch(`${url}/login`, { method: 'POST', body: `{"token":"guess ${i}"}`, signal: guessers.signal }),
  );
  const answered = await Promise.any(guesses);
  t.match(answered, { status: 429 }, 'those beyond twenty are answered at once');
  t.equal(answered.headers.get('retry-after'), '5');
  const right = await logIn();
  t.equal(right.status, 200);
  t.same(await right.json(), { wrongTokens: 25 });
  guessers.abort();
  await Promise.allSettled(guesses);
});

t.test('a log-out ends its session on the server, and no other', async (t) => {
  const { session, isIn, logOut } = await start(t, 1);
  const [left, kept] = [await session(), await session()];
  t.not(left, kept);
  t.ok(await isIn(left));
  const goodbye = await logOut({ cookie: `other=1; ${left}` });
  t.equal(goodbye.status, 200);
  t.match(goodbye.headers.get('set-cookie'), /^wishmeter_dashboard=; .*Max-Age=0/);
  t.notOk(await isIn(left), 'a copy of the cookie is worth nothing');
  t.ok(await isIn(kept));
  t.equal((await logOut({})).status, 200, 'without a session there is nothing to end');
});

t.test('a page of another origin can neither log in nor log out', async (t) => {
  const { url, session, isIn, logIn, logOut } = await start(t, 1);
  const { host } = new URL(url);
  const cookie = await session();
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    // Browsers leave Sec-Fetch-Site out where the address is neither https nor of this machine.
    { origin: 'https://evil.example' },
    { origin: `http://evil.${host}` },
    { origin: 'null' },
  ] as Record<string, string>[]) {
    t.equal((await logOut({ ...headers, cookie })).status, 403, JSON.stringify(headers));
    t.equal((await logIn(TOKEN, headers)).status, 403, JSON.stringify(headers));
  }
  t.ok(await isIn(cookie));
  for (const headers of [
    { 'sec-fetch-site': 'same-origin', origin: 'https://behind-a-proxy.example' },
    { origin: url },
    { origin: `https://${host}` },
  ] as Record<string, string>[]) {
    const own = cookieOf((await logIn(TOKEN, headers)).headers.get('set-cookie'));
    t.ok(await isIn(own), JSON.stringify(headers));
    t.equal((await logOut({ ...headers, cookie: own })).status, 200);
    t.notOk(await isIn(own));
  }
});

t.test('a cookie that no log-in gave opens nothing', async (t) => {
  const { session, isIn } = await start(t, 1);
  const cookie = await session();
  t.ok(await isIn(`other=1; ${cookie}; more=2`));
  for (const wrong of ['', 'wishmeter_dashboard=', `${cookie}x`, cookie.slice(0, -1), `x${cookie}`])
    t.notOk(await isIn(wrong), wrong);
  const other = await start(t, 1);
  t.notOk(await other.isIn(cookie), 'nor does one of before a restart');
});

t.test('the cookie is out of reach of scripts and other sites, and lasts a week', (t) => {
  const login = new Login(TOKEN);
  const header = login.begin(NOW, false);
  t.match(header, /; HttpOnly; SameSite=Strict$/);
  t.match(header, /; Path=\/; Max-Age=604800;/);
  t.match(login.begin(NOW, true), /; Secure$/);
  t.notMatch(header, TOKEN);
  t.ok(login.isKnown(cookieOf(header), NOW + WEEK_MS - 1_000));
  t.notOk(login.isKnown(cookieOf(header), NOW + WEEK_MS), 'a week later');
  t.end();
});

t.test('wrong tokens are counted', async (t) => {
  const { logIn } = await start(t, 1);
  for (const token of [`${TOKEN}x`, '', 'guess']) t.equal((await logIn(token)).status, 401, token);
  t.same(await (await logIn()).json(), { wrongTokens: 3 });
});
