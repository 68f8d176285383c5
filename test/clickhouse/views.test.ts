// What the views show of the rows: each event, visit and line of an order once, under the present
// profile; and right answers to the questions of docs/analysts.md, in a small world (small-world.ts).

import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { exampleOf, loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge, encodeProduct } from '../../src/events/row.js';
import { type EventRow, eventRow, lineOf, orderRow } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';
import { ANSWERS, dateOf, insertVisits, MORE, makeSmallWorld } from './small-world.js';

const databases = await startDatabases(t, 1);

async function emptied(t: Test, ...events: EventRow[]) {
  const { own } = await databases.emptied(t, ...events);
  return { own, ask: <T = unknown>(query: string) => databases.ask<T>(query, own) };
}

t.test('a visit that was stored twice, under two tokens, is shown once', async (t) => {
  const { own, ask } = await emptied(t);
  await own.command({ query: 'SYSTEM STOP MERGES visits_stored' });
  const visit = {
    occurred_at: '2026-03-01 10:00:00.123',
    stream: 1,
    entry: 2,
    line: 3,
    profile_id: '7.sx',
    product_handle: 'shoe',
    device: 'phone',
  };
  const insert = (change: object, token: string) =>
    own.insert({
      table: 'visits_stored',
      values: [{ ...visit, ...change }],
      format: 'JSONEachRow',
      clickhouse_settings: { insert_deduplication_token: token },
    });
  await insert({}, 'first');
  await insert({}, 'second');
  t.same(await ask('SELECT count() AS n FROM visits_stored'), [{ n: '2' }]);
  t.same(await ask('SELECT * FROM visits'), [
    { occurred_at: visit.occurred_at, profile_id: '7.sx', product_handle: 'shoe', device: 'phone' },
  ]);
  for (const [i, change] of [{ stream: 2 }, { entry: 3 }, { line: 4 }, { profile_id: '8.sy' }].entries())
    await insert(change, `other ${i}`);
  t.same(await ask('SELECT count() AS n FROM visits'), [{ n: '5' }], 'each other name is another visit');
});

t.test('a share of a product is a share, and ends no wish for it', async (t) => {
  const of = (type: string, hour: number, more: object = {}) =>
    eventRow({ type, product_id: '1', occurred_at: `2025-03-01T0${hour}:00:00.000Z`, ...more });
  const { ask } = await emptied(t, of('add', 1), of('share', 2, { channel: 'Email', share_code: 'a' }));
  t.same(await ask('SELECT channel, shares FROM shares_by_channel'), [{ channel: 'Email', shares: '1' }]);
  t.same(await ask('SELECT step FROM steps_by_visitor'), [{ step: 'add' }]);
  t.same(await ask("SELECT wishers FROM open_wishes(from = '2025-03-01', to = '2025-03-01')"), [
    { wishers: '1' },
  ]);
});

t.test('purchases: the lines of the newest statement, in whatever order they are inserted', async (t) => {
  const { own, ask } = await emptied(t, eventRow({ product_id: '1', product_handle: 'shoe' }));
  await own.command({ query: 'SYSTEM STOP MERGES purchases_stored' });
  const at = '2026-01-02T03:04:05.678Z';
  const who = { profile_id: '1a.cx', customer_id: '7', occurred_at: at };
  const line = (version: number, line: string, stated: object = {}) =>
    `${JSON.stringify(orderRow({ version, line, occurredAt: at, updatedAt: at, ...stated }, who))}\n`;
  const newest =
    line(3, 'a', { quantity: 2, discount: '2.50', amount: '17.50', variantId: '2' }) +
    line(3, 'b', { test: true, productId: '' });
  const rest = [
    newest + newest,
    line(1, 'a') + line(1, 'c'),
    newest,
    line(3, 'none', { quantity: 0 }),
    line(2, 'a'),
  ];
  for (const lines of rest) await insertEvents(own, Buffer.from(lines), never);
  const both = {
    ...{ occurred_at: '2026-01-02 03:04:05.678', updated_at: '2026-01-02 03:04:05.678', order_id: 'o1' },
    ...{ profile_id: '1a.cx', customer_id: '7', session_id: null, price: 10, currency: 'EUR' },
  };
  const expected = [
    {
      ...{
        ...both,
        product_id: '1',
        variant_id: '2',
        quantity: 2,
        discount: 2.5,
        amount: 17.5,
        test: false,
      },
      product_handle: 'shoe',
    },
    {
      ...{ ...both, product_id: '', variant_id: '', quantity: 1, discount: 0, amount: 10, test: true },
      product_handle: '',
    },
  ];
  t.same(await ask('SELECT * FROM purchases ORDER BY amount DESC'), expected);
  await own.command({ query: 'SYSTEM START MERGES purchases_stored' });
  await own.command({ query: 'OPTIMIZE TABLE purchases_stored FINAL' });
  t.same(await ask('SELECT * FROM purchases ORDER BY amount DESC'), expected, 'after a merge of parts');
  t.same(await ask('SELECT count() AS n FROM events'), [{ n: '1' }], 'the wish');
  t.same(await ask("SELECT product_id, amount FROM steps_by_visitor WHERE step = 'purchase'"), [
    { product_id: '1', amount: 17.5 },
  ]);
  await insertEvents(own, Buffer.from(line(4, 'none', { quantity: 0 })), never);
  t.same(await ask('SELECT * FROM purchases'), [], 'a statement without lines');
});

