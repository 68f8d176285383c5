// ClickHouse frozen, away, and away for so long that the stream is full: events go on being accepted as long
// as there is room, then 503 with Retry-After, and whatever was acknowledged arrives.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { connectTo } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { FULL, MOST_PATIENT_MS, openService, signal } from './service.js';

const HIGH_WATER = 1_500_000;
const FROZEN_MS = FULL ? 30_000 : 4_000;
const AWAY_MS = FULL ? 180_000 : 6_000;

// Room for some thousand events: what the first two cases leave waiting, but not the third.
const service = await openService({
  env: { STREAM_HIGH_WATER: String(HIGH_WATER), REDIS_TIMEOUT_MS: MOST_PATIENT_MS },
});
t.teardown(() => service.stop());
const redis = connectTo(service.redisUrl);
t.teardown(() => redis.disconnect());
const loads: ReturnType<typeof service.load>[] = [];
const pending = async (what: 'events' | 'bytes') =>
  Number(await redis.hget(createKeys('wm').eventsState(0), what));

for (const { what, ms, leave, comeBack } of [
  {
    what: 'frozen',
    ms: FROZEN_MS,
    leave: async () => signal(service.clickhouse, 'SIGSTOP'),
    comeBack: async () => signal(service.clickhouse, 'SIGCONT'),
  },
  { what: 'away', ms: AWAY_MS, leave: service.clickhouse.stop, comeBack: service.clickhouse.start },
]) {
  t.test(
    `ClickHouse is ${what}: events go on being accepted, and arrive`,
    { timeout: 600_000 },
    async (t) => {
      const load = service.load({ seed: ms, name: what, connections: 8, restMs: FULL ? 200 : 20 });
      loads.push(load);
      await load.untilServed();
      await leave();
      await Promise.all([sleep(ms), load.untilServed(200)]);
      await until('events wait', async () => (await pending('events')) > 20);
      await comeBack();
      await load.stop();
      t.comment(String(load));
      await service.exact(t, ...loads);
    },
  );
}

t.test('the stream at its high-water mark: 503 for events, visits go on, nothing is trimmed', async (t) => {
  const load = service.load({ seed: 3, name: 'full', connections: 48, restMs: 0 });
  loads.push(load);
  await load.untilServed();
  signal(service.clickhouse, 'SIGSTOP');
  await load.untilRefused(200);
  const [bytes, acknowledged] = [
    await pending('bytes'),
    [...load.events.values()].filter((e) => e.acknowledged),
  ];
  t.ok(
    bytes > HIGH_WATER * 0.9 && bytes <= HIGH_WATER,
    `${bytes} bytes wait, ${acknowledged.length} events in all`,
  );
  const body = { identity: { sessionId: 'full' }, type: 'add' };
  const headers = { 'x-api-key': service.key, 'content-type': 'application/json' };
  // One that is small may still fit in.
  const payload = { productId: 'refused', text: 'x'.repeat(15_000) };
  const refused = await fetch(`${service.url}/event`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ ...body, payload }),
  });
  t.equal(refused.status, 503);
  t.match(refused.headers.get('retry-after'), /^[1-9]\d*$/);
  t.match(await refused.json(), { code: 'overloaded' });
  const visit = await fetch(`${service.url}/product/visit`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ ...body, productHandle: 'x' }),
  });
  t.equal(visit.status, 200, 'a visit');
  signal(service.clickhouse, 'SIGCONT');
  const served = [...load.events.values()].filter((e) => e.acknowledged).length;
  while ([...load.events.values()].filter((e) => e.acknowledged).length < served + 100) await sleep(20);
  await load.stop();
  t.comment(String(load));
  await service.exact(t, ...loads);
});
