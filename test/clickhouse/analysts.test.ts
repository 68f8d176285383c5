// deploy/clickhouse/analyst.sql grants analysts their views and no more. The views have the columns of the
// contract and of docs/analysts.md. UPDATE_DOCS=1 writes both files.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ANALYST_TABLES } from '../../src/clickhouse/analyst-tables.js';
import { PAYLOAD_COLUMNS } from '../../src/clickhouse/columns.js';
import { exampleOf, loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { encodeEvent } from '../../src/events/row.js';
import { loadChdb } from '../../src/extras/embedded/clickhouse/chdb.js';
import { connectToClickHouse, putMigrated, select, startReadable } from '../harness/clickhouse.js';
import { identityOf } from '../harness/samples.js';
import { checkSection, UPDATE } from '../harness/sections.js';

const FILE = 'docs/analysts.md';
const ROLE = 'deploy/clickhouse/analyst.sql';
const grantOf = (name: string) => `GRANT SELECT ON wishmeter.${name} TO wishmeter_reader;\n`;
const GRANTS = /(?:^GRANT SELECT ON wishmeter.*\n)+/m;
const SYSTEM_GRANT = /^GRANT SELECT\(([\w, ]+)\) ON system\.parts TO wishmeter_reader;$/m;
if (UPDATE) {
  const grants = ANALYST_TABLES.map(grantOf).join('');
  writeFileSync(
    ROLE,
    readFileSync(ROLE, 'utf8').replace(GRANTS, () => grants),
  );
}
const text = readFileSync(ROLE, 'utf8');
const PRIVATE =
  `deployment schema_migrations products_feed products_told_feed purchases_feed profile_merges_feed
  visit_hours_feed steps_feed`.split(/\s+/);
/** Views with parameters can't be read without them. */
const asked = (table: string): string => {
  const view = loadViews().find(({ name }) => name === table);
  return view === undefined ? table : exampleOf(view);
};
const server = await startReadable(t, 'shop');
const client = connectToClickHouse(t, server.url);
const listed = "SELECT name FROM system.tables WHERE database = 'shop' ORDER BY name";
const tables = (await select<{ name: string }>(client, listed)).map(({ name }) => name);
t.test('every table of the schema is either in ANALYST_TABLES or in the private list of this test', (t) => {
  for (const name of tables) {
    const places = [ANALYST_TABLES, PRIVATE].filter((list) => list.includes(name));
    t.equal(places.length, 1, `${name}: put it into ANALYST_TABLES, or into PRIVATE here`);
  }
  t.end();
});
t.test('the analyst can read the tables of ANALYST_TABLES, and no others', async (t) => {
  const analyst = connectToClickHouse(t, new URL(server.url).origin);
  for (const name of tables) {
    const reading = analyst.query({ query: `SELECT * FROM shop.${asked(name)} LIMIT 1` });
    if (ANALYST_TABLES.includes(name)) await t.resolves(reading, name);
    else await t.rejects(reading, /Not enough privileges/, name);
    await reading.then((result) => result.text()).catch(() => {});
  }
});
t.test(`${ROLE} grants exactly the tables of ANALYST_TABLES`, async (t) => {
  t.equal(GRANTS.exec(text)?.[0], ANALYST_TABLES.map(grantOf).join(''));
  const both = text + readFileSync('deploy/clickhouse/service.sql', 'utf8');
  const statements = both.split(/;\n/).filter((statement) => statement.trim() !== '');
  t.ok(statements.length > ANALYST_TABLES.length);
  for (const statement of statements) {
    const query_params = { statement };
    const parsed = await client.query({ query: 'SELECT formatQuery({statement: String})', query_params });
    t.ok(await parsed.text(), statement);
  }
});
t.test(
  `${ROLE} grants names and sizes of system.parts, and access.xml hides all other tables of system`,
  (t) => {
    const [, columns = ''] = SYSTEM_GRANT.exec(text) ?? [];
    t.match(columns, /^database, table, name, active, rows, bytes_on_disk\b/);
    t.equal(text.match(/ON system\./g)?.length, 1);
    const access = readFileSync('deploy/clickhouse/access.xml', 'utf8');
    for (const one of [
      'select_from_system_db_requires_grant',
      'select_from_information_schema_requires_grant',
    ])
      t.match(access, `<${one}>true</${one}>`);
    t.match(
      readFileSync('deploy/compose.yaml', 'utf8'),
      './clickhouse/access.xml:/etc/clickhouse-server/config.d/access.xml:ro',
    );
    t.end();
  },
);
t.test('the analyst can see how each question is computed, as docs/analysts.md says', async (t) => {
  const analyst = connectToClickHouse(t, new URL(server.url).origin);
  t.match(readFileSync(FILE, 'utf8'), 'SHOW CREATE TABLE most_wished');
  for (const name of QUESTIONS) {
    const query = `SHOW CREATE TABLE shop.${name}`;
    const definition = await (await analyst.query({ query, format: 'TabSeparatedRaw' })).text();
    t.match(definition, /^CREATE VIEW .*\bSELECT\b/s, name);
  }
});
// chDB has one user and no roles, so that user gets the role's settings, constraints and grants.

const [, role = ''] = /^CREATE ROLE wishmeter_reader SETTINGS ([^;]*);/m.exec(text) ?? [];
const grants = text.match(/^GRANT SELECT ON wishmeter\.\w+(?= TO wishmeter_reader;)/gm) ?? [];
/** `name = value MIN a MAX b`, as the profile of a users.xml. */
function profileOf(settings: string): string {
  const values: string[] = [];
  const constraints: string[] = [];
  for (const one of settings.split(',')) {
    const [, name, value, least, most] =
      /^\s*(\w+) = (\d+)(?: MIN (\d+))?(?: MAX (\d+))?\s*$/.exec(one) ?? [];
    if (name === undefined) throw new Error(`not understood: ${one}`);
    values.push(`<${name}>${value}</${name}>`);
    if (least && most) constraints.push(`<${name}><min>${least}</min><max>${most}</max></${name}>`);
  }
  return `${values.join('')}<constraints>${constraints.join('')}</constraints>`;
}
const dir = mkdtempSync(join(tmpdir(), 'wm-role-'));
await putMigrated(join(dir, 'data'), 'wishmeter');
const users = join(dir, 'users.xml');
const config = join(dir, 'config.xml');
writeFileSync(
  users,
  `<clickhouse><profiles><default>${profileOf(role)}</default></profiles><quotas><default/></quotas>
  <users><default><no_password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
  <grants>${grants.map((one) => `<query>${one}</query>`).join('')}</grants></default></users></clickhouse>`,
);
writeFileSync(config, `<clickhouse><users_config>${users}</users_config></clickhouse>`);
const chdb = loadChdb();
const own = ['--implicit_select=0', `--config-file=${config}`];
const connection = chdb.CreateConnection(join(dir, 'data'), own);
t.teardown(() => {
  chdb.CloseConnection(connection);
  rmSync(dir, { recursive: true, force: true });
});
const run = async (sql: string) =>
  (await chdb.QueryAsyncConnection(connection, sql, 'TSV')).bytes.toString().trimEnd();
t.test('the role of analyst.sql reads the granted views, and no other table', async (t) => {
  t.equal(await run('SELECT count() FROM wishmeter.events'), '0');
  t.equal(await run("SELECT * FROM wishmeter.most_wished(from = '2026-03-01', to = '2026-03-31')"), '');
  await t.rejects(run('SELECT * FROM wishmeter.deployment'), /ACCESS_DENIED/);
});
t.test(
  'an analyst may set limits and formats of answers, and a limit beyond its bound is refused',
  async (t) => {
    for (const setting of [
      'max_execution_time = 300',
      'max_result_rows = 1000',
      "result_overflow_mode = 'break'",
      'join_use_nulls = 1',
      "session_timezone = 'Europe/Berlin'",
    ]) {
      await t.resolves(run(`SELECT 1 SETTINGS ${setting}`), setting);
      await t.resolves(run(`SET ${setting}`), setting);
    }
    for (const setting of [
      'max_execution_time = 0',
      'max_execution_time = 301',
      'max_memory_usage = 0',
      'max_memory_usage = 100000000000',
      'max_concurrent_queries_for_user = 0',
      'max_untracked_memory = 100000000000',
      'max_temporary_data_on_disk_size_for_user = 0',
    ]) {
      await t.rejects(run(`SELECT 1 SETTINGS ${setting}`), /SETTING_CONSTRAINT_VIOLATION/, setting);
      await t.rejects(run(`SET ${setting}`), /SETTING_CONSTRAINT_VIOLATION/, setting);
    }
  },
);
t.test('the role of analyst.sql can change nothing, and reaches no file and no network', async (t) => {
  for (const sql of [
    'SET readonly = 0',
    'SELECT 1 SETTINGS readonly = 0',
    'CREATE TABLE wishmeter.mine (a UInt8) ENGINE = MergeTree ORDER BY a',
    'CREATE DATABASE mine',
    'DROP TABLE wishmeter.events_stored',
    'ALTER TABLE wishmeter.events_stored DELETE WHERE 1',
    'INSERT INTO wishmeter.visits_stored SELECT * FROM wishmeter.visits_stored',
    'SYSTEM SHUTDOWN',
    'CREATE USER mine',
    'GRANT SELECT ON *.* TO default',
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "INSERT INTO FUNCTION file('/tmp/x', 'TSV', 'a UInt8') SELECT 1",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1:1', 'system.one')",
    "SELECT * FROM executable('cat', 'LineAsString', 'x String')",
  ])
    await t.rejects(run(sql), /\((ACCESS_DENIED|READONLY|SETTING_CONSTRAINT_VIOLATION)\)/, sql);
});

t.test('the columns of the views', async (t) => {
  const SHORT: Readonly<Record<string, string>> = {
    TIME: "DateTime64(3, 'UTC')",
    MONEY: 'Decimal(18, 2)',
    SKETCH: 'AggregateFunction(uniqCombined(14), String)',
    WORD: 'LowCardinality(String)',
  };
  const columns = (text: string) =>
    text.split(/,\s+/).map((column) => column.replace(/[A-Z]+\b/, (name) => SHORT[name] ?? name));
  const EVENTS = columns(`event_id UUID, type WORD, occurred_at TIME, profile_id String,
    customer_id Nullable(String), session_id Nullable(String), device WORD, locale WORD, origin WORD,
    product_id String, variant_id String, product_handle String, source String, channel String, share_code String,
    currency WORD, inventory_available Nullable(Bool), quantity Nullable(UInt32), price Nullable(MONEY),
    compare_at Nullable(MONEY), payload String`);
  const VISITS = columns('occurred_at TIME, profile_id String, product_handle String, device WORD');
  // `product_handle` is not in the contract, so it comes last.
  const PURCHASES = columns(`occurred_at TIME, updated_at TIME, order_id String, profile_id String,
    customer_id Nullable(String), session_id Nullable(String), product_id String, variant_id String,
    quantity UInt32, price Nullable(MONEY), discount MONEY, amount Nullable(MONEY), currency WORD, test Bool,
    product_handle String`);
  /** The same rows under the present profile. */
  const byVisitor = (columns: readonly string[]) => [
    ...columns.filter((column) => column !== 'profile_id String'),
    ...['profile_id String', 'recorded_profile_id String'],
  ];
  const CONTRACT: Readonly<Record<string, readonly string[]>> = {
    events: EVENTS,
    visits: VISITS,
    purchases: PURCHASES,
    events_by_visitor: byVisitor(EVENTS),
    visits_by_visitor: byVisitor(VISITS),
    purchases_by_visitor: byVisitor(PURCHASES),
    visits_per_day: columns('day Date, product_handle String, device WORD, visits UInt64'),
    visitors_per_day: columns(`day Date, product_handle String, visits UInt64, visitors UInt64,
      visitors_sketch SKETCH`),
    share_opens: columns('occurred_at TIME, share_code String'),
    product_alerts: columns(`occurred_at TIME, type WORD, profile_id String, customer_id Nullable(String),
      session_id Nullable(String), product_id String, variant_id String, product_handle String,
      price_before Nullable(MONEY), price Nullable(MONEY), currency WORD`),
    shop_visitors_per_day: columns('day Date, visits UInt64, visitors UInt64, visitors_sketch SKETCH'),
    product_funnel: [
      ...columns('product_id String, product_handle String, visits UInt64, visitors UInt64'),
      ...columns('wishers UInt64, carters UInt64, buyers UInt64'),
      'revenue Map(String, Decimal(38, 2))',
    ],
  };
  const client = connectToClickHouse(t, server.url, 'shop');
  interface Column {
    readonly name: string;
    readonly type: string;
  }
  async function columnsOf(asked: string): Promise<Column[]> {
    const query = asked.includes('(') ? `DESCRIBE (SELECT * FROM ${asked})` : `DESCRIBE TABLE ${asked}`;
    return await select<Column>(client, query);
  }
  const views = await Promise.all(
    loadViews().map(async (view) => ({ ...view, columns: await columnsOf(exampleOf(view)) })),
  );
  const isQuestion = (name: string) => QUESTIONS.includes(name as (typeof QUESTIONS)[number]);
  const named = (columns: readonly Column[]) => columns.map(({ name }) => `\`${name}\``).join(', ');
  const shortened = (columns: readonly Column[]) =>
    named(columns)
      .replace('`product_id`, `product_handle`, `product_title`', '`product_…`')
      .replace('`product_handle`, `product_id`, `product_title`', '`product_…`')
      .replace(/`returned_1`.*`returned_8`/, '`returned_1` … `returned_8`');
  t.test('the views have the columns of the contract', (t) => {
    for (const [view, expected] of Object.entries(CONTRACT)) {
      const { columns = [] } = views.find(({ name }) => name === view) ?? {};
      const found = columns.map(({ name, type }) => `${name} ${type}`);
      t.same(found, expected, view);
    }
    t.end();
  });
  t.test('docs/api.md says which fields of a payload become columns, and by which values', (t) => {
    const text = readFileSync('docs/api.md', 'utf8');
    const [, section = ''] = /<!-- payload -->\n(.*?)<!-- \/payload -->/s.exec(text) ?? [];
    const rows = Array.from(section.matchAll(/^- `(\w+)` fills `(\w+)`: (.*); not (.*)$/gm));
    t.same(Object.fromEntries(rows.map(([, field, column]) => [field, column])), PAYLOAD_COLUMNS);
    for (const [, field = '', column = '', fills = '', leaves = ''] of rows) {
      for (const [values, isFilled] of [
        [fills, true],
        [leaves, false],
      ] as const)
        for (const [, value = ''] of values.replace(/\(.*?\)/g, '').matchAll(/`(.+?)`/g)) {
          const payload = { [field]: JSON.parse(value) };
          const event = { type: 'add', origin: 'event', profileId: 'p', identity: identityOf({}) } as const;
          const line = JSON.parse(encodeEvent({ ...event, payload }));
          t.equal(column in line, isFilled, `${field}: ${value}`);
        }
    }
    t.end();
  });
  t.test('docs/analysts.md lists every view that is no question', (t) => {
    const rows = views
      .filter(({ name }) => !isQuestion(name))
      .map((view) => `- \`${view.name}\`: ${view.about}`);
    checkSection(t, FILE, 'views', rows.join('\n'));
    t.end();
  });
  t.test('docs/analysts.md has every question with its days and columns', (t) => {
    for (const { name, days, columns } of views.filter(({ name }) => isQuestion(name))) {
      const entry = new RegExp(
        `(?<=^- \\*\\*\`${name}\\(${days.join(', ')}\\)\`\\*\\*: (?:[^\\n]+\\n)+?  Columns: ).*$`,
        'm',
      );
      const expected = shortened(columns);
      const text = readFileSync(FILE, 'utf8');
      const written = text.replace(entry, () => expected);
      if (UPDATE) writeFileSync(FILE, written);
      else t.equal(entry.exec(text)?.[0], expected, name);
    }
    t.end();
  });
  t.test('docs/analysts.md explains each column once', (t) => {
    const [, section = ''] =
      /<!-- columns -->\n([\s\S]*?)<!-- \/columns -->/.exec(readFileSync(FILE, 'utf8')) ?? [];
    const returned = Array.from({ length: 8 }, (_, i) => `\`returned_${i + 1}\``).join(', ');
    const documented = Array.from(
      section.replace('`returned_1` … `returned_8`', returned).matchAll(/^- ((?:`\w+`(?:, )?)+): /gm),
    ).flatMap(([, names = '']) => Array.from(names.matchAll(/`(\w+)`/g), ([, name]) => name));
    const names = new Set(views.flatMap(({ columns }) => columns.map(({ name }) => name)));
    t.same(documented.sort(), [...names].sort());
    t.end();
  });
});