t.test('visits, purchases and events are shown under the present profile, each once', async (t) => {
  const { own, ask } = await emptied(t);
  const order = orderRow({}, { profile_id: 'old' });
  const testOrder = orderRow({ orderId: 'o2', test: true }, { profile_id: 'old' });
  const lines = `${lineOf(eventRow({ profile_id: 'old' }))}${JSON.stringify(order)}\n${JSON.stringify(testOrder)}\n`;
  const merge = (from: string, target: string, at: number) => encodeMerge(newEventId(at), at, from, target);
  const first = merge('old', 'middle', 1_000);
  await insertEvents(own, Buffer.from(lines + first), never);
  // The target is merged itself, and the first merge comes once more, late.
  await insertEvents(own, Buffer.from(merge('middle', 'new', 2_000) + merge('old', 'new', 2_000)), never);
  await insertEvents(own, Buffer.from(first), never);
  await insertVisits(own, [
    ['old', 'shoe', 1, 1],
    ['other', 'shoe', 1, 1],
  ]);
  const ids = (view: string) =>
    ask(`SELECT profile_id AS now, recorded_profile_id AS was FROM ${view} ORDER BY was`);
  t.same(await ask('SELECT old_id, new_id FROM profile_merges ORDER BY old_id'), [
    { old_id: 'middle', new_id: 'new' },
    { old_id: 'old', new_id: 'new' },
  ]);
  t.same(await ask('SELECT count() AS n FROM events'), [{ n: '1' }], 'merges and purchases are no events');
  t.same(await ids('events_by_visitor'), [{ now: 'new', was: 'old' }]);
  const columns = async (view: string) =>
    (await ask<{ name: string }>(`DESCRIBE TABLE ${view}`)).map(({ name }) => name);
  const ofVisitors = await columns('events_by_visitor');
  for (const name of await columns('events')) t.ok(ofVisitors.includes(name), name);
  t.same(await ids('purchases_by_visitor'), [{ now: 'new', was: 'old' }]);
  t.same(await ask('SELECT order_id, test FROM purchases ORDER BY order_id'), [
    { order_id: 'o1', test: false },
    { order_id: 'o2', test: true },
  ]);
  t.same(await ask("SELECT step, order_id FROM steps_by_visitor WHERE step = 'purchase'"), [
    { step: 'purchase', order_id: 'o1' },
  ]);
  t.same(await ids('visits_by_visitor'), [
    { now: 'new', was: 'old' },
    { now: 'other', was: 'other' },
  ]);
});

t.test('the same insert sent again repairs lost merges, and shows each row once', async (t) => {
  const { own, ask } = await emptied(t);
  const lines = Buffer.from(
    encodeMerge(newEventId(1_000), 1_000, 'old', 'new') + lineOf(eventRow({ type: 'add', product_id: '1' })),
  );
  await insertEvents(own, lines, never);
  // As if ClickHouse had been killed between the rows and the tables that they feed.
  await own.command({ query: 'TRUNCATE TABLE profile_merges_stored' });
  await insertEvents(own, lines, never);
  t.same(await ask('SELECT count() AS n FROM events'), [{ n: 1 }]);
  t.same(await ask('SELECT old_id, new_id FROM profile_merges'), [{ old_id: 'old', new_id: 'new' }]);
});

