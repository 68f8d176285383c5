// The page of a product. Over HTTP: each figure is what was planted, whatever the handle looks like, and the handle is a
// parameter of ClickHouse. In a real browser: it is found by title and by handle, its address is kept, and nothing of a handle
// or a title becomes HTML.

import t from 'tap';
import { readParameters, shownWith } from '../../src/dashboard/panels.js';
import { PRODUCT_PANELS } from '../../src/dashboard/product-panels.js';
import { dateOf, insertVisits } from '../clickhouse/small-world.js';
import { dashboardOfShop, MONTH } from './fixtures.js';

const { url, client, session } = await dashboardOfShop(t);
const range = `from=${MONTH.from}&to=${MONTH.to}`;
/** Quotes, HTML, an escape, a placeholder and letters of three scripts. */
const ODD = `o'x\\"<img src=x onerror=document.title='run'>{handle:String}$&ü日本`;

await insertVisits(client, [
  ['hal', ODD, 12, 10],
  ['ida', ODD, 13, 10],
]);
await client.insert({
  table: 'events_stored',
  values: [
    {
      event_id: '00000000-0000-7000-8000-000000000001',
      type: 'add',
      occurred_at: `${dateOf(12)} 11:00:00.000`,
      profile_id: 'hal',
      origin: 'item',
      product_id: '9',
      product_handle: ODD,
      source: 'email',
      payload: JSON.stringify({ productTitle: '<b>Odd</b> lamp' }),
    },
  ],
  format: 'JSONEachRow',
});

interface Answer {
  readonly sql: string;
  readonly names: readonly string[];
  readonly rows: readonly unknown[][];
}

const headers = { cookie: await session() };
const answerOf = async (panel: string, parameters: Record<string, string>, days = MONTH) => {
  const answer = await fetch(`${url}/panels/${panel}?${new URLSearchParams({ ...days, ...parameters })}`, {
    headers,
  });
  return { status: answer.status, body: (await answer.json()) as Answer };
};
const rowsOf = async (panel: string, handle: string, days = MONTH) =>
  (await answerOf(panel, { handle }, days)).body.rows;

t.test('visits, visitors, wishers and the wish rate of a product', async (t) => {
  t.same(await rowsOf('product', 'bag'), [['Green bag', 1, 5, 4, 3, 0.75]]);
  t.same(await rowsOf('product', 'shoe'), [['Red shoe', 1, 4, 2, 2, 1]], 'ann was a guest, and is one');
  t.same(await rowsOf('product', 'mug'), [['', 0, 1, 1, 0, 0]]);
  t.same(await rowsOf('product', ODD), [['<b>Odd</b> lamp', 1, 2, 2, 1, 0.5]]);
  t.same(await rowsOf('product', 'none'), [['', 0, 0, 0, 0, null]]);
  const first = { from: dateOf(2), to: dateOf(2) };
  t.same(await rowsOf('product', 'shoe', first), [['Red shoe', 1, 2, 2, 0, 0]], 'of one day');
});

t.test('visits, visitors and wishes of a product by day', async (t) => {
  t.same(await rowsOf('product_days', 'shoe'), [
    [dateOf(2), 2, 2, 0],
    [dateOf(3), 1, 1, 1],
    [dateOf(4), 1, 1, 1],
    [dateOf(5), 0, 0, 1],
  ]);
  t.same(
    await rowsOf('product_days', 'bag', { from: dateOf(6), to: dateOf(11) }),
    [
      [dateOf(0), 0, 0, 1],
      [dateOf(6), 1, 1, 0],
      [dateOf(8), 0, 0, 1],
      [dateOf(9), 1, 1, 1],
      [dateOf(10), 1, 1, 0],
    ],
    'with as many days before',
  );
});

t.test('where wishes for a product were made, and on which devices it was visited', async (t) => {
  t.same(await rowsOf('product_sources', 'shoe'), [
    ['pdp', 1, 1, 1],
    ['pdpSmartSave', 1, 0, 0],
  ]);
  t.same(await rowsOf('product_sources', ODD), [['email', 1, 0, 0]]);
  t.same(await rowsOf('product_sources', 'mug'), []);
  t.same(await rowsOf('product_devices', 'shoe'), [
    ['desktop', 2],
    ['phone', 2],
  ]);
});

