// The commands that production runs, each in a process of its own, against a Redis and a ClickHouse by URL: migrate, serve
// and flush. Several flushers that start at once share the work; one that is older than the database changes nothing. A signal
// stops each in order, and its logs are for who reads them.

import { stripVTControlCharacters } from 'node:util';
import t from 'tap';
import { loadMigrations } from '../../src/clickhouse/migrate.js';
import { programPart } from '../faults/service.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { needsPrograms } from '../harness/needs.js';
import { startStores } from '../harness/stores.js';
import { logLines, shopAt, sql } from './started.js';
import { onTerminal, type Running, runWishmeter, STOPPED_ONCE_READY, until, wishmeter } from './wishmeter.js';

const KEY = 'sk_a-key-for-this-test';
const EVENTS = 30;

const stores = await startStores(t);
const { clickhouse } = stores;
const env = { ...stores.env, API_KEYS: KEY };
const runs: Running[] = [];
const serve = programPart('serve', 'serve', env, runs);
const flushers = [1, 2, 3].map((i) => programPart(`flush ${i}`, 'flush', env));
t.teardown(() => Promise.all([serve, ...flushers].map((part) => part.stop())));
/** The service's only `serve`. */
const shopOf = () => {
  const line = logLines(runs[0]?.stdout() ?? '').find(({ msg }) => msg === 'serving');
  return shopAt(`http://127.0.0.1:${line?.['port']}`, KEY);
};
const stored = () => sql(clickhouse.url, 'SELECT count(), uniqExact(event_id) FROM events_stored');

t.test('migrate makes a schema, says what it did, and does nothing the second time', async (t) => {
  const other = { ...env, CLICKHOUSE_DATABASE: 'other' };
  const first = await wishmeter({ args: ['migrate'], env: other });
  t.match(first, { code: 0, stdout: /^001_\w+\n/, stderr: '' });
  t.match(await wishmeter({ args: ['migrate'], env: other }), { code: 0, stdout: 'Nothing to do.\n' });
});

t.test('three flushers on an empty ClickHouse make one schema, and each event once', async (t) => {
  await Promise.all(flushers.map((flusher) => flusher.start()));
  await serve.start();
  t.notMatch(runs[0]?.stdout(), /set API_KEYS/);
  const shop = shopOf();
  await shop.visit({ sessionId: 's-1' });
  t.equal(await shop.count({ sessionId: 's-1' }), 1);
  for (let i = 0; i < EVENTS; i++) await shop.event({ sessionId: `s-${i}` }, 'add', { productId: '1' });
  await until('all events are there', async () => Number((await stored()).split('\t')[0]) >= EVENTS);
  for (const flusher of flushers) await flusher.stop();
  t.equal(await stored(), `${EVENTS}\t${EVENTS}`);
  t.equal(
    await sql(
      clickhouse.url,
      'SELECT version, uniqExact(checksum) FROM schema_migrations GROUP BY version ORDER BY version',
    ),
    loadMigrations()
      .map(({ version }) => `${version}\t1`)
      .join('\n'),
  );
});