t.test('products: each fact as it was told last; prices and stock from adds alone', async (t) => {
  const { own, ask } = await emptied(t);
  const of = (type: string, second: number, more: object) =>
    lineOf(eventRow({ type, product_id: '1', occurred_at: `2025-03-01T00:00:0${second}.000Z`, ...more }));
  await insertEvents(
    own,
    Buffer.from(
      of('add', 3, { product_handle: 'new', price: '8.00', currency: 'JPY', inventory_available: true }) +
        of('add', 2, { product_handle: 'old', price: '9.00', payload: { productTitle: 'Title' } }) +
        of('moveToCart', 4, { price: '7.00', inventory_available: false }) +
        of('add', 5, {}),
    ),
    never,
  );
  t.same(await ask('SELECT * FROM products'), [
    { product_id: '1', product_handle: 'new', product_title: 'Title' },
  ]);
  t.same(await ask('SELECT * EXCEPT told_at FROM product_variants ORDER BY currency'), [
    { product_id: '1', variant_id: '', price_now: 9, currency: '', in_stock: true },
    { product_id: '1', variant_id: '', price_now: 8, currency: 'JPY', in_stock: true },
  ]);
  await insertEvents(own, Buffer.from(of('add', 1, { variant_id: '2', currency: 'EUR' })), never);
  t.same(
    await ask("SELECT price_now, currency, in_stock, told_at FROM product_variants WHERE variant_id = '2'"),
    [{ price_now: null, currency: '', in_stock: null, told_at: null }],
    'of what was not told nothing is known, nor when',
  );
});

t.test('prices are compared within one currency, with what the shop told last', async (t) => {
  const { own, ask } = await emptied(t);
  const wish = (who: string, second: number, price: string, currency: string) =>
    lineOf(
      eventRow({
        ...{ type: 'add', profile_id: who, product_id: '1', variant_id: '11', price, currency },
        ...{ occurred_at: `2025-03-01T00:00:0${second}.000Z`, inventory_available: second === 1 },
      }),
    );
  const wishes =
    wish('a', 1, '3000.00', 'JPY') + wish('b', 2, '20.00', 'EUR') + wish('c', 3, '2500.00', 'JPY');
  const unnamed = wish('d', 4, '20.00', '') + wish('e', 5, '25.00', 'EUR');
  await insertEvents(own, Buffer.from(wishes + unnamed), never);
  const rows = () =>
    ask(`SELECT currency, wished_dearer AS dearer, price_now AS price, wished_out_of_stock AS out, in_stock_now AS stock
      FROM restock_and_price_drops(from = '2025-03-01', to = '2025-03-01') ORDER BY currency`);
  t.same(await rows(), [
    { currency: '', dearer: '0', price: 20, out: '1', stock: false },
    { currency: 'EUR', dearer: '0', price: 25, out: '2', stock: false },
    { currency: 'JPY', dearer: '1', price: 2500, out: '1', stock: false },
  ]);
  const at = Date.UTC(2025, 2, 2);
  const told = (version: number, price: string, inventoryAvailable: boolean | null) => {
    const variant = { variantId: '11', price, currencyCode: null, inventoryAvailable };
    const product = {
      productId: '1',
      productHandle: 'shoe',
      productTitle: 'Red "shoe"',
      variants: [variant],
    };
    return encodeProduct(product, version, 'EUR');
  };
  const older = told(at - 1, '99.00', false);
  await insertEvents(own, Buffer.from(told(at, '19.99', true) + older), never);
  await insertEvents(own, Buffer.from(older + told(at + 1, '19.99', null)), never);
  t.same(await rows(), [
    { currency: '', dearer: '1', price: 19.99, out: '1', stock: true },
    { currency: 'EUR', dearer: '2', price: 19.99, out: '2', stock: true },
    { currency: 'JPY', dearer: '1', price: 2500, out: '1', stock: true },
  ]);
  t.same(await ask('SELECT * FROM products'), [
    { product_id: '1', product_handle: 'shoe', product_title: 'Red "shoe"' },
  ]);
  t.same(await ask('SELECT count() AS n FROM events'), [{ n: '5' }], 'what the shop told is no event');
  t.same(await ask('SELECT count() AS n FROM steps_by_visitor'), [{ n: '5' }]);
});

