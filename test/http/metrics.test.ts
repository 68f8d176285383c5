// Figures for operators: who may read them, and that they say what is, also where no flusher runs or Redis is away.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { createKeys } from '../../src/redis/keys.js';
import { type Headers, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { itemOf } from './wishlist.js';

const TOKEN = 'metrics-token-0123456789';
const EVENT = { identity: { sessionId: 's' }, type: 'add' };
/** Events to two streams that hold 2,000 bytes each: more than fit. */
const SENT = 40;

/** A sample by its name and labels as they are written; undefined where it is not shown. */
function sample(text: string, series: string): number | undefined {
  const line = text.split('\n').find((line) => line.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

const read = (app: TestApp) => app.figures();

t.test('metrics', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());

  t.test('with METRICS_TOKEN a client needs that token, and no key of the API will do', async (t) => {
    const app = await startApp(t, redis, { env: { METRICS_TOKEN: TOKEN } });
    const refused: Headers[] = [
      {},
      TRUSTED,
      { 'x-api-key': TOKEN },
      { authorization: TOKEN },
      { authorization: `Basic ${TOKEN}` },
      { authorization: `Bearer ${TOKEN}x` },
      { authorization: `Bearer ${TOKEN.slice(0, -1)}` },
    ];
    for (const headers of refused) {
      const answer = await app.get('/metrics', headers);
      t.match(answer, { status: 401, headers: { 'www-authenticate': 'Bearer' } }, JSON.stringify(headers));
      t.notMatch(answer.text, 'wishmeter_');
    }
    t.equal((await app.get(`/metrics?key=${TOKEN}`)).status, 401, 'not in the query, which logs keep');
    const { status, headers } = await app.get('/metrics', { authorization: `bearer ${TOKEN}` });
    t.equal(status, 200);
    t.equal(headers['cache-control'], 'no-store');
    t.equal(
      (await app.post('/event', EVENT, { authorization: `Bearer ${TOKEN}` })).status,
      401,
      'it opens nothing else',
    );
  });

  t.test('they are made at most once a second, however often they are asked for', async (t) => {
    const app = await startApp(t, redis);
    // In any two makings some counter of the process differs.
    const began = performance.now();
    const texts = new Set<string>();
    let asked = 0;
    while (performance.now() - began < 2_500) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => app.get('/metrics')));
      for (const { text } of answers) texts.add(text);
      asked += answers.length;
    }
    const seconds = (performance.now() - began) / 1_000;
    t.ok(asked > 100, `asked ${asked} times`);
    t.ok(texts.size <= seconds + 1, `made ${texts.size} times in ${seconds.toFixed(1)} s`);
    t.ok(texts.size >= 2, 'and they do not stay as they were');
  });

  t.test('what is for everyone is, whatever credentials come along', async (t) => {
    const app = await startApp(t, redis);
    const paths = ['/healthz', '/readyz', '/metrics', '/openapi.json', '/beacon.js'];
    for (const path of paths) {
      for (const headers of [
        { authorization: 'Bearer of-the-platform' },
        { 'x-api-key': 'x' },
        { authorization: 'junk' },
      ])
        t.equal((await app.get(path, headers)).status, 200, `${path} ${JSON.stringify(headers)}`);
      t.equal((await app.get(`${path}?key=x&signature=y`)).status, 200, path);
    }
  });

  t.test('the streams are shown as they are: events, bytes, age, dead letters, epoch, silence', async (t) => {
    const app = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '2000', EVENT_SHARDS: '2' } });
    const client = connectTo(redis.url);
    t.teardown(() => client.disconnect());
    const before = await read(app);
    for (const shard of [0, 1]) {
      for (const name of [
        'pending_events',
        'pending_bytes',
        'oldest_pending_seconds',
        'dead_letters',
        'epoch',
      ])
        t.equal(sample(before, `wishmeter_stream_${name}{shard="${shard}"}`), 0, `${name} of ${shard}`);
      t.equal(
        sample(before, `wishmeter_stream_owner_silent_seconds{shard="${shard}"}`),
        undefined,
        'no flusher runs',
      );
    }
    t.equal(sample(before, 'wishmeter_redis_up'), 1);
    t.equal(sample(before, 'wishmeter_stream_high_water_bytes'), 2000);

    // One after the other: what comes at once shares a batch, and a batch is taken or refused whole.
    const answers = [];
    for (let i = 0; i < SENT; i++) answers.push(await app.post('/event', EVENT, TRUSTED));
    const acknowledged = answers.filter(({ status }) => status === 200).length;
    t.ok(acknowledged > 0 && acknowledged < SENT, `${acknowledged} of ${SENT} fit below the high-water mark`);
    const keys = createKeys(app.prefix);
    const state = { epoch: '1700000000001', owner: 'x', beat: String(Date.now() - 60_000) };
    await client.hset(keys.eventsState(0), state);
    await client.xadd(keys.eventsDead(1), '*', 'c', '27', 'r', 'reason', 'd', '{}');
    await new Promise((resolve) => setTimeout(resolve, 50));
    const text = await read(app);
    const sum = (name: string) =>
      [0, 1].reduce(
        (all, shard) => all + (sample(text, `wishmeter_stream_${name}{shard="${shard}"}`) ?? NaN),
        0,
      );
    t.equal(sum('pending_events'), acknowledged);
    const bytes = await Promise.all([0, 1].map((shard) => client.hget(keys.eventsState(shard), 'bytes')));
    t.equal(
      sum('pending_bytes'),
      bytes.reduce((all, one) => all + Number(one), 0),
    );
    t.ok(sum('oldest_pending_seconds') >= 0.05, `${sum('oldest_pending_seconds')} s`);
    t.equal(sum('dead_letters'), 1);
    t.equal(sample(text, 'wishmeter_stream_epoch{shard="0"}'), 1700000000001);
    t.ok((sample(text, 'wishmeter_stream_owner_silent_seconds{shard="0"}') ?? 0) >= 60);

    t.test('what was acknowledged and what was refused are counted, by reason', async (t) => {
      t.equal(
        sample(text, 'wishmeter_http_answers_total{operation="post /event",status="200"}'),
        acknowledged,
      );
      t.equal(sample(text, 'wishmeter_http_refused_total{code="overloaded"}'), SENT - acknowledged);
      await app.post('/event', '{', TRUSTED);
      await app.post('/event', {}, TRUSTED);
      await app.post('/event', {}, { 'x-api-key': 'wrong' });
      await app.get('/nowhere');
      const after = await read(app);
      for (const code of ['invalid_json', 'invalid_request', 'unauthorized', 'not_found'])
        t.equal(sample(after, `wishmeter_http_refused_total{code="${code}"}`), 1, code);
      for (const name of [
        'redis_call_duration_seconds_count{script="record"}',
        'batch_operations_sum{script="record"}',
        'events_total{type="add"}',
      ])
        t.ok((sample(after, `wishmeter_${name}`) ?? 0) > 0, name);
    });
  });

  t.test('events are counted by their type, whichever way they are recorded', async (t) => {
    const app = await startApp(t, redis);
    const identity = { sessionId: 'typed' };
    const ok = async (path: string, body: object, headers: Headers = {}) =>
      t.equal((await app.post(path, body, { ...TRUSTED, ...headers })).status, 200);
    await ok('/event', { identity, type: 'moveToCart' });
    await ok('/event', { identity, type: 'moveToCart' }, { 'idempotency-key': 'typed-0123456789' });
    await ok('/item/add', itemOf(identity, { productId: '1', variantId: null }));
    await ok('/item/remove', { identity, productId: '1' });
    await ok('/share', { identity });
    const text = await read(app);
    for (const [type, count] of Object.entries({ moveToCart: 2, add: 1, remove: 1, share: 1 }))
      t.equal(sample(text, `wishmeter_events_total{type="${type}"}`), count, type);
  });

  t.test('with Redis away they are still there, say so, and show nothing that is old', async (t) => {
    const own = await startTestRedis();
    const app = await startApp(t, own, { timeoutMs: 500 });
    await app.post('/event', EVENT, TRUSTED);
    t.equal(sample(await read(app), 'wishmeter_stream_pending_events{shard="0"}'), 1);
    await own.stop();
    const text = await read(app);
    t.equal(sample(text, 'wishmeter_redis_up'), 0);
    t.equal(sample(text, 'wishmeter_stream_pending_events{shard="0"}'), undefined);
    t.match(text, 'wishmeter_http_open_requests');
  });
});

