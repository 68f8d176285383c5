// A flusher that stands still with a batch in its hands, for longer than anybody waits, and goes on when another
// has long taken over and ClickHouse has forgotten the batch's token: it is fenced, and nothing is there twice.

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

t.test('a flusher paused for long', { timeout: 600_000 }, async (t) => {
  const forget = 'ALTER TABLE events_stored MODIFY SETTING non_replicated_deduplication_window = 1';
  await clickhouse.command({ query: forget });
  const load = service.load({ seed: 7 });
  await load.untilServed();
  for (let round = 0; round < (FULL ? 3 : 1); round++) {
    const held = await until('it is stopped with a batch in its hands', async () => {
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
    // Batches enough for the window, a time-out or two where there is time.
    await sleep(FULL ? 70_000 : 1_500);
    t.not(await redis.hget(state, 'manifest'), held, 'the newer one is past that batch');
    signal(service.flush, 'SIGCONT');
    await sleep(1_000);
    t.equal(Number(await redis.hget(state, 'epoch')), epoch, 'the older one has not come back to it');
    await newer.stop();
    await until('the older one has it again', async () => (await redis.hget(state, 'owner')) === 'service');
  }
  await load.stop();
  t.same(Object.keys(load.answers), ['200'], String(load));
  const told = service.logs().filter((line) => /taken the shard over|newer owner/.test(line));
  t.ok(told.length > 0, 'it was fenced, and says so');
  await service.exact(t, load);
});
