// What is sent again: each event that ClickHouse has since then, once, in its order, page by page; nothing of a visitor who was
// erased; and it ends where the receiver is removed or paused.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Addresses } from '../../src/receivers/address.js';
import { Receivers } from '../../src/receivers/receivers.js';
import { replay } from '../../src/receivers/replay.js';
import { appendEvents, eventRow } from '../flush/fixtures.js';
import { openPipelines } from '../flush/pipelines.js';
import { startTestRedis } from '../harness/redis.js';
import { openDeliveries, startTool } from './fixtures.js';

const server = await startTestRedis(t);
const pipelines = await openPipelines(t, server);
const NOW = Date.now();
const at = (ago: number) => new Date(NOW - ago).toISOString();

/** 25 events of one receiver's types in ClickHouse, several in each millisecond, of which none waits. */
async function open(t: Parameters<typeof openDeliveries>[0]) {
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
    replay(pipeline.clickhouse, store, receivers, id, NOW - 1_000, 10);
  const queued = async () =>
    (await store.client.xrange(store.keys.deliveries(0, id).queue, '-', '+')).map(
      ([, [, line = '']]) => JSON.parse(line).event_id as string,
    );
  return { ...deliveries, given, id, again, queued };
}

t.test('each event since then is queued once, in its order, over pages', async (t) => {
  const { given, again, queued } = await open(t);
  t.equal(await again(), 25);
  const timeOf = new Map(given.map(({ event_id, occurred_at }) => [event_id, occurred_at]));
  const ids = await queued();
  t.same([...ids].sort(), [...timeOf.keys()].sort());
  const times = ids.map((id) => timeOf.get(id));
  t.same(times, [...times].sort());
});

t.test('what was erased, and ClickHouse still has, is left out', async (t) => {
  const { store, given, again, queued } = await open(t);
  await store.client.hset(store.keys.erasures, '7.p12', `${NOW} ${NOW}`);
  t.equal(await again(), 24);
  t.notOk((await queued()).includes(given[12]?.event_id ?? ''));
});

for (const [what, end, message] of [
  ['removed', (all, id) => all.remove(id), /no receiver of this id/],
  ['paused', (all, id) => all.change(id, { isEnabled: false }), /is disabled/],
] satisfies readonly [string, (all: Receivers, id: string) => Promise<unknown>, RegExp][])
  t.test(`it ends where its receiver is ${what} while it waits for room`, async (t) => {
    const { store, receivers, id, again } = await open(t);
    const replaying = again(new Receivers(store, new Addresses(true), 1_000));
    const { queue, state } = store.keys.deliveries(0, id);
    const ended = sleep(300).then(async () => void (await end(receivers, id)));
    await t.rejects(replaying, { message });
    await ended;
    if (what === 'removed') t.equal(await store.client.exists(queue, state), 0);
  });
