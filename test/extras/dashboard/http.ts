// The dashboard over HTTP: no data without the cookie, a request names a panel and two days and no query, CSV has no formula.

import { pino } from 'pino';
import type { Test } from 'tap';
import { keepSettings } from '../../../src/clickhouse/kept-settings.js';
import { readConfig } from '../../../src/config.js';
import { csvOf } from '../../../src/extras/dashboard/csv.js';
import { dashboard } from '../../../src/extras/dashboard/dashboard.js';
import { Login } from '../../../src/extras/dashboard/login.js';
import { readRange, statementOf } from '../../../src/extras/dashboard/panel.js';
import { PANELS } from '../../../src/extras/dashboard/panels.js';
import { PRODUCT_PANELS } from '../../../src/extras/dashboard/product-panels.js';
import { asDashboard } from '../../../src/extras/embedded/clickhouse/users.js';
import { dateOf } from '../../clickhouse/small-world.js';
import { connectToClickHouse, select } from '../../harness/clickhouse.js';
import { cookieOf, type Fixtures, foreignHeaders, MONTH, openDashboard, RANGE, TOKEN } from './fixtures.js';

const NOW = Date.UTC(2026, 2, 1);
const WEEK_MS = 7 * 86_400_000;

export async function overHttp(t: Test, fixtures: Fixtures): Promise<void> {
  const { url, client, clickhouseUrl, reader, logIn, logOut, session, post } = fixtures;
  const isIn = async (cookie: string, at = url) =>
    (await fetch(`${at}/panels/days?${RANGE}`, { headers: { cookie } })).status !== 401;

  async function another(t: Test, wrongMs = 1) {
    const clickhouse = connectToClickHouse(t, 'http://127.0.0.1:1', 'shop');
    return await openDashboard(t, clickhouse, { wrongMs });
  }

  t.test('the page and its files are open, and load nothing from elsewhere', async (t) => {
    const scripts = ['overview', 'frame', 'address', 'panels', 'shared', 'uplot'];
    for (const path of ['/', ...scripts.map((name) => `/${name}.js`), '/dashboard.css', '/uplot.css']) {
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

  t.test(
    "the dashboard's days are those of SHOP_TIMEZONE, also in panels without a view by day",
    async (t) => {
      const { url, session } = await openDashboard(t, reader, { timeZone: async () => 'Asia/Tokyo' });
      const headers = { cookie: await session() };
      const page = await (await fetch(url)).text();
      t.match(page, /<html [^>]*data-time-zone="Asia\/Tokyo".*Days are those of Asia\/Tokyo/s);
      for (const { name } of PANELS) {
        const answer = await fetch(`${url}/panels/${name}?${RANGE}`, { headers });
        t.equal(answer.status, 200, name);
        const { sql } = (await answer.json()) as { sql: string };
        t.notMatch(sql, /toDate\(occurred_at\)|occurred_at (>=|<) (toDate\(|')/, name);
      }
    },
  );

  t.test("without SHOP_TIMEZONE the dashboard's days are those of `flush`", async (t) => {
    const CLICKHOUSE_URL = asDashboard(clickhouseUrl);
    const env = { CLICKHOUSE_URL, CLICKHOUSE_DATABASE: 'shop', DASHBOARD_PORT: '0', DASHBOARD_TOKEN: TOKEN };
    const config = readConfig({ ...env, HOST: '127.0.0.1' });
    const zoneOf = async (given: Partial<typeof config>) => {
      const { port, close } = await dashboard({ ...config, ...given }, pino({ level: 'silent' }));
      t.teardown(close);
      return /data-time-zone="(.*?)"/.exec(await (await fetch(`http://127.0.0.1:${port}`)).text())?.[1];
    };
    t.equal(await zoneOf({}), 'UTC');
    await keepSettings(client, 'shop', { SHOP_TIMEZONE: 'Asia/Tokyo' });
    t.equal(await zoneOf({}), 'Asia/Tokyo');
    t.equal(await zoneOf({ SHOP_TIMEZONE: 'Europe/Berlin' }), 'Europe/Berlin', 'a setting wins');
    t.equal(await zoneOf({ CLICKHOUSE_URL: 'http://127.0.0.1:1' }), 'UTC', 'while ClickHouse is away');
  });

  t.test('panels need a login', async (t) => {
    const cookie = `${await session()}x`;
    for (const { name } of [...PANELS, ...PRODUCT_PANELS])
      for (const path of [`/panels/${name}`, `/panels/${name}.csv`]) {
        const ask = async (headers = {}) =>
          (await fetch(`${url}${path}?${RANGE}&handle=shoe&text=shoe`, { headers })).status;
        t.same([await ask(), await ask({ cookie })], [401, 401], path);
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

  t.test('25 clients that guess tokens do not keep the right token out', async (t) => {
    // Their answers wait until the test is over.
    const { url, logIn } = await another(t, 3_600_000);
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

  t.test('a log-out ends only its own session, also on the server', async (t) => {
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
    const cookie = await session();
    for (const headers of foreignHeaders(url)) {
      t.equal((await logOut({ ...headers, cookie })).status, 403, JSON.stringify(headers));
      t.equal((await logIn(TOKEN, headers)).status, 403, JSON.stringify(headers));
    }
    t.ok(await isIn(cookie));
    const proxied = { 'sec-fetch-site': 'same-origin', origin: 'https://behind-a-proxy.example' };
    for (const headers of [proxied, { origin: url }, { origin: url.replace('http:', 'https:') }]) {
      const own = cookieOf((await logIn(TOKEN, headers)).headers.get('set-cookie'));
      t.ok(await isIn(own), JSON.stringify(headers));
      t.equal((await logOut({ ...headers, cookie: own })).status, 200);
      t.notOk(await isIn(own));
    }
  });

  t.test('a forged cookie opens nothing', async (t) => {
    const cookie = await session();
    t.ok(await isIn(`other=1; ${cookie}; more=2`));
    for (const wrong of ['', 'wishmeter_dashboard=', `${cookie}x`, cookie.slice(0, -1), `x${cookie}`])
      t.notOk(await isIn(wrong), wrong);
    const { url: restarted } = await another(t);
    t.notOk(await isIn(cookie, restarted), 'nor does one of before a restart');
  });

  t.test("scripts and other sites can't read the cookie, which lasts a week", (t) => {
    const login = new Login(TOKEN);
    const header = login.begin({ name: 'anna' }, NOW, false);
    t.match(header, /; HttpOnly; SameSite=Strict$/);
    t.match(header, /; Path=\/; Max-Age=604800;/);
    t.match(login.begin({ name: 'anna' }, NOW, true), /; Secure$/);
    t.notMatch(header, TOKEN);
    t.match(login.personOf(cookieOf(header), NOW + WEEK_MS - 1_000), { name: 'anna' });
    t.equal(login.personOf(cookieOf(header), NOW + WEEK_MS), undefined, 'a week later');
    t.end();
  });

  t.test('a request for a panel may choose only the panel and two days', async (t) => {
    const headers = { cookie: await session() };
    const ask = async (path: string) => {
      const answer = await fetch(url + path, { headers });
      const body = (await answer.json()) as { readonly sql: string; readonly rows: readonly unknown[] };
      return { status: answer.status, body };
    };
    t.equal((await ask(`/panels/system?${RANGE}`)).status, 404);
    const injected = `from=${MONTH.from}&to=${encodeURIComponent("2025-04-01' OR 1=1")}`;
    for (const query of ['', `from=${MONTH.to}&to=${MONTH.from}`, injected])
      t.equal((await ask(`/panels/days?${query}`)).status, 400, query);
    const plain = await ask(`/panels/days?${RANGE}`);
    const more = await ask(`/panels/days?${RANGE}&query=SELECT+1&sql=SELECT+1`);
    t.equal(more.body.sql, plain.body.sql);
    t.same(more.body.rows, plain.body.rows);
    t.ok(plain.body.rows.length > 5);
  });

  t.test('CSV has the rows of the panel, under a name that says what it is', async (t) => {
    const headers = { cookie: await session() };
    const answer = await fetch(`${url}/panels/devices.csv?${RANGE}`, { headers });
    t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8');
    t.match(answer.headers.get('content-disposition'), `wishmeter-devices-${MONTH.from}-${MONTH.to}.csv`);
    const bytes = Buffer.from(await answer.arrayBuffer());
    t.equal(bytes.subarray(0, 3).toString('hex'), 'efbbbf', 'a byte order mark');
    t.match(bytes.subarray(3).toString(), /^device,visits\r\n((phone|desktop),\d+\r\n){2}$/);
  });

  t.test('a compared panel has the rows of the time before, too, but its CSV has not', async (t) => {
    const headers = { cookie: await session() };
    const days = async (path: string, to: string) => {
      const answer = await fetch(`${url}/panels/${path}?from=${MONTH.from}&to=${to}`, { headers });
      return Array.from((await answer.text()).matchAll(/\d{4}-\d\d-\d\d(?="|,\d)/g), ([day]) => day).sort();
    };
    const both = await days('days', MONTH.to);
    t.ok(both.some((day) => day < MONTH.from));
    t.ok(both.some((day) => day >= MONTH.from));
    const [first = ''] = await days('days.csv', MONTH.to);
    t.ok(first >= MONTH.from, first);
  });

  t.test(
    'the panel of the most wished joins wish_rate with momentum, whatever the chosen days',
    async (t) => {
      const products = PANELS.find(({ name }) => name === 'products');
      const rows = async (query: string) =>
        (await client.query({ query, format: 'JSONCompactEachRow' })).json();
      for (const [from, to] of [
        [dateOf(1), dateOf(21)],
        [dateOf(9), MONTH.to],
        [dateOf(21), dateOf(21)],
      ] as const) {
        const views = `SELECT rate.product_id, rate.product_handle, rate.product_title, visitors, rate.wishers AS n,
          wish_rate, momentum.wishers, wishers_before, change, count() OVER () AS all_rows, NULL AS image
        FROM wish_rate(from = '${from}', to = '${to}') AS rate
        LEFT ANY JOIN momentum(until = '${to}') AS momentum ON momentum.product_id = rate.product_id
        WHERE n > 0 ORDER BY n DESC, visitors DESC, rate.product_handle`;
        if (products)
          t.same(await rows(statementOf(products, { from, to })), await rows(views), `${from} ${to}`);
      }
    },
  );

  t.test('a panel that shows the first rows says how many there are', async (t) => {
    for (const panel of PANELS.filter(({ sql }) => sql.endsWith('LIMIT 100'))) {
      const query = statementOf(panel, MONTH);
      const count = async (sql: string) =>
        (await select(client, sql)).map(({ all_rows }) => Number(all_rows));
      const all = (await count(query)).length;
      t.ok(all > (panel.name === 'products' ? 1 : 0), panel.name);
      t.same(await count(query.replace(/LIMIT 100$/, 'LIMIT 1')), [all], panel.name);
    }
  });

  t.test('a range is two real days in order, of at most three years; a refusal has a reason', (t) => {
    t.same(readRange('2026-02-28', '2026-03-01'), { from: '2026-02-28', to: '2026-03-01' });
    t.same(readRange('2026-03-01', '2026-03-01'), { from: '2026-03-01', to: '2026-03-01' });
    t.same(readRange('2023-01-01', '2026-01-04'), { from: '2023-01-01', to: '2026-01-04' }, '1,100 days');
    for (const [from, to, why] of [
      ['2026-03-02', '2026-03-01', /first day is after/],
      ['2026-02-30', '2026-03-01', /days like/],
      ['2026-02-01', '2026-13-01', /days like/],
      ['', '2026-03-01', /days like/],
      ["2026-03-01' OR 1", '2026-03-01', /days like/],
      ['2026-03-01', '2026-03-01 ', /days like/],
      ['1969-12-31', '1970-01-01', /from 1975-01-01 to 2147-12-31/],
      ['2020-01-01', '2026-01-01', /^2,193 days are too many at once: 1,100 is the limit/],
      ['2023-01-01', '2026-01-05', /^1,101 days/],
      ['2148-12-31', '2149-01-01', /from 1975-01-01 to 2147-12-31/],
    ] as const)
      t.match(readRange(from, to), why, `${from} ${to}`);
    t.end();
  });

  t.test("momentum ends with the last complete day of the shop's time zone", (t) => {
    const products = PANELS.find(({ name }) => name === 'products');
    const day = (timeZone: string, ms: number) => new Intl.DateTimeFormat('sv', { timeZone }).format(ms);
    // 25 hours apart: their days are never the same.
    for (const zone of ['Pacific/Pago_Pago', 'Pacific/Kiritimati']) {
      const [today, yesterday] = [day(zone, Date.now()), day(zone, Date.now() - 86_400_000)];
      const sql = products && statementOf(products, { from: '2026-01-01', to: today }, zone);
      t.match(sql, `toDate('${yesterday}') - 6`, zone);
      t.notMatch(sql, `toDate('${today}') - 6`, zone);
    }
    t.end();
  });

  t.test('a CSV cell begins no formula, not even behind invisible or wide characters', (t) => {
    const unseen = ['', ...'\t\r\n \u00a0\u3000\ufeff\u200b\u00ad\u2060\u202e\0\u3164\ufe0f'];
    for (const before of [...unseen, unseen.join('')])
      for (const sign of '=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b') {
        const text = `${before}${sign}1+1`;
        const [, cell = ''] = /^a\r\n"?([\s\S]*?)"?\r\n$/.exec(csvOf(['a'], [[text]])) ?? [];
        t.equal(cell, `'${text}`, JSON.stringify(text));
      }
    for (const text of ['\tx', '\rx', '\nx'])
      t.match(csvOf(['a'], [[text]]), `'${text}`, JSON.stringify(text));
    for (const text of ['a=1', 'red-shoe', '\u200bred', ' red', '\uff21', '1+1', 'ﬁ'])
      t.equal(csvOf(['a'], [[text]]), `a\r\n${text}\r\n`, 'what is no formula stays as it is');
    t.end();
  });

  t.test('a CSV quotes texts, and shows empty cells and maps, without a formula', (t) => {
    const csvs: readonly (readonly [cells: unknown[], line: string])[] = [
      [['plain', 1], 'plain,1'],
      [['with "quotes", commas\nand lines', null], '"with ""quotes"", commas\nand lines",'],
      [[{ EUR: 1 }, -5], '"{""EUR"":1}",-5'],
      [['=cmd()', '@x'], "'=cmd(),'@x"],
      [['+1', '-1'], "'+1,'-1"],
    ];
    for (const [cells, line] of csvs) t.equal(csvOf(['a', 'b'], [cells]), `a,b\r\n${line}\r\n`);
    t.end();
  });
}
