// The role of docs/analysts.md for a ClickHouse server, as ClickHouse itself takes it: tools may set their limits within
// bounds, and nothing is written. chDB has one user and no place for roles, so the statements' settings, constraints and
// grants are given to that user, from the text of the document.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { loadChdb } from '../../src/embedded/chdb.js';
import { putMigrated } from '../harness/clickhouse.js';

const text = readFileSync(new URL('../../../docs/analysts.md', import.meta.url), 'utf8');
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
    'max_execution_time = 30',
    'max_execution_time = 300',
    'max_memory_usage = 1000000000',
    'max_result_rows = 1000',
    "result_overflow_mode = 'break'",
    'join_use_nulls = 1',
    'send_progress_in_http_headers = 1',
    'http_write_exception_in_output_format = 0',
    'output_format_json_quote_64bit_integers = 1',
    "date_time_input_format = 'best_effort'",
    "session_timezone = 'Europe/Berlin'",
    "log_comment = 'x'",
  ]) {
    await t.resolves(run(`SELECT 1 SETTINGS ${setting}`), setting);
    await t.resolves(run(`SET ${setting}`), setting);
  }
  for (const setting of [
    'max_execution_time = 0',
    'max_execution_time = 301',
    'max_memory_usage = 0',
    'max_memory_usage = 100000000000',
    'max_memory_usage_for_user = 0',
    'max_concurrent_queries_for_user = 0',
    'max_concurrent_queries_for_user = 1000',
  ]) {
    await t.rejects(run(`SELECT 1 SETTINGS ${setting}`), /SETTING_CONSTRAINT_VIOLATION/, setting);
    await t.rejects(run(`SET ${setting}`), /SETTING_CONSTRAINT_VIOLATION/, setting);
  }
});

t.test('the role changes nothing, and reaches no file and no network', async (t) => {
  for (const sql of [
    'SET readonly = 0',
    'SET readonly = 1',
    'SELECT 1 SETTINGS readonly = 0',
    'CREATE TABLE wishmeter.mine (a UInt8) ENGINE = MergeTree ORDER BY a',
    'CREATE TEMPORARY TABLE mine (a UInt8)',
    'CREATE VIEW wishmeter.mine AS SELECT 1',
    'CREATE DATABASE mine',
    'CREATE FUNCTION mine AS (x) -> x',
    'DROP TABLE wishmeter.events_stored',
    'TRUNCATE TABLE wishmeter.events_stored',
    'ALTER TABLE wishmeter.events_stored DELETE WHERE 1',
    'DELETE FROM wishmeter.events_stored WHERE 1',
    'INSERT INTO wishmeter.visits_stored SELECT * FROM wishmeter.visits_stored',
    'OPTIMIZE TABLE wishmeter.events_stored',
    'SYSTEM SHUTDOWN',
    'CREATE USER mine',
    'GRANT SELECT ON *.* TO default',
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "INSERT INTO FUNCTION file('/tmp/x', 'TSV', 'a UInt8') SELECT 1",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM s3('http://127.0.0.1:1/bucket/x', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1:1', 'system.one')",
    "SELECT * FROM executable('cat', 'LineAsString', 'x String')",
  ])
    await t.rejects(run(sql), /\((ACCESS_DENIED|READONLY|SETTING_CONSTRAINT_VIOLATION)\)/, sql);
});
