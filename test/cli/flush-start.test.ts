// `flush` at its start: several at once bring an empty ClickHouse to its schema and then share the work; one that is older
// than the database says so, and touches nothing.

import t, { type Test } from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { loadMigrations } from '../../src/clickhouse/migrate.js';
import { programPart } from '../faults/service.js';
import { startStores } from '../harness/stores.js';
import { client, logLines, sql } from './started.js';
import { type Running, STOPPED_ONCE_READY, spawnWishmeter, until, wishmeter } from './wishmeter.js';

const KEY = 'sk_a-key-for-this-test';
const EVENTS = 30;

async function databases(t: Test) {
  const stores = await startStores(t);
  const { clickhouse } = stores;
  const env = { ...stores.env, API_KEYS: KEY };
  const part = (name: string, command: 'serve' | 'flush', runs: Running[] = []) => {
    const made = programPart(name, command, env, runs);
    t.teardown(() => made.stop());
    return made;
  };
  const serve = async () => {
    const runs: Running[] = [];
    await part('serve', 'serve', runs).start();
    const line = logLines(runs[0]?.stdout() ?? '').find(({ msg }) => msg === 'serving');
    return client(`http://127.0.0.1:${line?.port}`, KEY);
  };
  return { clickhouse, env, part, serve };
}

t.test('three that start at once on an empty ClickHouse: one schema, and each event once', async (t) => {
  const { clickhouse, part, serve } = await databases(t);
  const flushers = [1, 2, 3].map((i) => part(`flush ${i}`, 'flush'));
  await Promise.all(flushers.map((flusher) => flusher.start()));
  const shop = await serve();
  for (let i = 0; i < EVENTS; i++) {
    const { status } = await shop.event(`s-${i}`, 'add', { productId: String(i + 1) });
    t.equal(status, 200);
  }
  const stored = () => sql(clickhouse.url, 'SELECT count(), uniqExact(event_id) FROM events_stored');
  await until('all events are there', async () => Number((await stored()).split('\t')[0]) >= EVENTS);
  for (const flusher of flushers) await flusher.stop();
  t.equal(await stored(), `${EVENTS}\t${EVENTS}`);
  const versions = await sql(
    clickhouse.url,
    'SELECT version, uniqExact(checksum) FROM schema_migrations GROUP BY version ORDER BY version',
  );
  t.equal(
    versions,
    loadMigrations()
      .map(({ version }) => `${version}\t1`)
      .join('\n'),
  );
});

t.test('a signal in the moment in which it says that it flushes stops it in order', async (t) => {
  const { env } = await databases(t);
  const told = await wishmeter({ args: ['flush'], env: { ...env, ...STOPPED_ONCE_READY } });
  t.match(told, { code: 0, signal: null, stdout: /"stopping"/, stderr: '' });
});

t.test('a database that is newer is left alone, and events wait', async (t) => {
  const { clickhouse, env, part, serve } = await databases(t);
  t.match(await wishmeter({ args: ['migrate'], env }), { code: 0 });
  const admin = createClickHouse(clickhouse.url, 'wishmeter');
  t.teardown(() => admin.close());
  await admin.insert({
    table: 'schema_migrations',
    values: [{ version: 99, name: '099_of_tomorrow', checksum: 'x' }],
    format: 'JSONEachRow',
  });
  await admin.command({ query: 'DROP VIEW most_wished' });
  const shop = await serve();
  t.equal((await shop.event('s', 'add', { productId: '1' })).status, 200, 'serve does not look at it');
  for (const command of ['flush', 'migrate']) {
    const running = spawnWishmeter({ args: [command], env });
    t.teardown(() => void running.child.kill('SIGKILL'));
    await until(`${command} ends`, () => running.child.exitCode !== null);
    const { code, stderr } = await running.ended;
    t.equal(code, 1, command);
    t.match(
      stderr,
      /^wishmeter: ClickHouse database wishmeter has schema 99, and this program knows \d+: start a newer version\.\n$/,
    );
  }
  const views = "SELECT count() FROM system.tables WHERE name = 'most_wished'";
  t.equal(await sql(clickhouse.url, views), '0', 'its views are not put back');
  t.equal(await sql(clickhouse.url, 'SELECT count() FROM events_stored'), '0');
  // The newer version, which is this one as soon as it knows the schema.
  await admin.command({
    query: 'ALTER TABLE schema_migrations DELETE WHERE version = 99',
    clickhouse_settings: { mutations_sync: '1' },
  });
  await part('flush', 'flush').start();
  await until(
    'the event came',
    async () => (await sql(clickhouse.url, 'SELECT count() FROM events')) === '1',
  );
});
