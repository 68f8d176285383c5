// The dashboard. Over HTTP: who gets in, and how; nothing of the shop without the cookie; from the browser come the name of a
// panel and two days, and no query; CSV runs in no spreadsheet. In a real browser: the figures are SQL's, and it can be used
// by keyboard, and what it shows is in its address. looks.test.ts has how it looks, receivers.test.ts what it says while no
// answer comes.

import { pino } from 'pino';
import t, { type Test } from 'tap';
import { keepSettings } from '../../../src/clickhouse/kept-settings.js';
import { readConfig } from '../../../src/config.js';
import { csvOf } from '../../../src/extras/dashboard/csv.js';
import { dashboard } from '../../../src/extras/dashboard/dashboard.js';
import { Login } from '../../../src/extras/dashboard/login.js';
import { PANELS, readRange, statementOf, withTimeBefore } from '../../../src/extras/dashboard/panels.js';
import { asDashboard } from '../../../src/extras/embedded/clickhouse/users.js';
import { dateOf } from '../../clickhouse/small-world.js';
import { connectToClickHouse } from '../../harness/clickhouse.js';
import { cells, DRAWN, newPage, openBrowser, openDrawn, show, tile, WAIT_LIMIT } from './browser.js';
import { cookieOf, dashboardOfShop, foreignHeaders, MONTH, openDashboard, TOKEN } from './fixtures.js';

const { url, client, clickhouseUrl, reader, logIn, logOut, session, post, stopClickHouse } =
  await dashboardOfShop(t);
const range = `from=${MONTH.from}&to=${MONTH.to}`;
const NOW = Date.UTC(2026, 2, 1);
const WEEK_MS = 7 * 86_400_000;

const isIn = async (cookie: string, at = url) =>
  (await fetch(`${at}/panels/days?${range}`, { headers: { cookie } })).status !== 401;

/** Another dashboard, whose ClickHouse is away. */
async function another(t: Test, wrongMs = 1) {
  const clickhouse = connectToClickHouse(t, 'http://127.0.0.1:1', 'shop');
  return await openDashboard(t, clickhouse, { wrongMs });
}

