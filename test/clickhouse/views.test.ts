// Views show each event, visit and line of an order once, under the present profile, and answer the questions of docs/analysts.md.

import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { exampleOf, loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { encodeProduct } from '../../src/extras/alerts/product-row.js';
import { eventRow, lineOf, orderRow } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';
import { ANSWERS, dateOf, insertVisits, MORE, makeSmallWorld } from './small-world.js';

const databases = await startDatabases(t, 1);
const { own, emptied, insert, lines } = databases;
const ask = (query: string) => databases.ask(query);

t.test('a visit that was stored twice, under two tokens, is shown once', async (t) => {
  await emptied();
  await own.command({ query: 'SYSTEM STOP MERGES visits_stored' });
  const visit = {
    ...{ occurred_at: '2026-03-01 10:00:00.123', stream: 1, entry: 2, line: 3 },
    ...{ profile_id: '7.sx', product_handle: 'shoe', device: 'phone' },
  };
  let tokens = 0;
  const store = (change: object) =>
    own.insert({
      table: 'visits_stored',
      values: [{ ...visit, ...change }],
      format: 'JSONEachRow',
      clickhouse_settings: { insert_deduplication_token: `token ${tokens++}` },
    });
  for (let i = 0; i < 2; i++) await store({});
  t.same(await lines('SELECT count() FROM visits_stored'), ['2']);
  t.same(await lines('SELECT * FROM visits'), [`${visit.occurred_at} 7.sx shoe phone`]);
  for (const change of [{ stream: 2 }, { entry: 3 }, { line: 4 }, { profile_id: '8.sy' }])
    await store(change);
  t.same(await lines('SELECT count() FROM visits'), ['5'], 'each other name is another visit');
});

t.test('a share of a product counts as a share, and ends no wish for it', async (t) => {
  const of = (type: string, hour: number, more: object = {}) =>
    eventRow({ type, product_id: '1', occurred_at: `2025-03-01T0${hour}:00:00.000Z`, ...more });
  await emptied(of('add', 1), of('share', 2, { channel: 'Email', share_code: 'a' }));
  t.same(await lines('SELECT channel, shares FROM shares_by_channel'), ['Email 1']);
  t.same(await lines('SELECT step FROM steps_by_visitor'), ['add']);
  t.same(await lines("SELECT wishers FROM open_wishes(from = '2025-03-01', to = '2025-03-01')"), ['1']);
});

t.test('purchases has the lines of the newest statement, in whatever order they are inserted', async (t) => {
  await emptied(eventRow({ product_id: '1', product_handle: 'shoe' }));
  await own.command({ query: 'SYSTEM STOP MERGES purchases_stored' });
  const at = '2026-01-02T03:04:05.678Z';
  const who = { profile_id: '1a.cx', customer_id: '7', occurred_at: at };
  const line = (version: number, line: string, stated: object = {}) =>
    `${JSON.stringify(orderRow({ version, line, occurredAt: at, updatedAt: at, ...stated }, who))}\n`;
  const newest =
    line(3, 'a', { quantity: 2, discount: '2.50', amount: '17.50', variantId: '2' }) +
    line(3, 'b', { test: true, productId: '' });
  const older = line(1, 'a') + line(1, 'c');
  for (const some of [newest + newest, older, newest, line(3, 'none', { quantity: 0 }), line(2, 'a')])
    await insert(some);
  const all = 'SELECT * EXCEPT (occurred_at, updated_at) FROM purchases ORDER BY amount DESC';
  const expected = [
    'o1 1a.cx 7 \\N 1 2 2 10 2.5 17.5 EUR false shoe',
    'o1 1a.cx 7 \\N   1 10 0 10 EUR true ',
  ];
  t.same(await lines(all), expected);
  const times = '2026-01-02 03:04:05.678 2026-01-02 03:04:05.678';
  t.same(await lines('SELECT DISTINCT occurred_at, updated_at FROM purchases'), [times]);
  await own.command({ query: 'SYSTEM START MERGES purchases_stored' });
  await own.command({ query: 'OPTIMIZE TABLE purchases_stored FINAL' });
  t.same(await lines(all), expected, 'after a merge of parts');
  t.same(await lines('SELECT count() FROM events'), ['1'], 'the wish');
  t.same(await lines("SELECT product_id, amount FROM steps_by_visitor WHERE step = 'purchase'"), ['1 17.5']);
  await insert(line(4, 'none', { quantity: 0 }));
  t.same(await lines('SELECT * FROM purchases'), [], 'a statement without lines');
});

t.test('visits, purchases and events are shown under the present profile, each once', async (t) => {
  await emptied();
  const order = orderRow({}, { profile_id: 'old' });
  const testOrder = orderRow({ orderId: 'o2', test: true }, { profile_id: 'old' });
  const events = [eventRow({ profile_id: 'old' }), order, testOrder].map(lineOf);
  const merge = (into: string, at: number) => encodeMerge(newEventId(at), at, 'old', { into, isNew: true });
  const first = merge('erased', 1_000);
  await insert(...events, first);
  // The session returned after its customer's erasure, and was merged again. The first merge comes once more, late.
  await insert(merge('new', 2_000));
  await insert(first);
  await insertVisits(
    own,
    ['old', 'other'].map((who) => [who, 'shoe', 1, 1] as const),
  );
  const ids = (view: string) =>
    lines(`SELECT profile_id, recorded_profile_id AS was FROM ${view} ORDER BY was`);
  t.same(await lines('SELECT old_id, new_id FROM profile_merges ORDER BY old_id'), ['old new']);
  t.same(await lines('SELECT count() FROM events'), ['1'], 'merges and purchases are no events');
  t.same(await ids('events_by_visitor'), ['new old']);
  t.same(await ids('purchases_by_visitor'), ['new old']);
  t.same(await lines('SELECT order_id, test FROM purchases ORDER BY ALL'), ['o1 false', 'o2 true']);
  const bought = "SELECT step, order_id FROM steps_by_visitor WHERE step = 'purchase'";
  t.same(await lines(bought), ['purchase o1']);
  t.same(await ids('visits_by_visitor'), ['new old', 'other other']);
});

t.test('a repeated insert repairs lost merges, and shows each row once', async (t) => {
  await emptied();
  const merge = encodeMerge(newEventId(1_000), 1_000, 'old', { into: 'new', isNew: true });
  const wish = lineOf(eventRow({ type: 'add', product_id: '1' }));
  await insert(merge, wish);
  // As if ClickHouse had been killed between the rows and the tables that they feed.
  await own.command({ query: 'TRUNCATE TABLE profile_merges_stored' });
  await insert(merge, wish);
  t.same(await lines('SELECT count() FROM events'), ['1']);
  t.same(await lines('SELECT old_id, new_id FROM profile_merges'), ['old new']);
});

t.test('products has the newest value of each fact; prices and stock come from adds alone', async (t) => {
  await emptied();
  const of = (type: string, second: number, more: object) =>
    lineOf(eventRow({ type, product_id: '1', occurred_at: `2025-03-01T00:00:0${second}.000Z`, ...more }));
  await insert(
    of('add', 3, { product_handle: 'new', price: '8.00', currency: 'JPY', inventory_available: true }),
    of('add', 2, {
      product_handle: 'old',
      price: '9.00',
      payload: { productTitle: 'Title', image: 'https://shop.example/1.jpg' },
    }),
    of('moveToCart', 4, { price: '7.00', inventory_available: false }),
    of('add', 5, {}),
  );
  t.same(await lines('SELECT * FROM products'), ['1 new Title https://shop.example/1.jpg']);
  const variants = 'SELECT variant_id, price_now, currency, in_stock FROM product_variants ORDER BY currency';
  t.same(await lines(variants), [' 9  true', ' 8 JPY true']);
  await insert(of('add', 1, { variant_id: '2', currency: 'EUR' }));
  const latest = "SELECT price_now, currency, in_stock, told_at FROM product_variants WHERE variant_id = '2'";
  t.same(await lines(latest), ['\\N  \\N \\N']);
});

t.test('prices are compared within one currency, with the last price that the shop sent', async (t) => {
  await emptied();
  const wish = (who: string, second: number, price: string, currency: string) =>
    lineOf(
      eventRow({
        ...{ type: 'add', profile_id: who, product_id: '1', variant_id: '11', price, currency },
        ...{ occurred_at: `2025-03-01T00:00:0${second}.000Z`, inventory_available: second === 1 },
      }),
    );
  await insert(
    ...[wish('a', 1, '3000.00', 'JPY'), wish('b', 2, '20.00', 'EUR'), wish('c', 3, '2500.00', 'JPY')],
    ...[wish('d', 4, '20.00', ''), wish('e', 5, '25.00', 'EUR')],
  );
  const rows = () =>
    lines(`SELECT currency, wished_dearer, price_now, wished_out_of_stock, in_stock_now
      FROM restock_and_price_drops(from = '2025-03-01', to = '2025-03-01') ORDER BY currency`);
  t.same(await rows(), [' 0 20 1 false', 'EUR 0 25 2 false', 'JPY 1 2500 1 false']);
  const at = Date.UTC(2025, 2, 2);
  const product = (version: number, price: string, inventoryAvailable: boolean | null) => {
    const variants = [{ variantId: '11', price, currencyCode: null, inventoryAvailable }];
    const product = {
      productId: '1',
      productHandle: 'shoe',
      productTitle: 'Red "shoe"',
      image: 'https://shop.example/2.jpg',
      variants,
    };
    return encodeProduct(product, version, 'EUR');
  };
  const older = product(at - 1, '99.00', false);
  await insert(product(at, '19.99', true), older);
  await insert(older, product(at + 1, '19.99', null));
  t.same(await rows(), [' 1 19.99 1 true', 'EUR 2 19.99 2 true', 'JPY 1 2500 1 true']);
  t.same(await lines('SELECT * FROM products'), ['1 shoe Red "shoe" https://shop.example/2.jpg']);
  t.same(await lines('SELECT count() FROM events'), ['5'], 'a version of a product is no event');
  t.same(await lines('SELECT count() FROM steps_by_visitor'), ['5']);
});

t.test('wish_to_purchase has a row for each product, whatever currencies it was bought in', async (t) => {
  await emptied();
  const at = (day: number) => `2025-03-0${day}T00:00:00.000Z`;
  const wish = (who: string) =>
    lineOf(eventRow({ profile_id: who, product_id: '1', type: 'add', occurred_at: at(1) }));
  const bought = (who: string, orderId: string, amount: string, currency: string) =>
    lineOf(orderRow({ orderId, amount, currency, line: amount }, { profile_id: who, occurred_at: at(2) }));
  await insert(
    ...['a', 'b', 'c'].map(wish),
    ...[bought('a', 'o1', '10.00', 'EUR'), bought('a', 'o1', '20.00', 'EUR')],
    ...[bought('b', 'o2', '5.00', 'EUR'), bought('b', 'o3', '7.00', 'USD')],
  );
  const columns =
    'product_id, wishers, buyers, round(purchase_rate, 3), orders, quantity, revenue, average_order';
  t.same(await lines(`SELECT ${columns} FROM wish_to_purchase(from = '2025-03-01', to = '2025-03-01')`), [
    "1 3 2 0.667 3 4 {'EUR':35,'USD':7} {'EUR':17.5,'USD':7}",
  ]);
});

t.test('views have the days and weeks of SHOP_TIMEZONE', async (t) => {
  await emptied();
  const add = (who: string, occurred_at: string) =>
    lineOf(eventRow({ type: 'add', profile_id: who, product_id: '1', occurred_at }));
  // In Berlin Monday the 3rd of March begins at 23:00 of Sunday.
  await insert(add('sunday', '2025-03-02T22:59:59.999Z'), add('monday', '2025-03-02T23:00:00.000Z'));
  await databases.inTimeZone(t, 'Europe/Berlin', /^(events_per_day|most_wished|wishers_returning)$/);
  t.same(await lines('SELECT day, events FROM events_per_day'), ['2025-03-02 1', '2025-03-03 1']);
  for (const [from, to, wishers] of ['2 2 1', '3 3 1', '2 3 2'].map((days) => days.split(' '))) {
    const days = `(from = '2025-03-0${from}', to = '2025-03-0${to}')`;
    t.same(await lines(`SELECT wishers FROM most_wished${days}`), [wishers], days);
  }
  const returning = "SELECT week, wishers FROM wishers_returning(from = '2025-02-24', to = '2025-03-09')";
  t.same(await lines(returning), ['2025-02-24 1', '2025-03-03 1']);
  const times = ['2025-03-02 22:59:59.999', '2025-03-02 23:00:00.000'];
  t.same(await lines('SELECT occurred_at FROM events ORDER BY occurred_at'), times);
});

const { own: month } = databases.migrated(t);
// Duplicates stay stored: views must show them once all the same.
await month.command({ query: 'SYSTEM STOP MERGES' });
await makeSmallWorld(month);
for (let times = 0; times < 2; times++) await insertEvents(month, Buffer.from(MORE.join('')), never);

const DAYS = "(from = '2025-03-01', to = '2025-03-31')";
const ASKED = Array.from(
  readFileSync('docs/analysts.md', 'utf8').matchAll(/^```sql\n(.*?)^```$/gms),
  ([, sql = '']) => sql,
).flatMap((sql) => sql.split(/;.*\n/));
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
const rounded = (rows: readonly object[]) =>
  JSON.parse(JSON.stringify(rows), (_, value) =>
    typeof value === 'number' ? Math.round(value * 1e9) / 1e9 : value,
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
    // A query without an order may return its rows in any.
    if (!/ORDER BY|\(from|\(until|^SELECT \*/.test(query))
      rows.sort((a, b) => String(a['type']).localeCompare(String(b['type'])));
    t.same(rounded(rows), rounded(ANSWERS[name] ?? []), query);
  }
  t.same([...asked].sort(), Object.keys(ANSWERS).sort(), 'each answer is that of a query');
  for (const question of QUESTIONS) t.ok(asked.has(`${question}(`), question);
}

t.test('every question and query of docs/analysts.md has the answer worked out by hand', answersAreRight);

const WITH_DAYS = loadViews().filter(({ days }) => days.length > 0);

t.test(
  'a view refuses an impossible day, another spelling, and days in the wrong order, even without rows',
  async (t) => {
    await emptied();
    const ODD = [
      '2025-11-31',
      '2025-02-30',
      '20250101',
      '1969-12-31',
      '2150-01-01',
      '9999-12-31',
      '',
      'today',
    ];
    for (const { name: view, days: names } of WITH_DAYS) {
      const refused = (days: object, why: RegExp) => {
        const given = names.map((name) => `${name} = '${{ ...RIGHT, ...days }[name]}'`).join(', ');
        return t.rejects(ask(`SELECT * FROM ${view}(${given})`), why, `${view} ${given}`);
      };
      if (names.length > 1) await refused({ from: '2025-03-02', to: '2025-03-01' }, /from is after to/);
      for (const day of ['2025-1-1', ...(view === 'most_wished' ? ODD : [])])
        for (const name of names) await refused({ [name]: day }, /days are like|Cannot parse|BAD_QUERY/);
    }
    t.same(
      await ask('SELECT wishers FROM most_wished(from = today() - 7, to = today())'),
      [],
      'a day of SQL',
    );
  },
);
const RIGHT = { from: '2025-01-01', to: '2149-06-06', until: '2025-01-01' };

t.test('views asked for all days from 1970 to 2149 answer as for the days that have rows', async (t) => {
  for (const { name: view, days } of WITH_DAYS) {
    if (days.length < 2) continue;
    const ask = (from: string, to: string) =>
      databases.ask(`SELECT * FROM ${view}(from = '${from}', to = '${to}')`, month);
    t.same(await ask('1970-01-01', '2149-06-06'), await ask('2024-01-01', '2026-01-01'), view);
  }
});

t.test('every question has the same answer from the totals of closed days', async (t) => {
  const days = await totalDays(month, Date.now() + 2 * QUIET_MS);
  t.same(days, [2, 3, 4, 5, 6, 9, 10, 11, 17, 21].map(dateOf), 'every day with a visit');
  t.same(await databases.ask('SELECT day FROM visit_days WHERE is_open', month), []);
  await answersAreRight(t);
});