t.test('wish_to_purchase has a row for each product, whatever currencies it was bought in', async (t) => {
  const { own, ask } = await emptied(t);
  const row = (who: string, more: object) =>
    JSON.stringify({ ...eventRow({ profile_id: who, product_id: '1' }), ...more });
  const wish = (who: string) => row(who, { type: 'add', occurred_at: '2025-03-01T00:00:00.000Z' });
  const bought = (who: string, orderId: string, amount: string, currency: string) =>
    JSON.stringify(
      orderRow(
        { orderId, amount, currency, line: amount },
        { profile_id: who, occurred_at: '2025-03-02T00:00:00.000Z' },
      ),
    );
  const lines = [
    ...['a', 'b', 'c'].map(wish),
    ...[bought('a', 'o1', '10.00', 'EUR'), bought('a', 'o1', '20.00', 'EUR')],
    ...[bought('b', 'o2', '5.00', 'EUR'), bought('b', 'o3', '7.00', 'USD')],
  ];
  await insertEvents(own, Buffer.from(`${lines.join('\n')}\n`), never);
  t.same(
    await ask(`SELECT * EXCEPT (product_handle, product_title)
      FROM wish_to_purchase(from = '2025-03-01', to = '2025-03-01')`),
    [
      {
        ...{ product_id: '1', wishers: '3', buyers: '2', purchase_rate: 2 / 3, orders: '3', quantity: '4' },
        ...{ revenue: { EUR: 35, USD: 7 }, average_order: { EUR: 17.5, USD: 7 } },
      },
    ],
  );
});

t.test('days and weeks are those of SHOP_TIMEZONE', async (t) => {
  const { own } = await databases.emptied(t);
  const ask = <T = unknown>(query: string) => databases.ask<T>(query, own);
  const add = (who: string, occurred_at: string) =>
    lineOf(eventRow({ type: 'add', profile_id: who, product_id: '1', occurred_at }));
  // In Berlin Monday the 3rd of March begins at 23:00 of Sunday.
  const lines = add('sunday', '2025-03-02T22:59:59.999Z') + add('monday', '2025-03-02T23:00:00.000Z');
  await insertEvents(own, Buffer.from(lines), never);
  await databases.inTimeZone(t, own, 'Europe/Berlin', /^(events_per_day|most_wished|wishers_returning)$/);
  t.same(await ask('SELECT day, events FROM events_per_day'), [
    { day: '2025-03-02', events: '1' },
    { day: '2025-03-03', events: '1' },
  ]);
  const wishers = async (parameters: string) =>
    Number((await ask<{ wishers: string }>(`SELECT wishers FROM most_wished(${parameters})`))[0]?.wishers);
  t.equal(await wishers("from = '2025-03-02', to = '2025-03-02'"), 1);
  t.equal(await wishers("from = '2025-03-03', to = '2025-03-03'"), 1);
  t.equal(await wishers("from = '2025-03-02', to = '2025-03-03'"), 2);
  t.same(await ask("SELECT week, wishers FROM wishers_returning(from = '2025-02-24', to = '2025-03-09')"), [
    { week: '2025-02-24', wishers: '1' },
    { week: '2025-03-03', wishers: '1' },
  ]);
  t.same(await ask('SELECT occurred_at FROM events ORDER BY occurred_at'), [
    { occurred_at: '2025-03-02 22:59:59.999' },
    { occurred_at: '2025-03-02 23:00:00.000' },
  ]);
});

const { own: month } = await databases.migrated(t);
// What was stored twice stays so: views show it once all the same.
await month.command({ query: 'SYSTEM STOP MERGES' });
await makeSmallWorld(month);
for (let times = 0; times < 2; times++) await insertEvents(month, Buffer.from(MORE.join('')), never);