t.test('the page and its files are open, and load nothing from elsewhere', async (t) => {
  const scripts = ['overview', 'frame', 'address', 'panels', 'shared', 'uplot'].map((name) => `/${name}.js`);
  for (const path of ['/', ...scripts, '/dashboard.css', '/uplot.css']) {
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

t.test('its days are those of SHOP_TIMEZONE, also of what no view has by day', async (t) => {
  const { url, session } = await openDashboard(t, reader, { timeZone: async () => 'Asia/Tokyo' });
  const headers = { cookie: await session() };
  t.match(
    await (await fetch(url)).text(),
    /<html [^>]*data-time-zone="Asia\/Tokyo".*Days are those of Asia\/Tokyo/s,
  );
  for (const { name } of PANELS) {
    const answer = await fetch(`${url}/panels/${name}?${range}`, { headers });
    t.equal(answer.status, 200, name);
    const { sql } = (await answer.json()) as { sql: string };
    t.notMatch(sql, /toDate\(occurred_at\)|occurred_at (>=|<) (toDate\(|')/, name);
  }
});

t.test('without SHOP_TIMEZONE its days are those of `flush`', async (t) => {
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
  const cookie = await session();
  for (const { name } of PANELS) {
    for (const path of [`/panels/${name}?${range}`, `/panels/${name}.csv?${range}`]) {
      t.equal((await fetch(url + path)).status, 401, path);
      t.equal((await fetch(url + path, { headers: { cookie: `${cookie}x` } })).status, 401, path);
    }
    t.equal((await fetch(`${url}/panels/${name}?${range}`, { headers: { cookie } })).status, 200, name);
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

t.test('25 clients that guess do not keep the right token out', async (t) => {
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

t.test('a log-out ends its session on the server, and no other', async (t) => {
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
  for (const headers of [
    { 'sec-fetch-site': 'same-origin', origin: 'https://behind-a-proxy.example' },
    { origin: url },
    { origin: url.replace('http:', 'https:') },
  ] as Record<string, string>[]) {
    const own = cookieOf((await logIn(TOKEN, headers)).headers.get('set-cookie'));
    t.ok(await isIn(own), JSON.stringify(headers));
    t.equal((await logOut({ ...headers, cookie: own })).status, 200);
    t.notOk(await isIn(own));
  }
});

t.test('a cookie that no log-in gave opens nothing', async (t) => {
  const cookie = await session();
  t.ok(await isIn(`other=1; ${cookie}; more=2`));
  for (const wrong of ['', 'wishmeter_dashboard=', `${cookie}x`, cookie.slice(0, -1), `x${cookie}`])
    t.notOk(await isIn(wrong), wrong);
  const { url: restarted } = await another(t);
  t.notOk(await isIn(cookie, restarted), 'nor does one of before a restart');
});

t.test('the cookie is out of reach of scripts and other sites, and lasts a week', (t) => {
  const login = new Login(TOKEN);
  const header = login.begin(NOW, false);
  t.match(header, /; HttpOnly; SameSite=Strict$/);
  t.match(header, /; Path=\/; Max-Age=604800;/);
  t.match(login.begin(NOW, true), /; Secure$/);
  t.notMatch(header, TOKEN);
  t.ok(login.isLoggedIn(cookieOf(header), NOW + WEEK_MS - 1_000));
  t.notOk(login.isLoggedIn(cookieOf(header), NOW + WEEK_MS), 'a week later');
  t.end();
});

t.test('the browser chooses a panel and two days, and no more', async (t) => {
  const headers = { cookie: await session() };
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
  const headers = { cookie: await session() };
  const answer = await fetch(`${url}/panels/devices.csv?${range}`, { headers });
  t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8');
  t.match(answer.headers.get('content-disposition'), `wishmeter-devices-${MONTH.from}-${MONTH.to}.csv`);
  const bytes = Buffer.from(await answer.arrayBuffer());
  t.equal(bytes.subarray(0, 3).toString('hex'), 'efbbbf', 'a byte order mark');
  t.match(bytes.subarray(3).toString(), /^device,visits\r\n(phone|desktop),\d+\r\n(phone|desktop),\d+\r\n$/);
});

t.test('a panel that is compared has the rows of the time before, too, and its CSV has not', async (t) => {
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
  t.same(withTimeBefore({ from: '2026-03-01', to: '2026-03-31' }), { from: '2026-01-29', to: '2026-03-31' });
  t.same(withTimeBefore({ from: '2026-03-01', to: '2026-03-01' }), { from: '2026-02-28', to: '2026-03-01' });
});

t.test('the most wished are the rows of wish_rate with those of momentum, whatever the time', async (t) => {
  const products = PANELS.find(({ name }) => name === 'products');
  const rows = async (query: string) =>
    await (await client.query({ query, format: 'JSONCompactEachRow' })).json();
  for (const from of [dateOf(1), dateOf(9), dateOf(21)])
    for (const to of [dateOf(21), MONTH.to]) {
      const views = `SELECT rate.product_id, rate.product_handle, rate.product_title, visitors, rate.wishers AS n,
          wish_rate, momentum.wishers, wishers_before, change, count() OVER () AS all_rows
        FROM wish_rate(from = '${from}', to = '${to}') AS rate
        LEFT ANY JOIN momentum(until = '${to}') AS momentum ON momentum.product_id = rate.product_id
        WHERE n > 0 ORDER BY n DESC, visitors DESC, rate.product_handle`;
      if (products)
        t.same(await rows(statementOf(products, { from, to })), await rows(views), `${from} ${to}`);
    }
});

t.test('a panel that shows the first rows says how many there are', async (t) => {
  for (const panel of PANELS.filter(({ sql }) => sql.endsWith('LIMIT 100'))) {
    const query = statementOf(panel, MONTH);
    const count = async (sql: string) =>
      (await (await client.query({ query: sql, format: 'JSONEachRow' })).json<{ all_rows: unknown }>()).map(
        ({ all_rows }) => Number(all_rows),
      );
    const all = (await count(query)).length;
    t.ok(all > (panel.name === 'products' ? 1 : 0), panel.name);
    t.same(await count(query.replace(/LIMIT 100$/, 'LIMIT 1')), [all], panel.name);
  }
});

t.test(
  'a range is two real days in order, of at most three years, and what is refused has its reason',
  (t) => {
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
  },
);

t.test('momentum ends with a day that is over, in the zone of the shop', (t) => {
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

t.test('CSV: no sign that begins a formula hides behind its width or what is not seen', (t) => {
  const unseen = ['', ...'\t\r\n \u00a0\u3000\ufeff\u200b\u00ad\u2060\u202e\0\u3164\ufe0f'];
  for (const before of [...unseen, unseen.join('')])
    for (const sign of '=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b') {
      const text = `${before}${sign}1+1`;
      const [, cell = ''] = /^a\r\n"?([\s\S]*?)"?\r\n$/.exec(csvOf(['a'], [[text]])) ?? [];
      t.equal(cell, `'${text}`, JSON.stringify(text));
    }
  for (const text of ['\tx', '\rx', '\nx']) t.match(csvOf(['a'], [[text]]), `'${text}`, JSON.stringify(text));
  for (const text of ['a=1', 'red-shoe', '\u200bred', ' red', '\uff21', '1+1', 'ﬁ'])
    t.equal(csvOf(['a'], [[text]]), `a\r\n${text}\r\n`, 'what is no formula stays as it is');
  t.end();
});

t.test('CSV: quotes, empty cells, maps, and no formula', (t) => {
  t.equal(
    csvOf(
      ['a', 'b'],
      [
        ['plain', 1],
        ['with "quotes", commas\nand lines', null],
        [{ EUR: 1 }, -5],
        ['=cmd()', '@x'],
        ['+1', '-1'],
      ],
    ),
    [
      'a,b',
      'plain,1',
      '"with ""quotes"", commas\nand lines",',
      '"{""EUR"":1}",-5',
      "'=cmd(),'@x",
      "'+1,'-1",
      '',
    ].join('\r\n'),
  );
  t.end();
});

const { browser, inBrowser } = await openBrowser(t);
t.test('in Chromium', inBrowser, async (t) => {
  if (browser === undefined) return;
  // The tests at a desk share a page.
  const { page, foreign, said } = await openDrawn(t, browser, url);
  const ask = async <T>(query: string): Promise<T[]> =>
    await (await client.query({ query, format: 'JSONEachRow' })).json<T>();
  const inMonth = `occurred_at >= '${MONTH.from}' AND occurred_at < '${MONTH.to}'::Date + 1`;

  await t.test('figures are those of SQL, and the token leaves the address', async (t) => {
    for (const [key, query] of [
      ['visits', `SELECT count() AS n FROM visits WHERE ${inMonth}`],
      ['wishes', `SELECT count() AS n FROM events WHERE type = 'add' AND ${inMonth}`],
      ['carts', `SELECT count() AS n FROM events WHERE type = 'moveToCart' AND ${inMonth}`],
      ['orders', `SELECT uniqExact(order_id) AS n FROM purchases WHERE NOT test AND ${inMonth}`],
    ] as const)
      t.equal(await tile(page, key), String((await ask<{ n: string }>(query))[0]?.n), key);
    t.equal(await tile(page, 'revenue'), '€102.50', 'two shoes at 45 less 7.50, and a hat at 20');
    t.same(await page.locator('[data-panel="funnel"] strong').allTextContents(), ['7', '6', '1', '1']);
    t.match(await page.locator('[data-panel="funnel"] .body').textContent(), '€82.50');
    t.same(await cells(page, 'products', 2), ['3', '2', '1']);
    t.match((await cells(page, 'products', 1))[0], /^Green bag/);
    t.same(await cells(page, 'stock', 2), ['1']);
    t.equal(await page.locator('[data-panel="sources"] li').count(), 5);
    t.same(foreign, []);
    t.same(said, []);
    t.equal(new URL(page.url()).hash, '');
    t.equal(await page.evaluate('document.cookie'), '', 'no script sees the cookie');
    t.equal(await page.locator('#chart canvas').count(), 1);
  });

  await t.test('codes are words, and each figure says what it counts', async (t) => {
    const names = await page.locator('[data-panel="sources"] .name').allTextContents();
    t.same(names, ['Product page', 'Collection page', 'E-mail', 'Smart Save', 'Wishlist']);
    const firstWishes = await page.locator('[data-panel="sources"] strong').allTextContents();
    t.same(firstWishes, ['3', '1', '1', '1', '0'], 'of which the bought ones are a part');
    t.match(await page.locator('[data-panel="sources"] .body').textContent(), /1 bought.*First wishes/s);
    t.same(await page.locator('.tile .name').allTextContents(), [
      ...['Visits', 'Added to a wishlist', 'Moved to the cart', 'Orders', 'Revenue in EUR'],
    ]);
    t.same((await page.locator('[data-panel="products"] th').allTextContents()).slice(4), [
      `Wishers in the 7 days to ${MONTH.to}`,
      'More than in the 7 before',
    ]);
  });

  await t.test('today is not over: it is marked, and left out of comparisons', async (t) => {
    const [from, to] = [dateOf(4), dateOf(6)];
    const { page, open } = await newPage(t, browser, url);
    await page.clock.setFixedTime(new Date(`${to}T18:00:00Z`));
    await open(`from=${from}&to=${to}`);
    await page.waitForSelector(DRAWN, WAIT_LIMIT);
    const visits = async (first: number, last: number) => {
      const days = `toDate(occurred_at) BETWEEN '${dateOf(first)}' AND '${dateOf(last)}'`;
      return Number((await ask<{ n: string }>(`SELECT count() AS n FROM visits WHERE ${days}`))[0]?.n);
    };
    t.equal(await tile(page, 'visits'), String(await visits(4, 6)), 'what is shown has today');
    const rate = (await visits(4, 5)) / (await visits(2, 3)) - 1;
    t.not(rate, (await visits(4, 6)) / (await visits(1, 3)) - 1);
    t.match(
      await page.locator('[data-figure="visits"] .up, [data-figure="visits"] .down').textContent(),
      `${(Math.abs(rate) * 100).toFixed(1)}%`,
    );
    t.equal(
      await page.locator('#compared').textContent(),
      `${from} to ${to}; today is not over: ${from} to ${dateOf(5)} is compared with ${dateOf(2)} to ${dateOf(3)}`,
    );
    t.match(await page.locator('#chart .legend').textContent(), 'Today, so far');
    await page.goto(`${url}/?from=${to}&to=${to}`);
    await page.waitForSelector(DRAWN, WAIT_LIMIT);
    t.match(await page.locator('[data-figure="visits"]').textContent(), 'today, so far');
  });

  await t.test('each panel is asked for once, first those in sight, and shown when it comes', async (t) => {
    const asked: string[] = [];
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { page, open } = await newPage(t, browser, url);
    page.on('request', (request) => asked.push(/panels\/(\w+)\?/.exec(request.url())?.[1] ?? ''));
    await page.route('**/panels/stock?*', async (route) => {
      await held;
      await route.continue();
    });
    await open();
    await page.waitForSelector('[data-panel="days"][aria-busy="false"]', WAIT_LIMIT);
    const panels = await page
      .locator('[data-panel]')
      .evaluateAll((all) => all.map((one) => one.dataset.panel));
    const inOrder = () => asked.filter((name) => name !== '');
    t.equal(await tile(page, 'visits'), '16', 'while the last one has not come');
    t.equal(await page.locator('[data-panel="stock"]').getAttribute('aria-busy'), 'true');
    release();
    await page.waitForSelector(DRAWN, WAIT_LIMIT);
    t.same(inOrder(), panels, 'from the top to the bottom');
    asked.length = 0;
    await page.evaluate('scrollTo(0, document.body.scrollHeight)');
    await page.evaluate("document.querySelector('#range').requestSubmit()");
    await page.waitForSelector(DRAWN, WAIT_LIMIT);
    t.same(inOrder().toSorted(), panels.toSorted());
    t.ok(inOrder().indexOf('stock') < inOrder().indexOf('days'), inOrder().join(' '));
  });

  await t.test('the chart tells of a day in this time, and in the time before', async (t) => {
    const drawing = page.locator('#chart .u-over');
    const { width = 0 } = (await drawing.boundingBox()) ?? {};
    // The fifth of 31 days.
    await drawing.hover({ position: { x: (width * 4) / 30, y: 50 } });
    t.same(await page.locator('#chart .legend .value').allTextContents(), ['6', '0']);
    t.equal(await page.locator('#chart .legend .day').textContent(), dateOf(5));
    await page.mouse.move(0, 0);
    t.equal(
      await page.locator('#chart .legend').textContent(),
      'Visits The time before ',
      'idle it has names only',
    );
    await page.locator('#chart .plot').focus();
    for (const key of ['Home', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowRight'])
      await page.keyboard.press(key);
    t.equal(
      await page.locator('#chart .plot').getAttribute('aria-valuetext'),
      `${dateOf(5)}: Visits 6, The time before 0`,
    );
  });

  await t.test('every panel shows its SQL and gives its rows', async (t) => {
    const panels = await page.locator('[data-panel]').all();
    t.equal(panels.length, 8);
    for (const panel of panels) {
      await panel.locator('summary').click();
      const sql = (await panel.locator('.tools pre').textContent()) ?? '';
      t.match(sql, /^SELECT\s/);
      await ask(sql);
      const href = await panel.locator('a[download]').getAttribute('href');
      t.match(href, /^panels\/\w+\.csv\?from=/);
    }
    const download = page.waitForEvent('download', WAIT_LIMIT);
    await page.locator('[data-panel="products"] a[download]').click();
    t.equal((await download).suggestedFilename(), `wishmeter-products-${MONTH.from}-${MONTH.to}.csv`);
  });

  await t.test('a table is sorted by its headings; tiles are chosen by arrow keys', async (t) => {
    const heading = page.locator('[data-panel="products"] th button', { hasText: 'Visitors' });
    await heading.focus();
    await page.keyboard.press('Enter');
    t.same(await cells(page, 'products', 3), ['4', '2', '2']);
    await page.keyboard.press('Enter');
    t.same(await cells(page, 'products', 3), ['2', '2', '4']);
    t.equal(await page.locator('[data-panel="products"] th[aria-sort="ascending"]').count(), 1);
    await page.locator('[data-figure="visits"]').focus();
    await page.keyboard.press('ArrowRight');
    t.equal(await page.evaluate('document.activeElement.dataset.figure'), 'wishes');
    t.match(
      await page.locator('#chart .plot').getAttribute('aria-label'),
      /^Added to a wishlist by day: 7 in this time, 1 in the time before/,
    );
  });

  await t.test('on a phone nothing is wider than the screen; in the dark it is dark', async (t) => {
    const { page } = await openDrawn(t, browser, url, {
      viewport: { width: 390, height: 844 },
      colorScheme: 'dark',
    });
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
    t.equal(
      await page.evaluate('getComputedStyle(document.documentElement).backgroundColor'),
      'rgb(20, 18, 16)',
    );
  });

  await t.test('another time is another address, and the way back works', async (t) => {
    await page.locator('input[name="to"]').fill(dateOf(3));
    await show(page).click();
    await page.waitForURL((address) => address.searchParams.get('to') === dateOf(3), WAIT_LIMIT);
    await page.locator('[data-figure="visits"] .value', { hasText: /^3$/ }).waitFor(WAIT_LIMIT);
    await page.goBack();
    await page.locator('[data-figure="visits"] .value', { hasText: /^16$/ }).waitFor(WAIT_LIMIT);
    t.equal(await page.locator('input[name="to"]').inputValue(), MONTH.to);
    const link = `import('./address.js').then(({ linkTo }) => linkTo('./other', { product: 'a b' }))`;
    t.equal(
      await page.evaluate(link),
      `./other?product=a+b&${range}`,
      'a link to another page keeps the days',
    );
  });

  await t.test(
    'how a table is sorted is in the address: reload and back keep it, and no panel is asked for anew',
    async (t) => {
      const { page } = await openDrawn(t, browser, url);
      const asked: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      const heading = page.locator('[data-panel="products"] th button', { hasText: 'Visitors' });
      await heading.click();
      await page.waitForURL(
        (address) => address.searchParams.get('sort.products') === '-visitors',
        WAIT_LIMIT,
      );
      await heading.click();
      await page.waitForURL(
        (address) => address.searchParams.get('sort.products') === 'visitors',
        WAIT_LIMIT,
      );
      t.same(asked, []);
      t.same(await cells(page, 'products', 3), ['2', '2', '4']);
      await page.goBack();
      t.same(await cells(page, 'products', 3), ['4', '2', '2']);
      t.equal(
        await page.locator('[data-panel="products"] th[aria-sort="descending"]').textContent(),
        'Visitors',
      );
      t.same(asked, []);
      await page.goForward();
      await page.reload();
      await page.waitForSelector(DRAWN, WAIT_LIMIT);
      t.same(await cells(page, 'products', 3), ['2', '2', '4']);
      t.equal(await page.locator('input[name="to"]').inputValue(), MONTH.to);
      await page.goto(`${url}/?${range}&sort.products=nonsense`);
      await page.waitForSelector(DRAWN, WAIT_LIMIT);
      t.same(await cells(page, 'products', 2), ['3', '2', '1'], 'as the rows came');
    },
  );

  await t.test('without the token one is asked for it, and a wrong one is refused', async (t) => {
    const context = await browser.newContext();
    t.teardown(() => context.close());
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForSelector('#login:not([hidden])', WAIT_LIMIT);
    t.notOk(await page.locator('main').isVisible());
    await page.getByLabel('Token').fill('not the token');
    await page.keyboard.press('Enter');
    await page.getByText('That is not the token.').waitFor(WAIT_LIMIT);
    await page.getByLabel('Token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await page.waitForSelector('main:not([hidden])', WAIT_LIMIT);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForSelector('#login:not([hidden])', WAIT_LIMIT);
    t.same(await context.cookies(), []);
  });
});

t.test('while ClickHouse is away a panel says so', async (t) => {
  const headers = { cookie: await session() };
  await stopClickHouse();
  const answer = await fetch(`${url}/panels/days?${range}`, { headers });
  t.equal(answer.status, 503);
  t.same(await answer.json(), { error: 'ClickHouse does not answer.', away: true });
  t.equal((await fetch(`${url}/healthz`)).status, 200, 'the dashboard itself is up');
});
