// /metrics: who may read it; it is right, also without Redis. Visitors raise no errors in Redis, whose errorstats are alarmed on.

import type { Redis } from 'ioredis';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import t from 'tap';
import { FixedHistogram } from '../../src/metrics/fixed-histogram.js';
import { listenForMetrics } from '../../src/metrics/metrics-server.js';
import { createKeys } from '../../src/redis/keys.js';
import { sample, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { scriptNames } from '../harness/lua.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const PATH = '/product/visit';
const TOKEN = 'metrics-token-0123456789';
const EVENT = { identity: { sessionId: 's' }, type: 'add' };
/** Events sent to a stream that holds 2,000 bytes: more than fit. */
const SENT = 40;

t.test('metrics', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);

  t.test('with METRICS_TOKEN serve and flush require that token, and refuse API keys', async (t) => {
    const app = await startApp(t, redis, { env: { METRICS_TOKEN: TOKEN } });
    const log = pino({ level: 'silent' });
    const options = { host: '127.0.0.1', port: 0, token: TOKEN, registry: new Registry(), log };
    const flusher = await listenForMetrics(options);
    t.teardown(() => flusher.close());
    const flush = (path: string, init: RequestInit = {}) =>
      fetch(`http://127.0.0.1:${flusher.port}${path}`, init);
    const wrong = [TOKEN, `Basic ${TOKEN}`, `Bearer ${TOKEN}x`, `Bearer ${TOKEN.slice(0, -1)}`];
    const refused: Record<string, string>[] = [
      ...[{}, TRUSTED, { 'x-api-key': TOKEN }],
      ...wrong.map((authorization) => ({ authorization })),
    ];
    for (const headers of refused) {
      const answer = await app.get('/metrics', headers);
      t.match(answer, { status: 401, headers: { 'www-authenticate': 'Bearer' } }, JSON.stringify(headers));
      t.notMatch(answer.text, 'wishmeter_');
      t.equal((await flush('/metrics', { headers })).status, 401);
    }
    t.equal((await app.get(`/metrics?key=${TOKEN}`)).status, 401, 'not in the query, which logs keep');
    const right = { authorization: `bearer ${TOKEN}` };
    t.match(await app.get('/metrics', right), { status: 200, headers: { 'cache-control': 'no-store' } });
    t.equal((await flush('/metrics', { headers: right })).status, 200);
    t.equal((await app.post('/event', EVENT, right)).status, 401, 'it opens nothing else');
    t.equal((await flush('/healthz')).status, 200);
    t.equal((await flush('/')).status, 404);
    t.equal((await flush('/metrics', { method: 'POST', body: '{}' })).status, 404);
  });

  t.test('metrics are computed at most once a second, however often they are scraped', async (t) => {
    let now = 1_000;
    const app = await startApp(t, redis, { timing: { now: () => now } });
    const answered = async () => {
      const answers = await Promise.all(Array.from({ length: 10 }, () => app.get('/metrics')));
      const series = 'http_answers_total{operation="get /openapi.json",status="200"}';
      return [...new Set(answers.map(({ text }) => sample(text, series)))];
    };
    const first = await answered();
    t.equal(first.length, 1);
    await app.get('/openapi.json');
    now += 999;
    t.same(await answered(), first);
    now += 1;
    t.same(await answered(), [Number(first[0]) + 1]);
  });

  t.test('metrics show the pending events, bytes, age and dead letters of each stream', async (t) => {
    const app = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '2000' } });
    // A stream without a master, left over from a cluster.
    await client.hset(createKeys(app.prefix).meta, 'marker:1', '1');
    const before = await app.stats();
    const ofStream = (text: string, name: string, stream: number) =>
      sample(text, `stream_${name}{stream="${stream}"}`);
    for (const name of ['pending_events', 'pending_bytes', 'oldest_pending_seconds', 'dead_letters']) {
      t.equal(ofStream(before, name, 0), 0, name);
      t.equal(ofStream(before, name, 1), undefined, `${name} of a stream that no master appends to`);
    }
    t.equal(sample(before, 'redis_up'), 1);
    t.equal(sample(before, 'stream_high_water_bytes'), 2000);

    // One after the other: concurrent events share a batch, which is accepted or refused as a whole.
    let acknowledged = 0;
    for (let i = 0; i < SENT; i++)
      if ((await app.post('/event', EVENT, TRUSTED)).status === 200) acknowledged++;
    t.ok(acknowledged > 0 && acknowledged < SENT, `${acknowledged} of ${SENT} fit below the high-water mark`);
    const keys = createKeys(app.prefix);
    await client.xadd(keys.eventsDead(1), '*', 'c', '27', 'r', 'reason', 'd', '{}');
    const sumIn = (text: string, name: string) =>
      [0, 1].reduce((sum, stream) => sum + (ofStream(text, name, stream) ?? Number.NaN), 0);
    const text = await until('time passes', async () => {
      const figures = await app.stats();
      return sumIn(figures, 'oldest_pending_seconds') >= 0.05 && figures;
    });
    const bytes = [0, 1].map(async (stream) => Number(await client.hget(keys.eventsState(stream), 'bytes')));
    const [one = 0, two = 0] = await Promise.all(bytes);
    t.equal(sumIn(text, 'pending_events'), acknowledged);
    t.equal(sumIn(text, 'pending_bytes'), one + two);
    t.equal(sumIn(text, 'dead_letters'), 1);

    t.equal(sample(text, 'http_refused_total{code="overloaded",why="stream"}'), SENT - acknowledged);
    t.ok(Number(sample(text, 'redis_call_duration_seconds_count{script="recordEvents"}')) > 0);
  });

  t.test('a scrape reads the age of the oldest entry without its lines', async (t) => {
    const app = await startApp(t, redis);
    await app.stats();
    const { events } = createKeys(app.prefix);
    await client.xadd(events(0), '1-1', 'n', '1', 'd', 'x'.repeat(5_000_000));
    const sent = async () =>
      Number(/total_net_output_bytes:(\d+)/.exec(await client.info('stats'))?.[1] ?? Number.NaN);
    const before = await sent();
    await until('it is scraped', async () => {
      const age = sample(await app.stats(), 'stream_oldest_pending_seconds{stream="0"}');
      return age !== undefined && age > 1e6;
    });
    t.ok((await sent()) - before < 1_000_000);
    await client.del(events(0));
  });

  t.test('events are counted by their type, whichever operation records them', async (t) => {
    const app = await startApp(t, redis);
    const identity = { sessionId: 'typed' };
    await app.shop.event(identity, 'moveToCart');
    const under = { ...TRUSTED, 'idempotency-key': 'typed-0123456789' };
    t.equal((await app.post('/event', { identity, type: 'moveToCart' }, under)).status, 200);
    await app.shop.add(identity);
    await app.shop.remove(identity);
    await app.shop.share(identity);
    const text = await app.stats();
    for (const [type, count] of Object.entries({ moveToCart: 2, add: 1, remove: 1, share: 1 }))
      t.equal(sample(text, `events_total{type="${type}"}`), count, type);
  });

  t.test('an erasure is counted once, and so is an event of a visitor who has moved', async (t) => {
    const app = await startApp(t, redis);
    const { shop, figure } = app;
    const other = await startApp(t, redis, { prefix: app.prefix });
    const identity = { sessionId: 'moved' };
    await shop.event(identity);
    await other.shop.login({ ...identity, customerId: 'moved' });
    await shop.event(identity);
    t.equal(await figure('events_total{type="add"}'), 2);
    for (const who of [{ sessionId: 'erased' }, { customerId: 'erased', sessionId: 'linked' }]) {
      await shop.visit(who);
      for (let i = 0; i < 2; i++) await shop.erase(who);
    }
    t.equal(await figure('erasures_total'), 2);
  });

  t.test(
    'counted visits are in the metrics, with the count returned or not, and refused ones are not',
    async (t) => {
      const { post, figure } = await startApp(t, redis, { env: { MAX_PRODUCTS: '1' } });
      const visit = { identity: { sessionId: 's' }, productHandle: 'x' };
      for (let i = 0; i < 3; i++) t.equal((await post(PATH, visit)).status, 200);
      t.equal((await post(`${PATH}?count=true`, visit)).json.count, 4);
      t.equal((await post(PATH, { ...visit, productHandle: 'y' })).status, 409);
      t.equal(await figure('visits_counted_total'), 4);
    },
  );

  t.test('http_answers_total has each operation and status as often as it was answered', async (t) => {
    const app = await startApp(t, redis);
    const visit = { identity: { sessionId: 's' }, productHandle: 'x' };
    await Promise.all([
      ...Array.from({ length: 5 }, () => app.post(PATH, visit)),
      app.post(PATH, {}),
      app.post(PATH, '{'),
      app.post('/event', EVENT, TRUSTED),
      app.post('/event', {}),
      app.get(withQuery(PATH, { sessionId: 's', productHandle: 'x' })),
      app.get('/nowhere'),
    ]);
    const { headers, text } = await app.get('/metrics');
    t.match(headers['content-type'], /^text\/plain; version=0\.0\.4/);
    const series = /^wishmeter_http_answers_total\{operation="(?!.*openapi)(.*)",status="(\d+)"\} (\d+)$/gm;
    const answers = text.matchAll(series);
    t.same(Array.from(answers, ([, operation, status, count]) => `${operation} ${status}: ${count}`).sort(), [
      'get /product/visit 200: 1',
      'none 404: 1',
      'post /event 200: 1',
      'post /event 401: 1',
      'post /product/visit 200: 5',
      'post /product/visit 400: 2',
    ]);
    for (const code of ['invalid_json', 'invalid_request', 'unauthorized', 'not_found'])
      t.equal(sample(text, `http_refused_total{code="${code}"}`), 1, code);
    t.equal(sample(text, 'http_open_requests'), 1, 'the one that asks');
    t.equal(sample(text, 'batch_operations_sum{script="recordEvents"}'), 1);
    t.equal(sample(text, 'batch_operations_sum{script="countVisits"}'), 5 + 1, 'visits, and the read');
    t.ok(Number(sample(text, 'redis_call_duration_seconds_count{script="countVisits"}')) >= 1);
    t.match(text, /^process_cpu_seconds_total /m);
  });
});

