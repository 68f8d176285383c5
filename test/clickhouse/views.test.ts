// Views are put back: one that is missing, was changed by hand, or is of another version. They answer the
// questions of docs/analysts.md right, in a small world (small-world.ts).

import t, { type Test } from 'tap';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { loadViews, putViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';
import { dateOf, insertVisits, makeSmallWorld, timeOf } from './small-world.js';

const databases = await startDatabases(1);
const { client } = databases;

async function emptied(t: Test) {
  const { database, own } = await databases.emptied(t);
  return { database, own, ask: <T = unknown>(query: string) => databases.ask<T>(query, own) };
}

t.test('a view that is missing or was changed by hand is put back, and no other', async (t) => {
  const { database, own, ask } = await emptied(t);
  t.same(await putViews(client, database), [], 'right after the migration nothing is to do');
  const shown = () =>
    ask("SELECT name, create_table_query FROM system.tables WHERE engine = 'View' ORDER BY name");
  const before = await shown();
  await own.command({ query: 'DROP VIEW most_wished' });
  await own.command({ query: 'CREATE OR REPLACE VIEW visits AS SELECT 1 AS mine' });
  await own.command({ query: 'CREATE OR REPLACE VIEW events AS SELECT * FROM events_stored' });
  t.same((await putViews(client, database)).toSorted(), ['events', 'most_wished', 'visits']);
  t.same(await shown(), before);
  t.same(await putViews(client, database), []);
});

t.test('a view that a user made is left alone, and one of an earlier version is made anew', async (t) => {
  const { database, own } = await emptied(t);
  await own.command({ query: 'CREATE VIEW my_own AS SELECT count() AS n FROM events' });
  await own.insert({
    table: 'views_put',
    values: [{ name: 'products', definition: 'of an earlier version', shown: '' }],
    columns: ['name', 'definition', 'shown'],
    format: 'JSONEachRow',
  });
  t.same(await putViews(client, database), ['products']);
  t.same(await databases.ask('SELECT * FROM my_own', own), [{ n: '0' }]);
  await own.command({ query: 'DROP VIEW my_own' });
});

t.test('several processes may put views at once', async (t) => {
  const { database, own, ask } = await emptied(t);
  await own.command({ query: 'DROP VIEW shop_funnel' });
  await Promise.all(Array.from({ length: 4 }, () => putViews(client, database)));
  t.same(await putViews(client, database), []);
  t.equal((await ask("SELECT * FROM shop_funnel(from = '2025-01-01', to = '2025-01-02')")).length, 1);
});

t.test('every view says what it answers', async (t) => {
  const { ask } = await emptied(t);
  const comments = await ask<{ name: string; comment: string }>(
    "SELECT name, comment FROM system.tables WHERE database = currentDatabase() AND engine = 'View' ORDER BY name",
  );
  t.same(
    comments,
    loadViews()
      .map(({ name, about }) => ({ name, comment: about }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
  );
});

t.test('visits, purchases and events are shown under the present profile, each once', async (t) => {
  const { own, ask } = await emptied(t);
  const order = { ...eventRow({ profile_id: 'old', product_id: '1' }), origin: 'order', order_id: 'o1' };
  const testOrder = { ...order, event_id: newEventId(1), order_id: 'o2', test: true };
  const lines = `${lineOf(eventRow({ profile_id: 'old' }))}${JSON.stringify(order)}\n${JSON.stringify(testOrder)}\n`;
  const merge = (from: string, heir: string, at: number) => encodeMerge(newEventId(at), at, from, heir);
  const first = merge('old', 'middle', 1_000);
  await insertEvents(own, Buffer.from(lines + first), 'a', never);
  // The heir is merged itself, and the first merge comes once more, late.
  await insertEvents(
    own,
    Buffer.from(merge('middle', 'new', 2_000) + merge('old', 'new', 2_000)),
    'b',
    never,
  );
  await insertEvents(own, Buffer.from(first), 'c', never);
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

t.test('an insert that ClickHouse has already still tells of its merges', async (t) => {
  const { own, ask } = await emptied(t);
  const merge = Buffer.from(encodeMerge(newEventId(1_000), 1_000, 'old', 'new'));
  await insertEvents(own, merge, 'token', never);
  // As if ClickHouse had been killed between the rows and what is fed with them.
  await own.command({ query: 'TRUNCATE TABLE profile_merges_stored' });
  await insertEvents(own, merge, 'token', never);
  t.same(await ask('SELECT count() AS n FROM events_stored'), [{ n: '1' }]);
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
        of('moveToCart', 4, { price: '7.00' }) +
        of('add', 5, {}),
    ),
    'a',
    never,
  );
  t.same(await ask('SELECT * FROM products'), [
    { product_id: '1', product_handle: 'new', product_title: 'Title' },
  ]);
  t.same(await ask('SELECT * EXCEPT told_at FROM product_variants'), [
    { product_id: '1', variant_id: '', price_now: 8, currency: 'JPY', in_stock: true },
  ]);
});

const { own: month } = await databases.migrated(t);
await makeSmallWorld(month);

// The twelve questions, as they were worked out by hand: with every visit read itself, and from the totals of days.
const MONTH = `from = '${dateOf(1)}', to = '${dateOf(31)}'`;
const shoe = { product_id: '1', product_handle: 'shoe', product_title: 'Red shoe' };
const hat = { product_id: '2', product_handle: 'hat', product_title: 'Blue hat' };
const bag = { product_id: '3', product_handle: 'bag', product_title: 'Green bag' };

interface Answer {
  readonly parameters: string;
  readonly rows: readonly object[];
}

const ANSWERS: Readonly<Record<(typeof QUESTIONS)[number] | 'product_funnel', Answer>> = {
  // Ann wished twice, the first time as a guest: three adds, two wishers.
  most_wished: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 3, adds: 3 },
      { ...shoe, wishers: 2, adds: 3 },
      { ...hat, wishers: 1, adds: 1 },
    ],
  },
  // Ann's is in the cart, Bob's removed, Dan's bought, if late. Bob's bag of day 0 is before the month.
  open_wishes: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 2, items: 2, oldest: timeOf(9, 12) },
      { ...hat, wishers: 1, items: 1, oldest: timeOf(20, 12) },
    ],
  },
  // Days 3 to 9: shoe by Ann and Bob, bag by Dan and Eve. Days -4 to 2: bag by Bob.
  momentum: {
    parameters: `until = '${dateOf(9)}'`,
    rows: [
      { ...shoe, wishers: 2, wishers_before: 0, change: 2, growth: null },
      { ...bag, wishers: 2, wishers_before: 1, change: 1, growth: 1 },
    ],
  },
  // The shoe was looked at by Ann (three times, twice as a guest) and Bob.
  wish_rate: {
    parameters: MONTH,
    rows: [
      { ...bag, visits: 5, visitors: 4, wishers: 3, wish_rate: 0.75 },
      { ...shoe, visits: 4, visitors: 2, wishers: 2, wish_rate: 1 },
      { ...hat, visits: 6, visitors: 2, wishers: 1, wish_rate: 0.5 },
      {
        product_id: '',
        product_handle: 'mug',
        product_title: '',
        visits: 1,
        visitors: 1,
        wishers: 0,
        wish_rate: 0,
      },
    ],
  },
  // To day 10 Cyd had not wished for the hat, but did later. Ann looked three times over two profiles, and wished.
  looked_never_wished: {
    parameters: `from = '${dateOf(1)}', to = '${dateOf(10)}'`,
    rows: [{ ...hat, visitors: 1, visits: 3 }],
  },
  // Bag: one visit each, 48 hours before (Dan) and 1 hour. Shoe: Ann 2 visits and 26 hours, Bob 1 and 72; of two the
  // larger is the median. Hat: from day 5, 9 h, to day 20, 12 h.
  before_the_wish: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 3, wishers_who_visited: 3, visits_median: 1, hours_median: 1 },
      { ...shoe, wishers: 2, wishers_who_visited: 2, visits_median: 2, hours_median: 72 },
      { ...hat, wishers: 1, wishers_who_visited: 1, visits_median: 3, hours_median: 363 },
    ],
  },
  wish_to_cart: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 3, carters: 0, cart_rate: 0, hours_median: null },
      { ...shoe, wishers: 2, carters: 1, cart_rate: 0.5, hours_median: 72 },
      { ...hat, wishers: 1, carters: 0, cart_rate: 0, hours_median: null },
    ],
  },
  // Two shoes at 45 less 7.50, once. Fay's test order is none. Ann's hat was never wished for; Dan's bag came after 33 days.
  wish_to_purchase: {
    parameters: MONTH,
    rows: [
      {
        ...{ ...shoe, wishers: 2, currency: 'EUR', buyers: 1, purchase_rate: 0.5 },
        ...{ orders: 1, quantity: 2, revenue: 82.5, average_order: 82.5 },
      },
      ...[
        { ...bag, wishers: 3 },
        { ...hat, wishers: 1 },
      ].map((product) => ({
        ...product,
        ...{ currency: '', buyers: 0, purchase_rate: 0, orders: 0, quantity: 0, revenue: 0 },
        average_order: null,
      })),
    ],
  },
  shop_funnel: {
    parameters: MONTH,
    rows: [{ visits: 16, visitors: 7, wishers: 6, carters: 1, buyers: 1, revenue: { EUR: 82.5 } }],
  },
  // Wished in the first week: Ann, who came a week later, Dan, who came two weeks later, and Bob, who did not.
  wishers_returning: {
    parameters: MONTH,
    rows: (
      [
        [2, 3, [1 / 3, 1 / 3, 0, 0, 0, 0, 0, 0]],
        [9, 1, [0, 0, 0, 0, 0, 0, 0, 0]],
        [16, 2, [0, 0, 0, 0, 0, 0, 0, 0]],
      ] as const
    ).flatMap(([day, wishers, rates]) =>
      rates.map((return_rate, i) => ({
        ...{ week: dateOf(day), weeks_later: i + 1, wishers, returned: Math.round(wishers * return_rate) },
        return_rate,
      })),
    ),
  },
  // Eve alone: Bob's and Dan's wishes are not open, and Fay's was in stock at today's price.
  restock_and_price_drops: {
    parameters: MONTH,
    rows: [
      {
        ...{ product_id: '3', variant_id: '31', product_handle: 'bag', product_title: 'Green bag' },
        ...{ wished_out_of_stock: 1, in_stock_now: true, wished_dearer: 1, price_now: 80, currency: 'USD' },
      },
    ],
  },
  // Ann's first wish was from pdp, her second from a collection.
  adds_by_source: {
    parameters: MONTH,
    rows: [
      { source: 'pdp', adds: 3, wishes: 3, wishers: 3, carted: 1, bought: 1, revenue: { EUR: 82.5 } },
      { source: 'collection', adds: 2, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
      { source: 'email', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
      { source: 'pdpSmartSave', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
    ],
  },
  product_funnel: {
    parameters: MONTH,
    rows: (
      [
        ['3', 'bag', 5, 4, 3, 0, 0, {}],
        ['1', 'shoe', 4, 2, 2, 1, 1, { EUR: 82.5 }],
        ['2', 'hat', 6, 2, 1, 0, 0, {}],
        ['', 'mug', 1, 1, 0, 0, 0, {}],
      ] as const
    ).map(([product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue]) => ({
      ...{ product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue },
    })),
  },
};

async function answersAreRight(t: Test): Promise<void> {
  for (const [view, { parameters, rows }] of Object.entries(ANSWERS)) {
    const answer = await month.query({
      query: `SELECT * FROM ${view}(${parameters})`,
      format: 'JSONEachRow',
      clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
    });
    t.same(await answer.json(), rows, view);
  }
}

t.test('there are twelve questions, and each is answered here', async (t) => {
  t.equal(QUESTIONS.length, 12);
  for (const view of QUESTIONS) t.ok(ANSWERS[view], view);
});

t.test('the answers, from every visit', answersAreRight);

t.test('the answers, from totals of the days that are over', async (t) => {
  const days = await totalDays(month, Date.now() + 2 * QUIET_MS);
  t.same(days, [2, 3, 4, 5, 6, 9, 10, 11, 17, 21].map(dateOf), 'every day with a visit');
  const open = await month.query({ query: 'SELECT * FROM open_visit_days', format: 'JSONEachRow' });
  t.same(await open.json(), []);
  await answersAreRight(t);
});