t.test('carts, orders and revenue of a product, among those of all', async (t) => {
  const all = { EUR: 102.5 };
  t.same(await rowsOf('product_orders', 'shoe'), [[1, 1, 1, 1, 2, { EUR: 82.5 }, all]]);
  t.same(await rowsOf('product_orders', 'hat'), [[0, 1, 1, 1, 1, { EUR: 20 }, all]]);
  t.same(await rowsOf('product_orders', 'bag'), [[0, 1, 0, 1, 0, {}, all]], 'a test order is none');
  t.same(
    await rowsOf('product_orders', 'bag', { from: dateOf(7), to: dateOf(41) }),
    [[0, 0, 1, 2, 1, { USD: 100 }, { EUR: 102.5, USD: 100 }]],
    'of two currencies',
  );
});

t.test('price and stock of a product change on the days when a wish told it', async (t) => {
  t.same(
    await rowsOf('product_prices', 'bag', { from: dateOf(0), to: dateOf(31) }),
    [
      [dateOf(21), '31', 80, 'USD', true],
      [dateOf(8), '31', 100, 'USD', false],
      [dateOf(0), '31', 90, 'EUR', true],
    ],
    'the same once more, on day 9, is no row',
  );
  t.same(await rowsOf('product_prices', ODD), [], 'a wish that told neither');
});

t.test('the search finds what the days have, by title and by handle', async (t) => {
  const found = async (text: string, days = MONTH) =>
    (await answerOf('search', { text }, days)).body.rows.map(([handle]) => handle);
  t.same(await found('GREEN'), ['bag']);
  t.same(await found('ho'), ['shoe']);
  t.same(await found('mug'), ['mug'], 'without a title');
  t.same(await found('odd</b>'), [ODD]);
  t.same(await found("o'x\\"), [ODD]);
  t.same(await found('%'), []);
  t.same(await found('bag', { from: dateOf(8), to: dateOf(8) }), ['bag'], 'it was wished for');
  t.same(await found('bag', { from: dateOf(3), to: dateOf(3) }), []);
  t.same((await answerOf('search', { text: 'shoe' })).body.rows, [['shoe', 'Red shoe', 4]]);
});

t.test('the statement under a panel has the handle in it, and answers the same', async (t) => {
  for (const { name, parameters = [] } of PRODUCT_PANELS) {
    const { body } = await answerOf(name, Object.fromEntries(parameters.map((one) => [one, ODD])));
    const again = await client.query({ query: body.sql, format: 'JSONCompactEachRow' });
    const rows = (await again.json()) as unknown[][];
    // What is compared with the time before has both.
    t.same(rows, body.rows, name);
    t.ok(rows.length > 0 || name === 'product_prices', name);
  }
  t.end();
});

t.test('a panel of a product wants a handle, and a login', async (t) => {
  for (const handle of ['', 'x'.repeat(256), 'ü'.repeat(128)])
    t.equal((await answerOf('product', { handle })).status, 400);
  t.equal((await answerOf('product', { handle: 'x'.repeat(255) })).status, 200);
  t.equal((await answerOf('product', {})).status, 400);
  for (const { name, parameters = [] } of PRODUCT_PANELS) {
    const query = parameters.map((one) => `${one}=shoe`).join('&');
    for (const path of [`/panels/${name}`, `/panels/${name}.csv`])
      t.equal((await fetch(`${url}${path}?${range}&${query}`)).status, 401, path);
  }
});

t.test('a text is filled in as ClickHouse reads it', (t) => {
  t.equal(shownWith('= {handle:String}', { handle: "o'x\\$&" }), "= 'o\\'x\\\\$&'");
  t.same(readParameters({ name: '', title: '', sql: '' }, new URLSearchParams('handle=x')), {});
  t.end();
});
