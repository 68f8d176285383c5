// Figures and errors for operators: who may read /metrics, and that it is right, also where no flusher runs or Redis is
// away; that visitors raise no errors in Redis, whose INFO errorstats operators alarm on; that our own bugs are logged.

import type { Redis } from 'ioredis';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { flush } from '../../src/app/flush.js';
import { serve } from '../../src/app/serve.js';
import { readConfig } from '../../src/config.js';
import { createKeys } from '../../src/redis/keys.js';
import { type Headers, KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';
const TOKEN = 'metrics-token-0123456789';
const EVENT = { identity: { sessionId: 's' }, type: 'add' };
/** Events to two streams that hold 2,000 bytes each: more than fit. */
const SENT = 40;

const OPENAPI_ANSWERS = 'wishmeter_http_answers_total{operation="get /openapi.json",status="200"}';

/** A sample by its name and labels as they are written; undefined where it is not shown. */
const sample = (text: string, series: string) => parsePrometheus(text).get(series);

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
    let now = 1_000;
    const app = await startApp(t, redis, { timing: { now: () => now } });
    const answered = async () => {
      const answers = await Promise.all(Array.from({ length: 10 }, () => app.get('/metrics')));
      return [...new Set(answers.map(({ text }) => sample(text, OPENAPI_ANSWERS)))];
    };
    const first = await answered();
    t.equal(first.length, 1);
    await app.get('/openapi.json');
    now += 999;
    t.same(await answered(), first);
    now += 1;
    t.same(await answered(), [Number(first[0]) + 1]);
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
    const sumIn = (text: string, name: string) =>
      [0, 1].reduce(
        (all, shard) => all + (sample(text, `wishmeter_stream_${name}{shard="${shard}"}`) ?? NaN),
        0,
      );
    const text = await until('time passes', async () => {
      const figures = await read(app);
      return sumIn(figures, 'oldest_pending_seconds') >= 0.05 && figures;
    });
    const sum = (name: string) => sumIn(text, name);
    t.equal(sum('pending_events'), acknowledged);
    const bytes = await Promise.all([0, 1].map((shard) => client.hget(keys.eventsState(shard), 'bytes')));
    t.equal(
      sum('pending_bytes'),
      bytes.reduce((all, one) => all + Number(one), 0),
    );
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
    const app = await startApp(t, own, { timeoutMs: 2_000 });
    await app.post('/event', EVENT, TRUSTED);
    t.equal(sample(await read(app), 'wishmeter_stream_pending_events{shard="0"}'), 1);
    await own.stop();
    const text = await read(app);
    t.equal(sample(text, 'wishmeter_redis_up'), 0);
    t.equal(sample(text, 'wishmeter_stream_pending_events{shard="0"}'), undefined);
    t.match(text, 'wishmeter_http_open_requests');
  });

  t.test('metrics are Prometheus text whose counts are those of the answers given', async (t) => {
    const app = await startApp(t, redis);
    const asked = [
      ...Array.from({ length: 5 }, () =>
        app.post(PATH, { identity: { sessionId: 's' }, productHandle: 'x' }),
      ),
      ...Array.from({ length: 2 }, () => app.post(PATH, {})),
      app.post('/event', { identity: { sessionId: 's' }, type: 'add' }, TRUSTED),
      app.post('/event', {}),
      app.get(withQuery('/product/visit', { sessionId: 's', productHandle: 'x' })),
      app.get('/nowhere'),
    ];
    await Promise.all(asked);
    const { status, headers, text } = await app.get('/metrics');
    t.equal(status, 200);
    t.match(headers['content-type'], /^text\/plain; version=0\.0\.4/);
    const samples = parsePrometheus(text);
    const answers = Object.fromEntries(
      [...samples].filter(
        ([name]) => name.startsWith('wishmeter_http_answers_total') && !name.includes('/openapi.json'),
      ),
    );
    t.same(answers, {
      'wishmeter_http_answers_total{operation="post /product/visit",status="200"}': 5,
      'wishmeter_http_answers_total{operation="post /product/visit",status="400"}': 2,
      'wishmeter_http_answers_total{operation="post /event",status="200"}': 1,
      'wishmeter_http_answers_total{operation="post /event",status="401"}': 1,
      'wishmeter_http_answers_total{operation="get /product/visit",status="200"}': 1,
      'wishmeter_http_answers_total{operation="none",status="404"}': 1,
    });
    t.equal(samples.get('wishmeter_http_open_requests'), 1, 'the one that asks');
    t.equal(samples.get('wishmeter_batch_operations_sum{script="record"}'), 1);
    t.equal(samples.get('wishmeter_batch_operations_sum{script="visits"}'), 5 + 1, 'visits, and the read');
    t.ok(Number(samples.get('wishmeter_redis_call_duration_seconds_count{script="visits"}')) >= 1);
    t.ok(samples.has('process_cpu_seconds_total'));
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
    const text = await until('three rows are written', async () => {
      const figures = await (await get('/metrics', `Bearer ${TOKEN}`)).text();
      return sample(figures, 'wishmeter_flush_rows_total') === 3 && figures;
    });
    t.ok((sample(text, 'wishmeter_flush_epoch{shard="0"}') ?? 0) > 0);
    const silence = sample(await read(app), 'wishmeter_stream_owner_silent_seconds{shard="0"}');
    t.ok(silence !== undefined && silence >= 0, `serve sees its heartbeat, ${silence} s ago`);
    await close();
    await t.rejects(get('/healthz'), 'it ends with flush');
  },
);

