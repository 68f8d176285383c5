// What analysts may read, and do: every table of the schema is theirs or the service's own, and the role of docs/analysts.md
// for a ClickHouse server allows that much and no more.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ANALYST_TABLES } from '../../src/clickhouse/analyst-tables.js';
import { exampleOf, loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { loadChdb } from '../../src/embedded/clickhouse/chdb.js';
import { connectToClickHouse, putMigrated, startTestClickHouse } from '../harness/clickhouse.js';
import { UPDATE } from '../harness/sections.js';

const FILE = 'docs/analysts.md';
let text = readFileSync(FILE, 'utf8');
const grantOf = (name: string) => `GRANT SELECT ON wishmeter.${name} TO wishmeter_reader;\n`;

// It is read anew: test/clickhouse/columns writes to it, too, maybe at the same time.
function replace(what: RegExp, by: string | ((...found: string[]) => string)): void {
  text = readFileSync(FILE, 'utf8').replace(what, typeof by === 'string' ? () => by : by);
  writeFileSync(FILE, text);
}

const PRIVATE = [
  'deployment',
  'kept_settings',
  'schema_migrations',
  'products_feed',
  'products_told_feed',
  'purchases_feed',
  'profile_merges_feed',
  'visit_hours_feed',
  'steps_feed',
];
/** Views with parameters can't be read without them. */
const asked = (table: string): string => {
  const view = loadViews().find(({ name }) => name === table);
  return view === undefined ? table : exampleOf(view);
};

const server = await startTestClickHouse(t, {
  databases: ['shop'],
  readable: { database: 'shop', tables: ANALYST_TABLES },
});
const client = connectToClickHouse(t, server.url);
const answer = await client.query({
  query: "SELECT name FROM system.tables WHERE database = 'shop' ORDER BY name",
  format: 'JSONEachRow',
});
const tables = (await answer.json<{ name: string }>()).map(({ name }) => name);

t.test('every table of the schema is on one of the two lists', (t) => {
  for (const name of tables) {
    const places = [ANALYST_TABLES, PRIVATE].filter((list) => list.includes(name));
    t.equal(places.length, 1, `${name}: put it into ANALYST_TABLES, or into PRIVATE here`);
  }
  t.end();
});

t.test('the analyst can read what is on its list, and not the rest', async (t) => {
  const analyst = connectToClickHouse(t, new URL(server.url).origin);
  for (const name of tables) {
    const reading = analyst.query({ query: `SELECT * FROM shop.${asked(name)} LIMIT 1` });
    if (ANALYST_TABLES.includes(name)) await t.resolves(reading, name);
    else await t.rejects(reading, /Not enough privileges/, name);
    await reading.then((result) => result.text()).catch(() => {});
  }
});

t.test('docs/analysts.md grants the same on a server', async (t) => {
  if (UPDATE) replace(/(?:^GRANT SELECT ON wishmeter.*\n)+/m, ANALYST_TABLES.map(grantOf).join(''));
  const granted = Array.from(
    text.matchAll(/^GRANT SELECT ON wishmeter\.(\w+) TO wishmeter_reader;/gm),
    ([, name]) => name,
  );
  t.same(granted, ANALYST_TABLES);
  const [, sql = ''] = /```sql\n(CREATE ROLE[\s\S]*?)```/.exec(text) ?? [];
  const statements = sql.split(/;\n/).filter((statement) => statement.trim() !== '');
  t.ok(statements.length > ANALYST_TABLES.length);
  for (const statement of statements) {
    const query_params = { statement };
    const parsed = await client.query({ query: 'SELECT formatQuery({statement: String})', query_params });
    t.ok(await parsed.text(), statement);
  }
});

t.test('docs/analysts.md has each question with the definition that is in the database', (t) => {
  for (const name of QUESTIONS) {
    const { select = '' } = loadViews().find((view) => view.name === name) ?? {};
    const definition = select.replaceAll('{database}.', '').replaceAll('{time_zone}', "'UTC'");
    if (UPDATE)
      replace(
        new RegExp(`(<summary>${name}</summary>\n\n\`\`\`sql\n)[^]*?\n\`\`\``),
        (_, before) => `${before}${definition}\n\`\`\``,
      );
    t.ok(text.includes(`\`\`\`sql\nSELECT * FROM ${name}(`), `${name}: how to ask`);
    t.ok(
      text.includes(`<summary>${name}</summary>\n\n\`\`\`sql\n${definition}\n\`\`\``),
      `${name}: its definition`,
    );
  }
  t.end();
});

// The role of docs/analysts.md for a ClickHouse server, as ClickHouse itself takes it: tools may set their limits within
// bounds, and nothing is written. chDB has one user and no place for roles, so the statements' settings, constraints and
// grants are given to that user, from the text of the document.

const [statement = '', role = ''] = /^CREATE ROLE wishmeter_reader SETTINGS ([^;]*);/m.exec(text) ?? [];
const grants = [...text.matchAll(/^(GRANT SELECT ON wishmeter\.\w+) TO wishmeter_reader;/gm)].map(
  ([, one]) => one,
);

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
const connection = chdb.CreateConnection(join(dir, 'data'), [
  '--implicit_select=0',
  `--config-file=${config}`,
]);
t.teardown(() => {
  chdb.CloseConnection(connection);
  rmSync(dir, { recursive: true, force: true });
});
const run = async (sql: string) =>
  (await chdb.QueryAsyncConnection(connection, sql, 'TSV')).bytes.toString().trimEnd();

t.test('ClickHouse takes the statement as it stands', async (t) => {
  t.not(statement, '');
  t.equal(
    await run(`SELECT formatQuerySingleLine('${statement.replace(';', '')}')`),
    statement.replace(/\s+/g, ' ').slice(0, -1),
  );
});

t.test('the role reads what is granted', async (t) => {
  t.equal(await run('SELECT count() FROM wishmeter.events'), '0');
  t.equal(await run("SELECT * FROM wishmeter.most_wished(from = '2026-03-01', to = '2026-03-31')"), '');
  await t.rejects(run('SELECT * FROM wishmeter.deployment'), /ACCESS_DENIED/);
});

t.test('tools set limits and the look of answers, within bounds', async (t) => {
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
  ]) {
    await t.rejects(run(`SELECT 1 SETTINGS ${setting}`), /SETTING_CONSTRAINT_VIOLATION/, setting);
    await t.rejects(run(`SET ${setting}`), /SETTING_CONSTRAINT_VIOLATION/, setting);
  }
});

t.test('the role changes nothing, and reaches no file and no network', async (t) => {
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
