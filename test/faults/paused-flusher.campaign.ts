// A flusher that stands still with a batch in flight, and goes on when another one has taken over and ClickHouse has
// forgotten the batch's token: it is fenced off, and nothing is stored or shown twice. FAULTS=full: three times, for 70 s.
// (flusher.test.ts has the short form.)

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { until } from '../cli/wishmeter.js';
import { connectTo } from '../harness/dump.js';
import { FULL, MOST_PATIENT_MS, openService, programPart, signal } from './service.js';

const service = await openService({ env: { REDIS_TIMEOUT_MS: MOST_PATIENT_MS } });
t.teardown(() => service.stop());
const redis = connectTo(service.redisUrl);
const clickhouse = createClickHouse(service.clickhouseUrl, 'wishmeter');
t.teardown(() => Promise.all([clickhouse.close(), redis.disconnect()]));
const state = createKeys('wm').eventsState(0);
const newer = programPart('newer flush', 'flush', {
  REDIS_URL: service.redisUrl,
  CLICKHOUSE_URL: service.clickhouseUrl,
  FLUSH_OWNER: 'newer',
  FLUSH_INTERVAL_MS: '50',
});
t.teardown(() => newer.stop());

t.test('a flusher that is paused for long is fenced off', { timeout: 600_000 }, async (t) => {
  const forget = 'ALTER TABLE events_stored MODIFY SETTING non_replicated_deduplication_window = 1';
  await clickhouse.command({ query: forget });
  const load = service.load({ seed: 7 });
  await load.untilServed();
  for (let round = 0; round < (FULL ? 3 : 1); round++) {
    const fenced = () => service.logs().filter((line) => line.includes('taken the shard over')).length;
    const before = fenced();
    const held = await until('it is stopped with a batch in flight', async () => {
      if ((await redis.hget(state, 'manifest')) === null) return undefined;
      signal(service.flush, 'SIGSTOP');
      const manifest = await redis.hget(state, 'manifest');
      if (manifest !== null) return manifest;
      signal(service.flush, 'SIGCONT');
      return undefined;
    });
    await newer.start();
    await until('the newer one owns the shard', async () => (await redis.hget(state, 'owner')) === 'newer');
    const epoch = Number(await redis.hget(state, 'epoch'));
    const batches = new Set([held]);
    await until('the newer one is past that batch', async () => {
      batches.add((await redis.hget(state, 'manifest')) ?? held);
      return batches.size > 3;
    });
    if (FULL) await sleep(70_000);
    signal(service.flush, 'SIGCONT');
    await until('the older one is fenced off, and says so', () => fenced() > before);
    t.equal(Number(await redis.hget(state, 'epoch')), epoch, 'it has not taken the shard back');
    await newer.stop();
    await until('the older one has it again', async () => (await redis.hget(state, 'owner')) === 'flusher');
  }
  await load.stop();
  await service.exact(t, load);
});
