// An erased visitor's deliveries leave Redis before the erasure is forgotten, and nothing of the visitor is left there.

import { pino } from 'pino';
import t from 'tap';
import { eraseWaiting } from '../../src/flush/row-eraser.js';
import { openPipelines } from '../flush/pipelines.js';
import { startApp } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { openDeliveries, startTool } from './fixtures.js';

t.test('what waits for a receiver goes with its visitor, from the queue and from dead letters', async (t) => {
  const server = await startTestRedis(t);
  const pipelines = await openPipelines(t, server);
  const pipeline = await pipelines.fresh();
  const app = await startApp(t, server, { prefix: pipeline.prefix });
  const deliveries = await openDeliveries(t, server, pipeline.prefix);
  const tool = await startTool(t);
  tool.answer = (res) => void res.writeHead(500).end();
  const { id } = await deliveries.receiver(tool);
  const flusher = pipeline.flusher({ handOver: deliveries.handOver.handOver });
  const [gone, stays] = [{ sessionId: 's-gone-visitor' }, { sessionId: 's-stays' }];
  await app.shop.event(gone);
  await app.shop.event(stays);
  await pipeline.drained();
  const deliverer = deliveries.deliverer({ retriesMs: [] });
  const { client, keys } = deliveries.store;
  const { dead, queue } = keys.deliveries(0, id);
  await until('both are dead letters', async () => (await client.xlen(dead)) === 2);
  await deliverer.close();
  await app.shop.event(gone);
  await app.shop.event(stays);
  await pipeline.drained();
  await flusher.close();
  t.equal(await client.xlen(queue), 2);

  await app.shop.erase(gone);
  const spec = { redis: client, keys, clickhouse: pipeline.clickhouse, log: pino({ level: 'silent' }) };
  await eraseWaiting({ ...spec, eraseDeliveries: deliveries.handOver.erase }, 0);
  t.equal(await client.hlen(keys.erasures), 0, 'the erasure is done');
  t.equal(await client.xlen(queue), 1);
  t.equal(await client.xlen(dead), 1);
  t.notMatch(JSON.stringify(await dumpRedis(server, pipeline.prefix)), /s-gone-visitor/);
});
