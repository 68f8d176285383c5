// GET and DELETE /profile, and `wishmeter export`, while ClickHouse is away: an export that would lack a part is none (503),
// an erasure is done in Redis and stays in /metrics until ClickHouse is back and has no row of it either.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { readConfig } from '../../src/config.js';
import { visitStreams } from '../../src/flush/backlog.js';
import { eraseWaiting } from '../../src/flush/eraser.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { wishmeter } from '../cli/wishmeter.js';
import { fixedShards } from '../flush/fixtures.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { JSON_TYPE } from '../http/orders.js';
import { itemOf } from '../http/wishlist.js';

/** Where nobody listens. */
const NOWHERE = 'http://127.0.0.1:1';

t.test('ClickHouse is away, and comes back', async (t) => {
  const [redis, clickhouse] = await Promise.all([
    startTestRedis(),
    startTestClickHouse({ databases: ['wishmeter'] }),
  ]);
  t.teardown(() => Promise.all([redis.stop(), clickhouse.stop()]));
  const proxy = await startProxy(t, clickhouse.url);
  const through = new URL(clickhouse.url);
  through.port = String(proxy.port);
  const leave = () => {
    proxy.retarget(NOWHERE);
    proxy.dropAll();
  };
  const comeBack = () => proxy.retarget(clickhouse.url);
  const env = { CLICKHOUSE_URL: through.href, BUCKETS: '64', FLUSH_INTERVAL_MS: '50', EVENT_SHARDS: '1' };
  const app = await startApp(t, redis, { env });
  const settings = { ...env, REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix };
  const log = pino({ level: 'silent' });
  const read = (customerId: string) => app.get(`/profile?customerId=${customerId}`, TRUSTED);
  const figure = async (name: string) =>
    Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await app.figures())?.[1]);
  const openRedactions = () => figure('wishmeter_requests_open\\{kind="customers/redact"\\}');

  for (const customerId of ['1', '2', '3']) await app.post('/item/add', itemOf({ customerId }), TRUSTED);
  const flushing = await flush(readConfig(settings), log);
  await until('their events are in ClickHouse', async () => {
    const found = await Promise.all(['1', '2', '3'].map(read));
    return found.every(({ status, json }) => status === 200 && json.events.length === 1);
  });
  await flushing.close();

  leave();
  t.match(await read('1'), {
    status: 503,
    headers: { 'retry-after': /^\d+$/ },
    json: { code: 'unavailable', error: /ClickHouse does not answer/ },
  });
  t.match(await wishmeter({ args: ['export', '--customer', '1'], env: settings }), {
    code: 1,
    stdout: '',
    stderr: /ClickHouse does not answer/,
  });

  t.match(await app.del('/profile?customerId=1', undefined, TRUSTED), {
    status: 200,
    json: { erased: true },
  });
  const erasing = await wishmeter({ args: ['erase', '--customer', '2'], env: settings });
  t.match(erasing, { code: 0, stdout: '{"erased":true}\n' });
  const redact = { shop_id: 1, shop_domain: 'x.myshopify.com', customer: { id: 3, email: null } };
  const headers = { ...TRUSTED, ...JSON_TYPE, 'x-shopify-event-id': 'e-3' };
  t.equal((await app.post('/webhook/customers/redact', redact, headers)).status, 200);
  await until(
    'all three, each a profile and an identity, are erased from Redis',
    async () => (await figure('wishmeter_pending_erasures')) === 6,
  );
  t.equal(await openRedactions(), 1);

  const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
  t.teardown(() => connection.disconnect());
  const client = createClickHouse(through.href, 'wishmeter');
  t.teardown(() => client.close());
  const keys = createKeys(app.prefix);
  const streams = await visitStreams(connection, keys);
  const spec = {
    redis: connection,
    keys,
    clickhouse: client,
    shards: fixedShards(1),
    visitStreams: streams,
    log,
  };
  await t.rejects(
    until('the erasures are due', async () => (await eraseWaiting(spec, 0)) > 0),
    { code: /^ECONN(REFUSED|RESET)$/ },
  );
  t.equal(await figure('wishmeter_pending_erasures'), 6, 'a flusher that fails forgets none');

  comeBack();
  await until('they are erased from ClickHouse', async () => {
    await eraseWaiting(spec, 0);
    return (await figure('wishmeter_pending_erasures')) === 0;
  });
  await until('the request is done', async () => (await openRedactions()) === 0);
  for (const customerId of ['1', '2', '3'])
    t.match(await read(customerId), { status: 200, json: { events: [] } });
  const answer = await client.query({
    query: 'SELECT count() AS n FROM events_stored',
    format: 'JSONEachRow',
  });
  t.same(await answer.json(), [{ n: '0' }]);
});
