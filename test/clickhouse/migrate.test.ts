// A fresh database gets the program's schema and views, also by several processes at once; an unknown schema is refused.

import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { clusterSettings, statementsOf } from '../../src/clickhouse/cluster.js';
import { eraseRows, VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { loadMigrations, migrate } from '../../src/clickhouse/migrate.js';
import { loadViews } from '../../src/clickhouse/views.js';
import { startProcesses } from '../../src/commands/start/processes.js';
import { readConfig } from '../../src/config.js';
import { StartupError } from '../../src/errors.js';
import { SHARED, startDatabases } from './databases.js';

const { client, own, freshDatabase, emptied, ask } = await startDatabases(t);
const names = loadMigrations().map(({ name }) => name);

t.test('a migration that broke off is finished at the next start', async (t) => {
  const database = freshDatabase();
  const [first, ...others] = loadMigrations();
  if (first === undefined) throw new Error('no migrations');
  const broken = { ...first, sql: `${first.sql}\nSELECT throwIf(1);` };
  await t.rejects(migrate(client, database, { given: [broken] }), { code: '395' });
  t.same(await migrate(client, database, { given: [first, ...others] }), names);
});

t.test('a database newer than the program, or with a changed migration, is refused', async (t) => {
  await emptied();
  const all = loadMigrations();
  for (const [given, message] of [
    [all.slice(0, -1), /has schema \d+, and this program knows \d+/],
    [all.map((m) => (m.version === 1 ? { ...m, sql: `${m.sql}\n-- changed` } : m)), /001_events has changed/],
  ] as const)
    await t.rejects(migrate(client, SHARED, { given }), { constructor: StartupError, message });
});

t.test("migrate restores a missing or changed view, and leaves a user's own view alone", async (t) => {
  await emptied();
  const shown = () =>
    ask("SELECT name, create_table_query FROM system.tables WHERE engine = 'View' ORDER BY name");
  const before = await shown();
  await own.command({ query: 'DROP VIEW most_wished' });
  await own.command({ query: 'CREATE OR REPLACE VIEW visits AS SELECT 1 AS mine' });
  await own.command({ query: 'CREATE OR REPLACE VIEW events AS SELECT * FROM events_stored' });
  await own.command({ query: 'CREATE VIEW my_own AS SELECT count() AS n FROM events' });
  t.same(await migrate(client, SHARED), []);
  t.same(await ask('SELECT * FROM my_own'), [{ n: '0' }]);
  await own.command({ query: 'DROP VIEW my_own' });
  t.same(await shown(), before);
});

t.test("after an upgrade a view of all columns of another view has that view's new columns", async (t) => {
  await emptied();
  const columns = () => ask<{ name: string }>('DESCRIBE events_by_visitor');
  const now = await columns();
  await own.command({
    query: 'CREATE OR REPLACE VIEW events AS SELECT event_id, profile_id FROM events_stored',
  });
  const { sql = '' } = loadViews().find(({ name }) => name === 'events_by_visitor') ?? {};
  for (const query of statementsOf(sql, SHARED)) await own.command({ query });
  t.equal((await columns()).length, 3, 'as an earlier version left it');
  await migrate(client, SHARED);
  t.same(await columns(), now);
});

t.test('loadViews finds every view of every file in src/clickhouse/views', (t) => {
  const folder = new URL('../../../src/clickhouse/views/', import.meta.url);
  const texts = readdirSync(folder).map((file) => readFileSync(new URL(file, folder), 'utf8'));
  const written = texts.flatMap((text) =>
    Array.from(text.matchAll(/^CREATE .* \{database\}\.(\w+)/gm), ([, name]) => name),
  );
  t.same(
    written.toSorted(),
    loadViews()
      .map(({ name }) => name)
      .toSorted(),
  );
  t.end();
});

t.test('every view has its description as its comment', async (t) => {
  await emptied();
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

// The schema of a cluster. `make test-replicas` tries it on two replicas.
const all = loadMigrations().flatMap(({ sql }) => statementsOf(sql, 'shop', 'many'));
const views = loadViews().flatMap(({ sql }) => statementsOf(sql, 'shop', 'many'));

t.test("ClickHouse parses every statement of a cluster's schema, and each names the cluster", async (t) => {
  for (const statement of [...all, ...views]) {
    const answer = await client.query({
      query: 'SELECT formatQuery({statement: String}) AS parsed',
      query_params: { statement },
      format: 'JSONEachRow',
    });
    const [row] = await answer.json<{ parsed: string }>();
    t.match(row?.parsed, /ON CLUSTER many/, statement);
  }
});

t.test('the schema of a single server has nothing of a cluster', (t) => {
  for (const { sql } of [...loadMigrations(), ...loadViews()])
    for (const statement of statementsOf(sql, 'shop'))
      t.notMatch(statement, /CLUSTER|_local|Replicated|Distributed/, statement);
  t.end();
});

t.test('every local table of a cluster is replicated, and fed from local tables', (t) => {
  const [local, feeds] = [/^CREATE TABLE IF NOT EXISTS shop\.\w+_local /, /^CREATE MATERIALIZED/].map(
    (kind) => all.filter((statement) => kind.test(statement)),
  ) as [string[], string[]];
  t.ok(local.length > 5 && feeds.length > 2);
  for (const statement of local) t.match(statement, /ENGINE = Replicated\w+\('\/clickhouse\/tables\//);
  for (const feed of feeds) {
    t.match(feed, / TO shop\.\w+_local AS\b/);
    t.match(feed, /\nFROM shop\.\w+_local AS /);
  }
  t.end();
});

t.test('repeats of a row go to the same shard', (t) => {
  const keyOf = (table: string) =>
    new RegExp(`Distributed\\(many, shop, ${table}_local, (.*)\\)$`, 'm').exec(all.join('\n'))?.[1];
  t.equal(keyOf('events_stored'), "sipHash64(if(order_id = '', profile_id, order_id))");
  t.equal(keyOf('visits_stored'), 'sipHash64(profile_id)');
  t.end();
});

t.test(
  'an erasure on a cluster changes the local tables of all servers, and waits for all replicas',
  async (t) => {
    const asked: { query: string; clickhouse_settings?: object }[] = [];
    const command = async (one: { query: string }) => asked.push(one);
    const erasures = () => asked.filter(({ query }) => query.startsWith('ALTER'));
    const query = async () => ({ json: async () => [{ hashes: ['7'] }] });
    await eraseRows({ command, query } as never, new Map([['1a.sAAAAAAAAAAAAAAAA', '1000 1000']]), 'many');
    t.same(
      erasures().map(({ query }) => /^ALTER TABLE (\w+) ON CLUSTER many DELETE/.exec(query)?.[1]),
      VISITOR_TABLES.map(({ name }) => `${name}_local`),
    );
    for (const { clickhouse_settings } of erasures()) t.same(clickhouse_settings, { mutations_sync: '2' });
    t.match(
      asked.at(-1)?.query,
      /^KILL MUTATION ON CLUSTER many .*'events_stored_local'/,
      'their texts are forgotten',
    );
  },
);

t.test('an insert on a cluster is acknowledged when the shards have it', (t) => {
  t.same(clusterSettings(''), {}, 'not on one server');
  t.match(clusterSettings('many'), { distributed_foreground_insert: 1 });
  t.equal(
    clusterSettings('many').parallel_distributed_insert_select,
    '0',
    'totals go to the shard of their key',
  );
  t.end();
});

t.test(
  '`start` with its embedded ClickHouse refuses CLICKHOUSE_CLUSTER before it starts anything',
  async (t) => {
    const config = readConfig({ CLICKHOUSE_CLUSTER: 'many' });
    await t.rejects(startProcesses(config, {} as never, {} as never), {
      constructor: StartupError,
      message: /needs CLICKHOUSE_URL/,
    });
  },
);
