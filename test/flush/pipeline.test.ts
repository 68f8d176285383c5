// From the streams to ClickHouse: each event and visit once, also if clocks go back and replies are lost; bad lines are dead letters.

import { Writable } from 'node:stream';
import { pino } from 'pino';
import { Gauge, Registry } from 'prom-client';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { readConfig } from '../../src/config.js';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { StreamGroup } from '../../src/flush/group.js';
import { listenForMetrics } from '../../src/metrics/metrics-server.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { streamsOf } from '../../src/redis/node-markers.js';
import { visitLine } from '../../src/visits/visit-log.js';
import { startClickHouseProxy } from '../faults/clickhouse-proxy.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startProxy } from '../harness/proxy.js';
import { startTestCluster, startTestRedis } from '../harness/redis.js';
import {
  appendEvents,
  appendLines,
  eventRow,
  eventRows,
  lineOf,
  nameStreams,
  peekBatch,
  pendingOf,
  until,
} from './fixtures.js';
import { openPipelines, type Pipeline } from './pipelines.js';

const HOUR_MS = 3_600_000;
const BIG = { payload: { note: 'x'.repeat(16_000) } };
/** With this many streams each batch may have 4 MB, the smallest bound. */
const STREAMS = 24;
/** Each entry has 20 BIG events. */
const ENTRIES_OF_A_BATCH = 14;
const pendingEntries = async ({ keys }: Pipeline) =>
  Number((await redis.xpending(keys.events(0), 'flush').catch(() => [0]))[0]);
const totalOf = async (registry: Registry, name: string) =>
  (await registry.getSingleMetric(name)?.get())?.values[0]?.value;