/** Samples by name and labels; throws at a line that is none, and at a sample whose metric has no type. */
function parsePrometheus(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  const typed = new Set<string>();
  for (const line of text.split('\n').filter(Boolean)) {
    const type = /^# TYPE (\w+) (counter|gauge|histogram|summary)$/.exec(line)?.[1];
    if (type !== undefined) typed.add(type);
    if (line.startsWith('# ')) continue;
    const sample = /^(([a-zA-Z_:][\w:]*)(?:\{(?:\w+="(?:[^"\\]|\\.)*",?)*\})?) (\S+)$/.exec(line);
    const [, key = '', name = '', value = ''] = sample ?? [];
    if (sample === null || (!typed.has(name) && !typed.has(name.replace(/_(sum|count|bucket)$/, '')))) {
      throw new Error(`not a sample: ${line}`);
    }
    samples.set(key, value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value));
  }
  return samples;
}

/** How often each error came, by INFO. */
async function errorsOf(client: Redis): Promise<Record<string, number>> {
  const info = await client.info('errorstats');
  return Object.fromEntries(
    [...info.matchAll(/^errorstat_(\w+):count=(\d+)/gm)].map(([, name, count]) => [name, Number(count)]),
  );
}

// But for the first time that a server meets an identity that is not at home: its guess at the door is wrong once.
t.test('what visitors do raises no error in Redis', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  const app = await startApp(t, redis);
  const visitors = [
    { sessionId: 'only' },
    { customerId: 'only' },
    { sessionId: 'adopted', customerId: 'c-1' },
    { sessionId: 'merged', customerId: 'c-2' },
    { sessionId: 'adopted' },
    { sessionId: 'merged' },
    { customerId: 'c-1' },
    { customerId: 'c-2' },
  ];
  const post = async (path: string, body: object, headers = {}) => {
    const answer = await app.post(path, body, { ...TRUSTED, ...headers });
    t.equal(answer.status, 200, `${path}: ${answer.text}`);
  };
  let keys = 0;
  const everything = async () => {
    for (const identity of visitors) {
      const visit = { identity, productHandle: 'x' };
      for (let i = 0; i < 2; i++) {
        await post(PATH, visit);
        await post(`${PATH}?count=true`, visit);
        await post(PATH, visit, { 'idempotency-key': `k${keys++}` });
        const query = new URLSearchParams({ ...identity, productHandle: 'x' } as Record<string, string>);
        t.equal((await app.get(`${PATH}?${query}`, TRUSTED)).status, 200);
        await post('/item/add', itemOf(identity, { quantity: i + 1 }));
        await post('/item/list', { identity });
        await post('/item/remove', { identity, productId: '1001', variantId: '2002' });
        await post('/share', { identity });
        await post('/event', { identity, type: 'add' });
        await post('/event', { identity, type: 'add' }, { 'idempotency-key': `k${keys++}` });
        t.equal((await app.del(PATH, visit, TRUSTED)).status, 200);
      }
    }
  };
  for (const sessionId of ['adopted', 'merged'])
    await post(PATH, { identity: { sessionId }, productHandle: 'x' });
  await post(PATH, { identity: { customerId: 'c-2' }, productHandle: 'x' });
  await everything();
  const warm = await errorsOf(client);
  t.ok(
    (warm['WRONGTYPE'] ?? 0) <= visitors.length,
    `${JSON.stringify(warm)}: once for each identity at most`,
  );
  await everything();
  t.same(await errorsOf(client), warm, 'and then never again');
});

t.test('internal errors are logged with the id of their request', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const direct = connectTo(redis.url);
  t.teardown(() => direct.disconnect());
  const lines: string[] = [];
  const env = { HOST: '127.0.0.1', PORT: '0', REDIS_URL: redis.url, API_KEYS: KEY };
  const config = { ...readConfig(env), REDIS_TIMEOUT_MS: 20_000 };
  const app = await serve(config, pino({ level: 'error' }, { write: (line) => lines.push(line) }));
  t.teardown(() => app.close());
  const post = async (path: string, body: object, requestId = 'r') => {
    const answer = await fetch(`http://127.0.0.1:${app.port}${path}`, {
      method: 'POST',
      headers: { 'x-api-key': KEY, 'content-type': 'application/json', 'x-request-id': requestId },
      body: JSON.stringify(body),
    });
    return { status: answer.status, json: (await answer.json()) as Record<string, string> };
  };
  const keys = createKeys('wm');
  const profileOf = async (sessionId: string) => {
    const { json } = await post('/product/visit', { identity: { sessionId }, productHandle: 'x' });
    return json['profileId'] as string;
  };
  const expectLogged = (t: Test, id: string, answer: Awaited<ReturnType<typeof post>>) => {
    t.match(answer, { status: 500, json: { code: 'internal' } });
    t.match(
      lines.map((line) => JSON.parse(line)),
      [{ requestId: id, err: { message: /./ } }],
    );
    lines.length = 0;
  };

  t.test("an error of Redis's that should not be", async (t) => {
    await direct.set(keys.items(await profileOf('a')), 'not a hash');
    expectLogged(t, 'wrong-type', await post('/item/list', { identity: { sessionId: 'a' } }, 'wrong-type'));
  });

  t.test('an error that our code throws as such', async (t) => {
    const profile = await profileOf('b');
    await direct.hset(keys.profile(profile), 'heir', profile);
    expectLogged(t, 'circle', await post('/item/list', { identity: { sessionId: 'b' } }, 'circle'));
  });
});
