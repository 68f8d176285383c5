// The dashboard's server: nothing of the shop without the cookie, no query from outside, and a sentence where ClickHouse
// is away.

import t from 'tap';
import { PANELS } from '../../src/dashboard/panels.js';
import { dashboardWorld, MONTH, TOKEN } from './world.js';

const { url, logIn, stopClickHouse } = await dashboardWorld(t);
const range = `from=${MONTH.from}&to=${MONTH.to}`;
const post = (path: string, body: string, headers: Record<string, string> = {}) =>
  fetch(url + path, { method: 'POST', body, headers });

t.test('the page and its files are open, and load nothing from elsewhere', async (t) => {
  for (const path of ['/', '/dashboard.js', '/dashboard.css', '/uplot.js', '/uplot.css']) {
    const answer = await fetch(url + path);
    t.equal(answer.status, 200, path);
    t.match(answer.headers.get('content-security-policy'), /^default-src 'none'; script-src 'self';/);
    t.equal(answer.headers.get('x-content-type-options'), 'nosniff');
    t.notMatch(await answer.text(), /(src|href)="https?:/, path);
  }
  t.equal((await fetch(`${url}/`, { method: 'HEAD' })).status, 200);
  t.equal((await fetch(`${url}/../package.json`)).status, 404);
  t.equal((await fetch(`${url}/healthz`)).status, 200);
});

t.test('panels need a login', async (t) => {
  const cookie = await logIn();
  for (const { name } of PANELS)
    for (const path of [`/panels/${name}?${range}`, `/panels/${name}.csv?${range}`]) {
      t.equal((await fetch(url + path)).status, 401, path);
      t.equal((await fetch(url + path, { headers: { cookie: `${cookie}x` } })).status, 401, path);
      t.equal((await fetch(url + path, { headers: { cookie } })).status, 200, path);
    }
});

t.test('wrong tokens, other sites and broken bodies get no cookie', async (t) => {
  for (const [body, headers, status] of [
    [`{"token":"${TOKEN}x"}`, {}, 401],
    ['{"token":""}', {}, 401],
    ['{"token":7}', {}, 400],
    ['null', {}, 400],
    ['{', {}, 400],
    [`{"token":"${'x'.repeat(2_000)}"}`, {}, 400],
    [`{"token":"${TOKEN}"}`, { 'sec-fetch-site': 'cross-site' }, 403],
  ] as const) {
    const answer = await post('/login', body, headers);
    t.equal(answer.status, status, body.slice(0, 40));
    t.equal(answer.headers.get('set-cookie'), null);
    t.notMatch(await answer.text(), TOKEN);
  }
  const answer = await post('/login', `{"token":"${TOKEN}"}`, { 'x-forwarded-proto': 'https' });
  t.same(await answer.json(), { wrongTokens: 2 }, 'those that were wrong were counted');
  t.match(answer.headers.get('set-cookie'), /HttpOnly; SameSite=Strict; Secure$/);
});

t.test('the browser chooses a panel and two days, and no more', async (t) => {
  const headers = { cookie: await logIn() };
  const ask = async (path: string) => {
    const answer = await fetch(url + path, { headers });
    const body = (await answer.json()) as { readonly sql: string; readonly rows: readonly unknown[] };
    return { status: answer.status, body };
  };
  t.equal((await ask(`/panels/system?${range}`)).status, 404);
  t.equal((await ask('/panels/days')).status, 400);
  t.equal((await ask(`/panels/days?from=${MONTH.to}&to=${MONTH.from}`)).status, 400);
  t.equal(
    (await ask(`/panels/days?from=${MONTH.from}&to=${encodeURIComponent("2025-04-01' OR 1=1")}`)).status,
    400,
  );
  const plain = await ask(`/panels/days?${range}`);
  const more = await ask(`/panels/days?${range}&query=SELECT+1&sql=SELECT+1`);
  t.equal(more.body.sql, plain.body.sql);
  t.same(more.body.rows, plain.body.rows);
  t.ok(plain.body.rows.length > 5);
});

t.test('CSV has the rows of the panel, under a name that says what it is', async (t) => {
  const headers = { cookie: await logIn() };
  const answer = await fetch(`${url}/panels/devices.csv?${range}`, { headers });
  t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8');
  t.match(answer.headers.get('content-disposition'), `wishmeter-devices-${MONTH.from}-${MONTH.to}.csv`);
  t.match(await answer.text(), /^device,visits\r\n(phone|desktop),\d+\r\n(phone|desktop),\d+\r\n$/);
});

t.test('while ClickHouse is away a panel says so', async (t) => {
  const headers = { cookie: await logIn() };
  await stopClickHouse();
  const answer = await fetch(`${url}/panels/days?${range}`, { headers });
  t.equal(answer.status, 503);
  t.same(await answer.json(), { error: 'ClickHouse does not answer.', away: true });
  t.equal((await fetch(`${url}/healthz`)).status, 200, 'the dashboard itself is up');
});