const server = await startTestRedis(t);
const pipelines = await openPipelines(t, server, 3);
const { redis } = pipelines;
t.test('event ids stay unique, in the order of the answers, if the clock of serve is set back', async (t) => {
  const app = await startApp(t, server);
  const { now } = Date;
  t.teardown(() => {
    Date.now = now;
  });
  const times = 40;
  for (let n = 0; n < times; n++) {
    if (n === times / 2) Date.now = () => now() - HOUR_MS;
    const event = { identity: { sessionId: 's' }, type: 'add', payload: { n } };
    t.equal((await app.post('/event', event, TRUSTED)).status, 200);
  }
  const batch = await peekBatch(redis, { stream: createKeys(app.prefix).events(0) });
  const texts = String(batch?.lines).trim().split('\n');
  const lines = texts.map((line) => JSON.parse(line));
  for (const [n, { payload }] of lines.entries()) t.same(JSON.parse(payload), { n });
  t.equal(new Set(lines.map(({ event_id }) => event_id)).size, times);
  t.ok(lines[times / 2].occurred_at < lines[times / 2 - 1].occurred_at, 'the clock was set back');
});
t.test('entries continue after the last id, each once, if the clock of Redis is set back', async (t) => {
  const pipeline = await pipelines.fresh();
  const stream = pipeline.keys.events(0);
  await pipeline.append(eventRows(1));
  // As a clock that was an hour ahead leaves the stream.
  const ahead = Date.now() + HOUR_MS;
  await redis.call('XSETID', stream, `${ahead}-0`);
  for (let n = 0; n < 10; n++) await pipeline.append(eventRows(1));
  const ids = (await redis.xrange(stream, '-', '+')).map(([id]) => id);
  for (let n = 1; n <= 10; n++) t.equal(ids[n], `${ahead}-${n}`);
  const flusher = pipeline.flusher();
  await pipeline.drained();
  await pipeline.append(eventRows(1));
  await pipeline.drained();
  await flusher.close();
  t.same(await pipeline.counts(), { stored: 12, shown: 12, ids: 12 });
});
t.test('a foreign entry leaves the stream as a dead letter, and delays no other', async (t) => {
  const pipeline = await pipelines.fresh();
  await redis.xadd(pipeline.keys.events(0), '*', 'hello', 'world');
  const flusher = pipeline.flusher();
  await until('it is a dead letter', async () => (await pipeline.letters()).length > 0);
  await pipeline.append(eventRows(3));
  await redis.xadd(pipeline.keys.events(0), '*', 'n', '1', 'd', 'no newline');
  await pipeline.append(eventRows(3));
  await until('the events are there', async () => (await pipeline.counts()).shown === 6);
  await pipeline.drained();
  t.equal(await redis.xlen(pipeline.keys.events(0)), 0);
  const letters = await pipeline.letters();
  for (const letter of letters) t.match(letter, { code: 0, line: '' });
  const fields = letters.map(({ entry }) => JSON.parse(entry ?? '').fields);
  t.same(fields.flat(), ['hello', 'world', 'n', '1', 'd', 'no newline']);
  const ids = letters.map(({ id }) => id);
  t.equal(await retryDeadLetters(redis, pipeline.keys, 0, ids), 0, 'it is no event');
  t.equal(await dropDeadLetters(redis, pipeline.keys, 0, ids), 2);
  await flusher.close();
  t.same(await pendingOf(redis, pipeline.keys, 0), { events: 0, bytes: 0 });
});
t.test('bad lines among good ones become dead letters, and the others are stored', async (t) => {
  const pipeline = await pipelines.freshDatabase();
  const bad = lineOf(eventRow()).replace('"type":"add"', '"type":"add","quantity":"two"');
  const broken = '{"event_id":"01990292\n';
  await pipeline.append(eventRows(50));
  await appendLines(redis, pipeline.keys, 0, [lineOf(eventRow()), bad, lineOf(eventRow())]);
  await appendLines(redis, pipeline.keys, 0, [broken]);
  await pipeline.append(eventRows(50));
  const registry = new Registry();
  const refused: string[] = [];
  const flusher = pipeline.flusher({
    metrics: registry,
    async handOver(_lines, some) {
      refused.push(...some.map(({ line }) => `${line}\n`));
    },
  });
  await pipeline.drained();
  t.same(await pipeline.counts(), { stored: 102, shown: 102, ids: 102 });
  t.same(refused.toSorted(), [bad, broken].toSorted(), 'receivers get them once they are mended');

  const letters = await pipeline.letters();
  t.same(letters.map(({ line }) => `${line}\n`).toSorted(), [bad, broken].toSorted());
  for (const letter of letters) t.match(letter, { code: Number, reason: /\S/ });
  t.equal(await totalOf(registry, 'wishmeter_flush_rows_total'), 102);
  t.equal(await totalOf(registry, 'wishmeter_flush_refused_total'), 2);
  t.ok(Number(await totalOf(registry, 'wishmeter_flush_insert_errors_total')) > 2);

  const query = 'ALTER TABLE events_stored MODIFY COLUMN quantity Nullable(String)';
  await pipeline.clickhouse.command({ query });
  const ids = letters.map(({ id }) => id);
  t.equal(await retryDeadLetters(redis, pipeline.keys, 0, ids), 2);
  await until('the mended one is there', async () => (await pipeline.counts()).shown === 103);
  await pipeline.drained();
  const [still, ...none] = await pipeline.letters();
  t.equal(`${still?.line}\n`, broken);
  t.same(none, []);
  t.equal(await dropDeadLetters(redis, pipeline.keys, 0, [still?.id ?? '']), 1);
  await flusher.close();
});
t.test("rows wait while the shop's own view fails on them, and go in once it is mended", async (t) => {
  const pipeline = await pipelines.freshDatabase();
  const { clickhouse } = pipeline;
  const feeds = { events_stored: 'toUInt32(profile_id)', visits_stored: 'toDateTime(product_handle)' };
  for (const [rows, feed] of Object.entries(feeds)) {
    await clickhouse.command({ query: `CREATE TABLE own_${rows} (x UInt32) ENGINE = MergeTree ORDER BY x` });
    const query = `CREATE MATERIALIZED VIEW own_${rows}_feed TO own_${rows} AS SELECT ${feed} AS x FROM ${rows}`;
    await clickhouse.command({ query });
  }
  // The second line is unreadable, and quotes what ClickHouse says of a failing view.
  const bad = lineOf(eventRow()).replace('"type":"add"', '"quantity":": while pushing to view a.b"');
  await appendLines(redis, pipeline.keys, 0, [lineOf(eventRow({ profile_id: '7.ten' }))]);
  await appendLines(redis, pipeline.keys, 0, [bad]);
  await pipeline.appendVisits([visitLine('7.ten', 'hat', null)]);
  const registry = new Registry();
  const flusher = pipeline.flusher({ metrics: registry });
  const errors = async (prefix: string) =>
    (await registry.getSingleMetric(`${prefix}_insert_errors_total`)?.get())?.values.find(
      ({ labels }) => labels['blame'] === 'server',
    )?.value ?? 0;
  await until('both kinds are tried again', async () =>
    (await Promise.all([errors('wishmeter_flush'), errors('wishmeter_visit_flush')])).every((n) => n > 1),
  );
  t.same(await listDeadLetters(redis, pipeline.keys.visits, 0), []);
  for (const rows of Object.keys(feeds)) await clickhouse.command({ query: `DROP VIEW own_${rows}_feed` });
  await pipeline.drained();
  t.equal((await pipeline.counts()).shown, 1);
  t.same(await pipeline.ask('SELECT count() AS n FROM visits'), [{ n: '1' }]);
  const letters = await pipeline.letters();
  t.equal(letters.map(({ line }) => `${line}\n`).join(''), bad);
  await flusher.close();
});
t.test('rows for several batches are one insert per batch, without waiting for the interval', async (t) => {
  const pipeline = await pipelines.fresh(STREAMS);
  await pipeline.append(eventRows(600, BIG), 20);
  const { bytes } = await pendingOf(redis, pipeline.keys, 0);
  t.ok(bytes > 9e6);
  const registry = new Registry();
  await pipeline.flush({ intervalMs: 60_000, metrics: registry });
  t.same(await pipeline.counts(), { stored: 600, shown: 600, ids: 600 });
  const batches = await totalOf(registry, 'wishmeter_flush_batches_total');
  t.equal(batches, Math.ceil(bytes / 4e6), `${bytes} bytes in batches of some 4 MB`);
});
t.test('a flusher with a slow link to Redis inserts large entries that follow small ones', async (t) => {
  const pipeline = await pipelines.fresh(STREAMS);
  await pipeline.append(eventRows(8), 1);
  await pipeline.append(eventRows(60, { payload: { note: 'x'.repeat(150_000) } }), 1);
  const proxy = await startProxy(t, server.url);
  const own = await connectRedis({ urls: [proxy.url], name: 'flusher', timeoutMs: 10_000 }, () => {});
  t.teardown(() => own.disconnect());
  // All large entries take more than two seconds, a page of them less than one.
  proxy.throttle(4e6);
  await pipeline.flush({ redis: own, abandonedMs: 1_500 });
  t.same(await pipeline.counts(), { stored: 68, shown: 68, ids: 68 });
});
t.test('close stores all waiting rows in ClickHouse, even if they are more than one batch', async (t) => {
  const pipeline = await pipelines.fresh(STREAMS);
  await pipeline.append(eventRows(1));
  const flusher = pipeline.flusher({ intervalMs: 600_000 });
  await pipeline.drained(); // its next read is ten minutes away
  await pipeline.append(eventRows(600, BIG), 50);
  t.ok((await pendingOf(redis, pipeline.keys, 0)).bytes > 9e6, 'three batches');
  await flusher.close(90_000);
  t.same(await pipeline.counts(), { stored: 601, shown: 601, ids: 601 });
  t.same(await pendingOf(redis, pipeline.keys, 0), { events: 0, bytes: 0 });
});
t.test('connections that are cut repeatedly lose and double no event', async (t) => {
  const pipeline = await pipelines.fresh();
  const own = await connectRedis({ urls: pipelines.redisUrls, name: 'flusher', timeoutMs: 5_000 }, () => {});
  const flusher = pipeline.flusher({ redis: own });
  let cut = 0;
  for (let i = 0; i < 8; i++) {
    await pipeline.append(eventRows(50));
    cut += Number(await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'));
    await until('the flusher is connected again', () => own.status === 'ready');
  }
  t.ok(cut >= 4, `${cut} connections were cut`);
  await pipeline.drained();
  await flusher.close();
  own.disconnect();
  t.same(await pipeline.counts(), { stored: 400, shown: 400, ids: 400 });
});
// Visits: lines that get their entry's id, and another table.
const visitLines = (n: number, of = 0) =>
  Array.from({ length: n }, (_, i) => visitLine(`${of}.s${i}`, `p${i}`, 'tv'));
const shown = async ({ ask }: Pipeline) =>
  (await ask<{ n: number }>('SELECT toUInt32(count()) AS n FROM visits'))[0]?.n;
t.test(
  'a bad line of a visit becomes the only dead letter, and keeps its time when it is retried',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const at = '1767225600007-0';
    await pipeline.appendVisits([...visitLines(20), 'only one column\n', ...visitLines(20, 1)], at);
    const flusher = pipeline.flusher();
    await until('the others are there', async () => (await shown(pipeline)) === 40);
    await pipeline.drained();
    const letters = await listDeadLetters(redis, pipeline.keys.visits, 0);
    t.match(letters, [{ line: '1767225600.007\t0\t0\t20\tonly one column' }]);
    const dead = pipeline.keys.visits.eventsDead(0);
    const mended = '1767225600.007\t0\t0\t20\tx.s\tshoe\ttv';
    const id = await redis.xadd(dead, '*', 'code', 0, 'reason', '', 'time', 0, 'line', mended);
    await flusher.close();
    // Twice in one batch, as a command that ended half way leaves it.
    const dying = Object.create(redis, { xdel: { value: () => Promise.reject(new Error('killed')) } });
    await t.rejects(retryDeadLetters(dying, pipeline.keys.visits, 0, [id as string]), /killed/);
    t.equal(await retryDeadLetters(redis, pipeline.keys.visits, 0, [id as string]), 1);
    await pipeline.flush();
    t.equal(await shown(pipeline), 41);
    t.same(await pipeline.ask("SELECT * FROM visits WHERE profile_id = 'x.s'"), [
      { occurred_at: '2026-01-01 00:00:00.007', profile_id: 'x.s', product_handle: 'shoe', device: 'tv' },
    ]);
  },
);
for (const forward of [false, true])
  t.test(
    `visits are shown once if an insert's reply is lost and its rows are ${forward ? 'stored' : 'lost'}`,
    async (t) => {
      const pipeline = await pipelines.fresh();
      const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
      const clickhouse = connectToClickHouse(t, proxy.url, pipeline.database);
      for (let i = 0; i < 10; i++) await pipeline.appendVisits(visitLines(20, i));
      proxy.spoil({ forward, answer: 'nothing: the connection closes' });
      await pipeline.flush({ clickhouse });
      t.equal(proxy.inserts, 2);
      t.equal(await shown(pipeline), 200);
    },
  );
