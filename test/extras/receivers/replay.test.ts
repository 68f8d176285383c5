// `receivers replay`: queues each of ClickHouse's events since a time once, in pages, and no more than there is room for.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Receivers } from '../../../src/extras/receivers/receivers.js';
import { replay } from '../../../src/extras/receivers/replay.js';
import { appendEvents, eventRow } from '../../flush/fixtures.js';
import { openPipelines } from '../../flush/pipelines.js';
import { startTestRedis } from '../../harness/redis.js';
import { openDeliveries, startTool } from './fixtures.js';

const server = await startTestRedis(t);
const pipelines = await openPipelines(t, server);
const NOW = Date.now();
const at = (ago: number) => new Date(NOW - ago).toISOString();

/** 25 events of one receiver's types in ClickHouse, several in each millisecond, of which none waits. */
async function open(t: Test) {
  const pipeline = await pipelines.fresh();
  const deliveries = await openDeliveries(t, server, pipeline.prefix);
  const given = Array.from({ length: 25 }, (_, i) =>
    eventRow({ occurred_at: at(1_000 - Math.floor(i / 4)), profile_id: `7.p${i}`, payload: '{}' }),
  );
  const others = [eventRow({ occurred_at: at(60_000) }), eventRow({ type: 'share', occurred_at: at(1_000) })];
  await appendEvents(pipelines.redis, pipeline.keys, 0, [...others, ...given]);
  const flusher = pipeline.flusher();
  await pipeline.drained();
  await flusher.close();
  const { id } = await deliveries.receiver(await startTool(t), { types: ['add'] });
  const { store } = deliveries;
  const again = (receivers = deliveries.receivers) =>
    replay({ clickhouse: pipeline.clickhouse, store, receivers, id, since: NOW - 1_000, page: 10 });
  const queued = async () =>
    (await store.client.xrange(store.keys.deliveries(id).queue, '-', '+')).map(
      ([, [, line = '']]) => JSON.parse(line).event_id as string,
    );
  return { ...deliveries, given, id, again, queued };
}

t.test('each event since then is queued once, in its order, over pages, but no erased one', async (t) => {
  const { store, given, again, queued } = await open(t);
  await store.client.hset(store.keys.erasures, '7.p12', `${NOW} ${NOW}`);
  t.equal(await again(), 24);
  const expected = given.filter(({ profile_id }) => profile_id !== '7.p12');
  const timeOf = new Map(expected.map(({ event_id, occurred_at }) => [event_id, occurred_at]));
  const ids = await queued();
  t.same([...ids].sort(), [...timeOf.keys()].sort());
  const times = ids.map((id) => timeOf.get(id));
  t.same(times, [...times].sort());
});

t.test('it ends where its receiver is paused or removed while it waits for room', async (t) => {
  const { store, receivers, id, again } = await open(t);
  const small = new Receivers(store, { RECEIVERS_PRIVATE: 'allow', RECEIVERS_HIGH_WATER: 1_000 });
  const pausing = again(small);
  const paused = sleep(300).then(() => receivers.change(id, { isEnabled: false }));
  await t.rejects(pausing, { message: /is disabled/ });
  await paused;
  await receivers.change(id, { isEnabled: true });
  const removing = again(small);
  const removed = sleep(300).then(() => receivers.remove(id));
  await t.rejects(removing, { message: /no receiver of this id/ });
  await removed;
  t.equal(await store.client.exists(...Object.values(store.keys.deliveries(id))), 0);
});