async function errorsOf(client: Redis): Promise<Record<string, number>> {
  const info = await client.info('errorstats');
  const counts = [...info.matchAll(/^errorstat_(\w+):count=(\d+)/gm)];
  return Object.fromEntries(counts.map(([, name, count]) => [name, Number(count)]));
}

t.test(
  'serve warns at its start if Redis evicts keys at maxmemory, and a metric has the policy',
  async (t) => {
    const redis = await startTestRedis(t);
    const warned = async () => {
      const lines: string[] = [];
      const app = await startApp(t, redis, { onLog: ({ policy }) => policy && lines.push(`${policy}`) });
      return { app, lines };
    };
    const policies = async ({ app }: Awaited<ReturnType<typeof warned>>) =>
      [...(await app.stats()).matchAll(/^wishmeter_redis_eviction_policy\{(.*)\} 1$/gm)].map(
        ([, said]) => said,
      );
    const good = await warned();
    t.same(await policies(good), ['policy="noeviction"']);
    await connectTo(t, redis.url).config('SET', 'maxmemory-policy', 'volatile-lru');
    const bad = await warned();
    await until('it is in the log', () => bad.lines[0] === 'volatile-lru');
    t.same(await policies(good), ['policy="volatile-lru"']);
    t.same(good.lines, []);
  },
);
t.test('operations of visitors raise no error in Redis', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const { post, shop } = await startApp(t, redis);
  const visitors: Record<string, string>[] = [
    { sessionId: 'only' },
    { customerId: 'only' },
    { sessionId: 'first', customerId: 'c-1' },
    { sessionId: 'merged', customerId: 'c-2' },
    { sessionId: 'first' },
    { sessionId: 'merged' },
    { customerId: 'c-1' },
    { customerId: 'c-2' },
  ];
  let keys = 0;
  const keyed = async (path: string, body: object) =>
    t.equal((await post(path, body, { ...TRUSTED, 'idempotency-key': `k${keys++}` })).status, 200, path);
  const everything = async () => {
    for (const identity of visitors) {
      const visit = { identity, productHandle: 'x' };
      for (let i = 0; i < 2; i++) {
        await post(PATH, visit, TRUSTED);
        await shop.visit(identity, 'x');
        await keyed(PATH, visit);
        await shop.count(identity, 'x');
        await shop.add(identity, { quantity: i + 1 });
        await shop.items(identity);
        await shop.remove(identity);
        await shop.share(identity);
        await shop.event(identity);
        await keyed('/event', { identity, type: 'add' });
        await shop.reset(identity, 'x');
      }
    }
  };
  for (const identity of [{ sessionId: 'first' }, { sessionId: 'merged' }, { customerId: 'c-2' }])
    await shop.visit(identity, 'x');
  await everything();
  const { NOSCRIPT: _, ...warm } = await errorsOf(client);
  t.notOk('WRONGTYPE' in warm, JSON.stringify(warm));
  await everything();
  const { NOSCRIPT: unknown = 0, ...errors } = await errorsOf(client);
  t.same(errors, warm, 'and then never again');
  // A background task runs some of the scripts later.
  const scripts = scriptNames().length;
  t.ok(unknown <= scripts, `each script is unknown once: ${unknown} of ${scripts}`);
});

t.test("an error that Redis or our code should not raise is logged with its request's id", async (t) => {
  const redis = await startTestRedis(t);
  const lines: string[] = [];
  const app = await startApp(t, redis, { onError: (line) => lines.push(line) });
  const identity = { sessionId: 'wrong-type' };
  const { profileId } = await app.shop.visit(identity);
  await connectTo(t, redis.url).set(createKeys(app.prefix).items(profileId), 'not a hash');
  const answer = await app.post('/item/list', { identity }, { ...TRUSTED, 'x-request-id': 'its-id' });
  t.match(answer, { status: 500, json: { code: 'internal' } });
  t.equal(lines.length, 1);
  t.match(JSON.parse(`${lines}`), { requestId: 'its-id', err: { message: /./ } });
});

t.test('a value equal to the bound of a bucket is counted in that bucket', async (t) => {
  const registry = new Registry();
  const spec = { name: 'seconds', help: 'of a test', labels: [], buckets: [1, 2] };
  new FixedHistogram(registry, spec).series().observe(1);
  t.match(await registry.metrics(), /^seconds_bucket\{le="1"\} 1$/m);
});
