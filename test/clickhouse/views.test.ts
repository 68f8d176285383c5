// Views are put back: one that is missing, was changed by hand, or is of another version. Readers see the contract's columns.

import t, { type Test } from 'tap';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { loadViews, putViews } from '../../src/clickhouse/views.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';
import { insertVisits } from './small-world.js';

const databases = await startDatabases(9);
const { client } = databases;

async function migrated(t: Test) {
  const { database, own } = await databases.migrated(t);
  return { database, own, ask: <T = unknown>(query: string) => databases.ask<T>(query, own) };
}

t.test('a view that is missing or was changed by hand is put back, and no other', async (t) => {
  const { database, own, ask } = await migrated(t);
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
  const { database, own } = await migrated(t);
  await own.command({ query: 'CREATE VIEW my_own AS SELECT count() AS n FROM events' });
  await own.insert({
    table: 'views_put',
    values: [{ name: 'products', definition: 'of an earlier version', shown: '' }],
    columns: ['name', 'definition', 'shown'],
    format: 'JSONEachRow',
  });
  t.same(await putViews(client, database), ['products']);
  t.same(await (await own.query({ query: 'SELECT * FROM my_own', format: 'JSONEachRow' })).json(), [
    { n: '0' },
  ]);
});

t.test('several processes may put views at once', async (t) => {
  const { database, own, ask } = await migrated(t);
  await own.command({ query: 'DROP VIEW shop_funnel' });
  await Promise.all(Array.from({ length: 4 }, () => putViews(client, database)));
  t.same(await putViews(client, database), []);
  t.equal((await ask("SELECT * FROM shop_funnel(from = '2025-01-01', to = '2025-01-02')")).length, 1);
});

t.test('every view says what it answers', async (t) => {
  const { ask } = await migrated(t);
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
  const { own, ask } = await migrated(t);
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
  t.same(await ids('events_by_visitor'), [{ now: 'new', was: 'old' }]);
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
  const { own, ask } = await migrated(t);
  const merge = Buffer.from(encodeMerge(newEventId(1_000), 1_000, 'old', 'new'));
  await insertEvents(own, merge, 'token', never);
  // As if ClickHouse had been killed between the rows and what is fed with them.
  await own.command({ query: 'TRUNCATE TABLE profile_merges_stored' });
  await insertEvents(own, merge, 'token', never);
  t.same(await ask('SELECT count() AS n FROM events_stored'), [{ n: '1' }]);
  t.same(await ask('SELECT old_id, new_id FROM profile_merges'), [{ old_id: 'old', new_id: 'new' }]);
});

t.test('products: each fact as it was told last; prices and stock from adds alone', async (t) => {
  const { own, ask } = await migrated(t);
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
