// Migrations: a database of any earlier version is brought to the program's schema, also by several processes at once;
// one that the program does not know is refused.

import t from 'tap';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { loadMigrations, migrate } from '../../src/clickhouse/migrate.js';
import { StartupError } from '../../src/errors.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { type EventRow, eventRow, lineOf } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';

const { client, freshDatabase, clientOf, migrated, ask } = await startDatabases(3);
const names = loadMigrations().map(({ name }) => name);

t.test('a fresh database gets all migrations, and a second run has nothing to do', async (t) => {
  const database = freshDatabase();
  t.same(await migrate(client, database), names);
  t.same(await migrate(client, database), []);
  t.match(
    await ask(`SELECT version, name FROM ${database}.schema_migrations FINAL ORDER BY version`),
    loadMigrations().map(({ version, name }) => ({ version, name })),
  );
});

t.test('several processes may start at once', async (t) => {
  const database = freshDatabase();
  await Promise.all(Array.from({ length: 5 }, () => migrate(client, database)));
  t.same(await migrate(client, database), []);
  t.same(await ask(`SELECT count() AS n FROM ${database}.events`), [{ n: '0' }]);
});

t.test('a migration that broke off is finished by the next start', async (t) => {
  const database = freshDatabase();
  const [first, ...others] = loadMigrations();
  if (first === undefined) throw new Error('no migrations');
  const broken = { ...first, sql: `${first.sql}\nSELECT throwIf(1);` };
  await t.rejects(migrate(client, database, { given: [broken] }), { code: '395' });
  t.same(await migrate(client, database, { given: [first, ...others] }), names);
});

t.test('a database that is newer than the program is refused in one sentence', async (t) => {
  const { database } = await migrated(t);
  await t.rejects(migrate(client, database, { given: loadMigrations().slice(0, -1) }), {
    constructor: StartupError,
    message: /has schema \d+, and this program knows \d+/,
  });
});

t.test('a migration that has changed since it ran is refused', async (t) => {
  const { database } = await migrated(t);
  const changed = loadMigrations().map((m) => (m.version === 1 ? { ...m, sql: `${m.sql}\n-- changed` } : m));
  await t.rejects(migrate(client, database, { given: changed }), {
    constructor: StartupError,
    message: /001_events has changed/,
  });
});

t.test('migrations are numbered without gaps', async (t) => {
  t.same(
    loadMigrations().map(({ version }) => version),
    names.map((_, i) => i + 1),
  );
});

t.test('a database of the first release is brought forward, with its rows', async (t) => {
  const database = freshDatabase();
  const before = loadMigrations().slice(0, 4);
  t.equal(before.at(-1)?.name, '004_deployment', 'the last migration of that release');
  await migrate(client, database, { given: before });
  const own = clientOf(t, database);
  const merge = encodeMerge(newEventId(Date.now()), Date.now(), 'old', 'new');
  const rows = [
    eventRow({ profile_id: 'old', product_id: '1', price: '19.90', quantity: 2, payload: { a: 1 } }),
    eventRow({ profile_id: 'other', origin: 'item', type: 'remove' }),
  ];
  await insertEvents(own, Buffer.from(rows.map(lineOf).join('') + merge), 'before', never);
  const columns = 'event_id, type, occurred_at, profile_id, origin, product_id, quantity, price, payload';
  const read = () => ask<object>(`SELECT ${columns} FROM events ORDER BY event_id`, own);
  const were = await read();
  t.equal(were.length, 2);

  t.same(await migrate(client, database), names.slice(4));
  t.same(await read(), were);
  t.same(await ask('SELECT DISTINCT currency, inventory_available FROM events', own), [
    { currency: '', inventory_available: null },
  ]);
  t.same(await ask('SELECT profile_id FROM events_by_visitor ORDER BY profile_id', own), [
    { profile_id: 'new' },
    { profile_id: 'other' },
  ]);
  t.same(await ask('SELECT * FROM purchases', own), [], 'merges are no purchases');
  // And goes on as a new one: the lines of today, and those of a server that is not updated yet.
  const fresh = eventRow({ profile_id: 'third' });
  const line = lineOf({ ...fresh, currency: 'EUR', inventory_available: false } as EventRow);
  await insertEvents(own, Buffer.from(line + lineOf(eventRow())), 'after', never);
  t.same(
    await ask(`SELECT currency, inventory_available FROM events WHERE event_id = '${fresh.event_id}'`, own),
    [{ currency: 'EUR', inventory_available: false }],
  );
  t.same(await ask('SELECT count() AS n FROM events', own), [{ n: '4' }]);
});