const DAYS = "(from = '2025-03-01', to = '2025-03-31')";
const ASKED = Array.from(
  readFileSync('docs/analysts.md', 'utf8').matchAll(/^```sql\n(.*?)^```$/gms),
  ([, sql = '']) => sql,
).flatMap((sql) => sql.split(/;.*\n/));
/** As they stand in docs/analysts.md, of the month of the small world; every question; and what the dashboard asks. */
const QUERIES = new Set(
  [
    ...ASKED,
    ...loadViews()
      .filter(({ name }) => QUESTIONS.some((question) => question === name))
      .map((view) => `SELECT * FROM ${exampleOf(view)}`),
    `SELECT * FROM product_funnel${DAYS}`,
  ]
    .map((sql) => sql.trim().replaceAll('2026-03', '2025-03'))
    .filter((sql) => sql !== ''),
);
/** Without what the last digits of a float are. */
const rounded = (rows: readonly object[]) =>
  rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([key, value]) => [
        key,
        typeof value === 'number' ? Math.round(value * 1e9) / 1e9 : value,
      ]),
    ),
  );

async function answersAreRight(t: Test): Promise<void> {
  const asked = new Set<string>();
  for (const query of QUERIES) {
    const names = Object.keys(ANSWERS).filter((name) => query.includes(name));
    t.equal(names.length, 1, `an answer for: ${query}`);
    const [name = ''] = names;
    asked.add(name);
    const answer = await month.query({
      query,
      format: 'JSONEachRow',
      clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
    });
    const rows = await answer.json<Record<string, unknown>>();
    // One that has no order of its own may come in any.
    if (!/ORDER BY|\(from|\(until|^SELECT \*/.test(query))
      rows.sort((a, b) => String(a['type']).localeCompare(String(b['type'])));
    t.same(rounded(rows), rounded(ANSWERS[name] ?? []), query);
  }
  t.same([...asked].sort(), Object.keys(ANSWERS).sort(), 'each answer is that of a query');
  for (const question of QUESTIONS) t.ok(asked.has(`${question}(`), question);
}

t.test('every question and query of docs/analysts.md has the answer worked out by hand', answersAreRight);

const WITH_DAYS = loadViews().filter(({ days }) => days.length > 0);

t.test('an impossible day, another spelling or another order is an error, also without rows', async (t) => {
  const { ask } = await emptied(t);
  const ODD = ['2025-11-31', '2025-02-30', '20250101', '1969-12-31', '2150-01-01', '9999-12-31', '', 'today'];
  for (const { name: view, days: names } of WITH_DAYS) {
    const refused = (days: object, why: RegExp) => {
      const given = names.map((name) => `${name} = '${{ ...RIGHT, ...days }[name]}'`).join(', ');
      return t.rejects(ask(`SELECT * FROM ${view}(${given})`), why, `${view} ${given}`);
    };
    if (names.length > 1) await refused({ from: '2025-03-02', to: '2025-03-01' }, /from is after to/);
    for (const day of ['2025-1-1', ...(view === 'most_wished' ? ODD : [])])
      for (const name of names) await refused({ [name]: day }, /days are like|Cannot parse|BAD_QUERY/);
  }
  t.same(await ask('SELECT wishers FROM most_wished(from = today() - 7, to = today())'), [], 'a day of SQL');
});
const RIGHT = { from: '2025-01-01', to: '2149-06-06', until: '2025-01-01' };

t.test('far days are answered as any other: nothing is before or after them', async (t) => {
  for (const { name: view, days } of WITH_DAYS) {
    if (days.length < 2) continue;
    const ask = (from: string, to: string) =>
      databases.ask(`SELECT * FROM ${view}(from = '${from}', to = '${to}')`, month);
    t.same(await ask('1970-01-01', '2149-06-06'), await ask('2024-01-01', '2026-01-01'), view);
  }
});

t.test('the same answers from totals of the days that are over', async (t) => {
  const days = await totalDays(month, Date.now() + 2 * QUIET_MS);
  t.same(days, [2, 3, 4, 5, 6, 9, 10, 11, 17, 21].map(dateOf), 'every day with a visit');
  t.same(await databases.ask('SELECT day FROM visit_days WHERE is_open', month), []);
  await answersAreRight(t);
});