t.test('migrate without settings deletes nothing and changes no view; told otherwise, it asks', async (t) => {
  const database = 'decided';
  const told = { ...env, CLICKHOUSE_DATABASE: database };
  const migrate = (settings: Record<string, string>, ...args: string[]) =>
    wishmeter({ args: ['migrate', ...args], env: { ...told, ...settings } });
  const decided = { VISIT_RETENTION_DAYS: '1000', SHOP_TIMEZONE: 'Europe/Berlin' };
  t.match(await migrate(decided), { code: 0 });
  await sql(
    clickhouse.url,
    `INSERT INTO ${database}.visits_stored (occurred_at, profile_id) SELECT now64(3) - INTERVAL 500 DAY, 'old'`,
  );
  const held = async () => [
    await sql(clickhouse.url, `SELECT count() FROM ${database}.visits_stored`),
    await sql(
      clickhouse.url,
      `SELECT countIf(as_select LIKE '%Europe/Berlin%') > 0, countIf(as_select LIKE '%toDate(occurred_at, \\'UTC\\')%') > 0        FROM system.tables WHERE database = '${database}'`,
    ),
    await sql(
      clickhouse.url,
      `SELECT name, argMax(value, kept_at) FROM ${database}.kept_settings GROUP BY name ORDER BY name`,
    ),
  ];
  const before = await held();
  t.same(before.slice(0, 2), ['1', '1\t0']);
  t.match(await migrate({}), { code: 0, stdout: 'Nothing to do.\n' });
  t.match(await migrate(decided), { code: 0, stdout: 'Nothing to do.\n' });
  const otherwise = { VISIT_RETENTION_DAYS: '40', SHOP_TIMEZONE: 'UTC' };
  const asked = await migrate(otherwise);
  t.match(asked, { code: 1, stdout: '' });
  t.match(asked.stderr, /VISIT_RETENTION_DAYS is 1000 .* 40: `flush` would delete 1 visits/);
  t.match(asked.stderr, /SHOP_TIMEZONE is Europe\/Berlin .* UTC: all views .* --yes/);
  t.match(await migrate({ CLICKHOUSE_CLUSTER: 'many' }), { code: 1, stderr: /one server/ });
  t.same(await held(), before);
  t.match(await migrate(otherwise, '--yes'), {
    code: 0,
    stdout: 'VISIT_RETENTION_DAYS: 1000 -> 40\nSHOP_TIMEZONE: Europe/Berlin -> UTC\n',
  });
  const [visits, views] = await held();
  t.same([visits, views], ['1', '0\t1'], 'only flush deletes visits, once their day is totalled');
  t.match(await migrate({}), { code: 0, stdout: 'Nothing to do.\n' });
});

t.test('a signal in the moment in which a command says that it is ready stops it in order', async (t) => {
  for (const command of ['serve', 'flush']) {
    const stopped = await wishmeter({ args: [command], env: { ...env, ...STOPPED_ONCE_READY } });
    t.match(stopped, { code: 0, signal: null, stdout: /"stopping"/, stderr: '' }, command);
  }
});

t.test('logs are for people on a terminal, and JSON elsewhere', needsPrograms('script'), async (t) => {
  const { env } = stores;
  const { screen, ctrlC, ended } = onTerminal(t, 'serve', { TERM: 'xterm', ...env });
  await until('it serves', () => screen().includes('serving'));
  ctrlC();
  const shown = await ended();
  t.match(shown, '\u001b[32mINFO', 'with colour');
  const plain = stripVTControlCharacters(shown);
  t.match(plain, /^\[\d\d:\d\d:\d\d\] WARN \(serve\): no caller may save items .* set API_KEYS/m);
  t.match(
    plain,
    /^\[\d\d:\d\d:\d\d\] INFO \(serve\): serving \{"host":"127\.0\.0\.1","port":\d+,"uws":"[^"]+"\}$/m,
  );

  const piped = runWishmeter(t, { args: ['serve'], env });
  await until('it serves', () => piped.stdout().includes('serving'));
  const warnings = logLines(piped.stdout()).filter(({ level }) => level === 40);
  t.match(warnings[0], { name: 'serve', msg: /set API_KEYS/ });
});

t.test('a database that is newer is left alone, and events wait', async (t) => {
  const admin = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  await admin.insert({
    table: 'schema_migrations',
    values: [{ version: 99, name: '099_of_tomorrow', checksum: 'x' }],
    format: 'JSONEachRow',
  });
  await admin.command({ query: 'DROP VIEW most_wished' });
  await shopOf().event({ sessionId: 's' }); // serve does not look at it
  for (const command of ['flush', 'migrate']) {
    const { code, stderr } = await runWishmeter(t, { args: [command], env }).ended;
    t.equal(code, 1, command);
    t.match(
      stderr,
      /^wishmeter: ClickHouse database wishmeter has schema 99, and this program knows \d+: start a newer version\.\n$/,
    );
  }
  const views = "SELECT count() FROM system.tables WHERE database = 'wishmeter' AND name = 'most_wished'";
  t.equal(await sql(clickhouse.url, views), '0', 'its views are not put back');
  t.equal(await stored(), `${EVENTS}\t${EVENTS}`);
  // The newer version, which is this one as soon as it knows the schema.
  await admin.command({
    query: 'ALTER TABLE schema_migrations DELETE WHERE version = 99',
    clickhouse_settings: { mutations_sync: '1' },
  });
  await flushers[0]?.start();
  await until('the event came', async () => (await stored()) === `${EVENTS + 1}\t${EVENTS + 1}`);
});