t.test(
  'flush has its figures on FLUSH_METRICS_PORT, under the same token, and an answer for probes',
  async (t) => {
    const [redis, clickhouse] = await Promise.all([
      startTestRedis(),
      startTestClickHouse({ databases: ['wishmeter'] }),
    ]);
    t.teardown(() => Promise.all([redis.stop(), clickhouse.stop()]));
    const lines: string[] = [];
    const config = readConfig({
      HOST: '127.0.0.1',
      REDIS_URL: redis.url,
      CLICKHOUSE_URL: clickhouse.url,
      FLUSH_INTERVAL_MS: '20',
      FLUSH_METRICS_PORT: '0',
      METRICS_TOKEN: TOKEN,
    });
    const flushing = await flush(config, pino({}, { write: (line) => lines.push(line) }));
    let closing: Promise<void> | undefined;
    const close = () => (closing ??= flushing.close());
    t.teardown(close);
    const port = lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'metrics').port as number;
    const get = (path: string, authorization = '') =>
      fetch(`http://127.0.0.1:${port}${path}`, { headers: authorization === '' ? {} : { authorization } });

    t.equal((await get('/healthz')).status, 200);
    t.equal((await get('/metrics')).status, 401);
    t.equal((await get('/metrics', `Bearer ${TOKEN}x`)).status, 401);
    t.equal((await get('/')).status, 404);
    t.equal((await fetch(`http://127.0.0.1:${port}/metrics`, { method: 'POST', body: '{}' })).status, 404);

    const app = await startApp(t, redis, { prefix: 'wm' });
    for (let i = 0; i < 3; i++) await app.post('/event', EVENT, TRUSTED);
    const deadline = Date.now() + 30_000;
    let text = '';
    while (sample(text, 'wishmeter_flush_rows_total') !== 3 && Date.now() < deadline) {
      text = await (await get('/metrics', `Bearer ${TOKEN}`)).text();
    }
    t.equal(sample(text, 'wishmeter_flush_rows_total'), 3);
    t.ok((sample(text, 'wishmeter_flush_epoch{shard="0"}') ?? 0) > 0);
    const silence = sample(await read(app), 'wishmeter_stream_owner_silent_seconds{shard="0"}');
    t.ok(silence !== undefined && silence < 30, `serve sees its heartbeat, ${silence} s ago`);
    await close();
    await t.rejects(get('/healthz'), 'it ends with flush');
  },
);
