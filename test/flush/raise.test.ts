// EVENT_SHARDS is raised while two `serve` and two `flush` run and visitors go on: each event arrives once, and ClickHouse
// never has a later event of a visitor without the earlier ones.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { EventShards } from '../../src/redis/event-shards.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestCluster } from '../harness/redis.js';
import { until } from './fixtures.js';
import { openPipelines } from './pipelines.js';

const VISITORS = 8;
const BEFORE = 10;
const AFTER = 10;
/** Each process asks once a second; one that learns of a raise too late would spoil the order. */
const LEAD_MS = 3_000;
const REST_MS = 20;

t.test('EVENT_SHARDS raised on a cluster', async (t) => {
  const server = await startTestCluster();
  const pipelines = await openPipelines(server);
  t.teardown(() => pipelines.close());
  const { redis } = pipelines;
  const pipeline = await pipelines.fresh(5);
  const apps = [
    await startApp(t, server, { prefix: pipeline.prefix }),
    await startApp(t, server, { prefix: pipeline.prefix }),
  ];
  const open = async () => {
    const shards = await EventShards.open(redis, pipeline.keys);
    t.teardown(shards.watch());
    return shards;
  };
  const raising = await open();
  t.equal(raising.current, 1);
  const flushers = [
    pipeline.flusher({ owner: 'a', shards: await open() }),
    pipeline.flusher({ owner: 'b', shards: await open() }),
  ];
  t.teardown(() => Promise.all(flushers.map((flusher) => flusher.close(0))));

  let isOver = false;
  const gaps: string[] = [];
  let looks = 0;
  const watching = (async () => {
    while (!isOver) {
      const answer = await pipeline.clickhouse.query({
        query: `SELECT session_id, toUInt32(count()) AS seen, toUInt32(max(quantity)) AS last
          FROM events GROUP BY session_id`,
        format: 'JSONEachRow',
      });
      for (const { session_id, seen, last } of await answer.json<{
        session_id: string;
        seen: number;
        last: number;
      }>())
        if (seen !== last) gaps.push(`${session_id}: event ${last} is there, and ${seen} in all`);
      looks++;
      await sleep(REST_MS);
    }
  })();

  // One after the other, by turns through both processes: what is answered has happened before the next.
  const send = async (sessionId: string, quantity: number) => {
    const body = { identity: { sessionId }, type: 'add', payload: { quantity } };
    await until(`event ${quantity} of ${sessionId}`, async () => {
      const app = apps[quantity % 2];
      // What is refused when this machine is busy is sent again, and is the same event.
      const headers = { ...TRUSTED, 'idempotency-key': `${sessionId} ${quantity}` };
      return (await app?.post('/event', body, headers))?.status === 200;
    });
  };
  const sendAll = (from: number, to: () => boolean | number) =>
    Promise.all(
      Array.from({ length: VISITORS }, async (_, i) => {
        let n = from;
        for (; to() === true || n <= Number(to()); n++) {
          await send(`v${i}`, n);
          await sleep(REST_MS);
        }
        return n - 1;
      }),
    );
  await sendAll(1, () => BEFORE);
  await raising.raise(5, LEAD_MS);
  // Until the new shards are used, however long that takes here.
  let goOn = true;
  const used = until('new shards are used', async () => {
    const states = await Promise.all(
      [1, 2, 3, 4].map((shard) => redis.exists(pipeline.keys.eventsState(shard))),
    );
    return raising.current === 5 && states.some((there) => there === 1);
  }).finally(() => {
    goOn = false;
  });
  const last = await sendAll(BEFORE + 1, () => (goOn ? true : BEFORE + AFTER));
  await used;
  await pipeline.drained();
  isOver = true;
  await watching;
  const sent = last.reduce((sum, n) => sum + n, 0);
  t.match(await pipeline.counts(), { shown: sent, ids: sent });
  t.same(gaps.slice(0, 5), [], `${looks} looks`);
  await Promise.all(flushers.map((flusher) => flusher.close()));
});