t.test("an erased visitor's rows are left out of a batch that is tried again", async (t) => {
  const pipeline = await pipelines.fresh();
  await pipeline.appendVisits(visitLines(5));
  // As a flusher that died with the batch.
  const { visits: keys } = pipeline.keys;
  const bounds = { rows: 1e6, bytes: 1e6 };
  const group = new StreamGroup({ redis, keys, number: 0, isOfVisits: true, bounds });
  (await group.read())?.release();
  await redis.hset(pipeline.keys.erasures, '0.s3', `${Date.now()} ${Date.now() + 1_000}`);
  await pipeline.flush({ abandonedMs: 50 });
  t.equal(await shown(pipeline), 4);
});
t.test('events are stored while the master of the erasures is frozen', async (t) => {
  const pipeline = await pipelines.fresh();
  await pipeline.append(eventRows(20));
  const frozen = Object.create(redis, { hscan: { value: () => new Promise(() => {}) } });
  await pipeline.flush({ redis: frozen });
  t.same(await pipeline.counts(), { stored: 20, shown: 20, ids: 20 });
});
t.test('the flusher reads the next full batch while it inserts one', async (t) => {
  const pipeline = await pipelines.fresh(STREAMS);
  await pipeline.append(eventRows(600, BIG), 20);
  let most = 0;
  const flusher = pipeline.flusher({
    async handOver() {
      await until('two batches are pending', async () => {
        most = Math.max(most, await pendingEntries(pipeline));
        return most > ENTRIES_OF_A_BATCH;
      });
    },
  });
  await pipeline.drained();
  await flusher.close();
  t.ok(most <= 2 * ENTRIES_OF_A_BATCH, `${most} entries: and no third one`);
});
t.test('another flusher claims both batches of one that gave up, although its process lives', async (t) => {
  const pipeline = await pipelines.fresh(STREAMS);
  await pipeline.append(eventRows(600, BIG), 20);
  const clickhouse = connectToClickHouse(t, 'http://127.0.0.1:1', pipeline.database);
  const flusher = pipeline.flusher({ clickhouse, abandonedMs: 400 });
  await until('two batches are pending', async () => (await pendingEntries(pipeline)) > ENTRIES_OF_A_BATCH);
  await flusher.close(0);
  await pipeline.flush({ abandonedMs: 400 });
  t.same(await pipeline.counts(), { stored: 600, shown: 600, ids: 600 });
});
t.test('a flusher halves an insert that exceeds the memory of ClickHouse until it fits', async (t) => {
  const pipeline = await pipelines.fresh();
  await pipeline.append(eventRows(1_000, BIG), 20);
  const clickhouse = createClickHouse(pipelines.clickhouseUrl, pipeline.database, {
    max_memory_usage: '40000000',
  });
  t.teardown(() => clickhouse.close());
  const registry = new Registry();
  await pipeline.flush({ clickhouse, metrics: registry });
  t.same(await pipeline.counts(), { stored: 1_000, shown: 1_000, ids: 1_000 });
  t.ok(Number(await totalOf(registry, 'wishmeter_flush_insert_errors_total')) > 0);
  t.same(await pipeline.letters(), []);
});
t.test(
  'flush logs when an outage of ClickHouse begins and when it ends, and logs no failed insert',
  async (t) => {
    const pipeline = await pipelines.freshDatabase();
    const proxy = await startProxy(t, pipelines.clickhouseUrl);
    const through = new URL(pipelines.clickhouseUrl);
    through.port = String(proxy.port);
    const app = await startApp(t, server);
    const where = { CLICKHOUSE_URL: through.href, CLICKHOUSE_DATABASE: pipeline.database };
    const env = { ...where, REDIS_URL: server.url, KEY_PREFIX: app.prefix, FLUSH_INTERVAL_MS: '50' };
    const lines: Readonly<Record<string, unknown>>[] = [];
    const log = pino(
      new Writable({ write: (line, _, done) => done(void lines.push(JSON.parse(String(line)))) }),
    );
    const flushing = await flush(readConfig(env), log);
    t.teardown(() => flushing.close());
    const outages = (msg: string) => lines.filter((line) => line['msg'] === msg);
    proxy.retarget('http://127.0.0.1:1');
    proxy.dropAll();
    for (let i = 0; i < 2; i++) {
      await app.shop.event({ sessionId: 's' });
      await app.shop.visit({ sessionId: 's' });
    }
    await until('it says so', () => outages('an outage has begun').length > 0);
    proxy.retarget(pipelines.clickhouseUrl);
    await until('it says that it is over', () => outages('an outage has ended').length > 0);
    const ofInserts = lines.filter((line) => line['msg'] !== 'daily totals of visits have to wait');
    t.same(
      ofInserts.map(({ msg, why }) => [msg, String(why).split(':')[0]]),
      ['an outage has begun', 'an outage has ended'].map((msg) => [msg, 'ClickHouse failed']),
    );
  },
);
t.test(
  'visits during an outage of ClickHouse are counted, wait up to the high-water mark, and are stored later',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
    const clickhouse = connectToClickHouse(t, proxy.url, pipeline.database);
    for (let i = 0; i < 4; i++) proxy.spoil({ forward: false, answer: { status: 503, body: 'away' } });
    const env = { VISIT_LOG_HIGH_WATER: '20000' };
    const app = await startApp(t, { urls: pipelines.redisUrls }, { prefix: pipeline.prefix, env });
    const flusher = pipeline.flusher({ clickhouse });
    let counted = 0;
    while (proxy.waiting > 0) {
      const visits = Array.from({ length: 100 }, (_, i) => ({
        identity: { sessionId: `away${i}` },
        productHandle: `p${counted % 100}`,
      }));
      const { json } = await app.post('/product/visit/batch?count=true', { visits }, TRUSTED);
      for (const { count } of json.results) t.ok(count > 0);
      counted += json.results.length;
    }
    await pipeline.drained();
    await flusher.close();
    const missed = /^wishmeter_visits_not_logged_total (\d+)$/m.exec(await app.stats())?.[1];
    t.equal(await shown(pipeline), counted - Number(missed), `${counted} counted, ${missed} not logged`);
    t.equal((await listDeadLetters(redis, pipeline.keys.visits, 0)).length, 0);
  },
);
t.test('a metric that cannot be collected is a logged 500, and the next scrape is answered', async (t) => {
  const registry = new Registry();
  let fails = true;
  new Gauge({
    name: 'moody',
    help: 'fails at first',
    registers: [registry],
    async collect() {
      if (fails) throw new Error('not now');
      this.set(1);
    },
  });
  const lines: string[] = [];
  const log = pino(new Writable({ write: (line, _, done) => done(void lines.push(String(line))) }));
  const server = await listenForMetrics({ host: '127.0.0.1', port: 0, token: '', registry: registry, log });
  t.teardown(() => server.close());
  const scrape = () => fetch(`http://127.0.0.1:${server.port}/metrics`);

  t.equal((await scrape()).status, 500);
  t.match(JSON.parse(lines.join('')), { level: 50, err: { message: 'not now' } });
  fails = false;
  const answer = await scrape();
  t.equal(answer.status, 200);
  t.match(await answer.text(), /^moody 1$/m);
  for (const path of ['/metrics', '/healthz']) {
    const head = await fetch(`http://127.0.0.1:${server.port}${path}`, { method: 'HEAD' });
    t.match({ status: head.status, text: await head.text() }, { status: 200, text: '' }, `HEAD ${path}`);
  }
});

t.test('several flushers on a cluster', async (t) => {
  interface Row {
    readonly occurred_at: string;
    readonly profile_id: string;
    readonly product_handle: string;
    readonly device: string;
  }
  const server = await startTestCluster(t);
  const pipelines = await openPipelines(t, server);
  const { redis } = pipelines;
  const fill = (pipeline: Pipeline, events = 5) =>
    Promise.all(
      Array.from({ length: pipeline.streams }, (_, stream) =>
        appendEvents(redis, pipeline.keys, stream, eventRows(events)),
      ),
    );
  t.test('three flushers store each event once, and find new streams without a restart', async (t) => {
    const pipeline = await pipelines.fresh(6);
    await redis.hdel(pipeline.keys.meta, ...[2, 3, 4, 5].map((number) => `marker:${number}`));
    const brought: number[] = [];
    const flushers = [1, 2, 3].map((n) => pipeline.flusher({ handOver: async () => void brought.push(n) }));
    for (let round = 0; round < 20; round++) {
      if (round === 10) await nameStreams(redis, pipeline.keys, 6);
      await fill(pipeline);
    }
    await pipeline.drained();
    await Promise.all(flushers.map((flusher) => flusher.close()));
    t.same(await pipeline.counts(), { stored: 600, shown: 600, ids: 600 }, 'nothing was inserted twice');
    t.equal(new Set(brought).size, 3, `who brought each batch: ${brought}`);
  });
  t.test('visits on a cluster are stored once, as the service counted them', async (t) => {
    const pipeline = await pipelines.fresh();
    const app = await startApp(t, { urls: pipelines.redisUrls }, { prefix: pipeline.prefix });
    const streams = await streamsOf(redis, pipeline.keys);
    t.equal(streams.length, 3, 'one for each master');
    const flusher = pipeline.flusher();
    const began = Date.now();
    const expected: Record<string, number> = {};
    for (let round = 0; round < 3; round++) {
      const visits = Array.from({ length: 100 }, (_, i) => ({
        identity: { sessionId: `s${i}`, device: `back\\slash ${round % 2}` },
        productHandle: ['\\'.repeat(255), '😀'.repeat(255)][i] ?? `ü"'\\N${i % 7}`,
      }));
      const { json } = await app.post('/product/visit/batch', { visits }, TRUSTED);
      for (const [i, { profileId }] of json.results.entries()) {
        const { productHandle, identity } = visits[i] as (typeof visits)[number];
        const row = [profileId, productHandle, identity.device].join(' ');
        expected[row] = (expected[row] ?? 0) + 1;
      }
    }
    const read = () => pipeline.ask<Row>('SELECT * FROM visits');
    await until('all are there', async () => (await read()).length === 300);
    await flusher.close();
    const rows = await read();
    const found: Record<string, number> = {};
    for (const { profile_id, product_handle, device } of rows) {
      const row = [profile_id, product_handle, device].join(' ');
      found[row] = (found[row] ?? 0) + 1;
    }
    t.same(found, expected);
    const times = rows.map(({ occurred_at }) => Date.parse(`${occurred_at.replace(' ', 'T')}Z`));
    t.ok(Math.min(...times) >= began - 2 && Math.max(...times) <= Date.now() + 2, 'at their times');
    for (const stream of streams) {
      t.same(await pendingOf(redis, pipeline.keys.visits, stream), { events: 0, bytes: 0 });
      t.equal(await redis.xlen(pipeline.keys.visits.events(stream)), 0);
    }
    t.same(await pipeline.counts(), { stored: 0, shown: 0, ids: 0 }, 'and no event');
  });
});
