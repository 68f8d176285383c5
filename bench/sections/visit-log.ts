// The log of visits: what one takes while it waits in Redis, how many a flusher brings to ClickHouse in a second and at
// what CPU, and what it takes there. What logging costs a visit is two cases of the group `visits`.

import { join } from 'node:path';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { startClickHouse } from '../../src/embedded/clickhouse/start.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { type CpuByPart, cpuBetween, cpuOf } from '../cpu.js';
import { sendVisits } from '../load/fill.js';
import { same } from '../proofs/proof.js';
import { type Disk, diskOf, rowsOf, untilMerged } from '../servers/clickhouse.js';
import { connectTo, startBenchRedis, untilWritten } from '../servers/redis.js';
import { pidsOf } from '../servers/target.js';
import { startCommand, startWishmeter, wishmeterEnv } from '../servers/wishmeter.js';
import { median } from '../statistics.js';
import { drawn, visitsOf } from '../traffic/requests.js';

/** Visitors of a hundred visits; they come at random, as those of a busy hour do. */
const VISITORS_SHARE = 0.23;
const ROUNDS = 3;
const POLL_MS = 5;

const keys = createKeys('wm').visits;
const STREAM = [keys.events(0), keys.eventsState(0)] as const;

export interface VisitLog {
  readonly visits: number;
  readonly visitsPerEntry: number;
  /** Bytes of Redis of a visit that waits: its line, and its share of the entry and of the stream. */
  readonly waitingBytes: number;
  /** Visits per second, median. */
  readonly flushed: number;
  /** Seconds of CPU of the median round. */
  readonly cpu: CpuByPart;
  /** As one part per month. */
  readonly diskMerged: Disk;
}

export async function measureVisitLog({ settings, folder, say }: Bench): Promise<VisitLog> {
  const dir = folder();
  const visits = settings.events;
  const redis = await startBenchRedis(join(dir, 'redis'));
  const serve = await startWishmeter({ server: 'wishmeter', dir }, [redis], async () => {});
  const clickhouse = await startClickHouse({ dir: join(dir, 'clickhouse'), restart: false });
  const admin = createClickHouse(clickhouse.url);
  const client = connectTo(redis);
  try {
    say(`${visits} visits fill the log`);
    await sendVisits(serve.port, visitsOf(drawn(visits, Math.ceil(visits * VISITORS_SHARE))));
    const waiting = Number(await client.memory('USAGE', STREAM[0], 'SAMPLES', 0));
    const entries = await client.xlen(STREAM[0]);
    for (const key of STREAM) await client.copy(key, `${key}:saved`, 'REPLACE');

    const rounds: { seconds: number; cpu: CpuByPart }[] = [];
    for (let round = 0; round < (settings.quick ? 1 : ROUNDS); round++) {
      const database = `log${round}`;
      await migrate(admin, database);
      for (const key of STREAM) await client.copy(`${key}:saved`, key, 'REPLACE');
      await untilWritten(client);
      await untilMerged(admin);
      const pids = { redis: pidsOf(redis), clickhouse: pidsOf(clickhouse) };
      const env = { ...wishmeterEnv(redis, clickhouse.url), CLICKHOUSE_DATABASE: database };
      const flusher = await startCommand('flush', env);
      // Without what it takes to start: in production that is once.
      const all = { ...pids, flusher: pidsOf(flusher) };
      const before = cpuOf({ pids: all });
      const began = performance.now();
      while (Number((await client.hget(STREAM[1], 'events')) ?? 0) > 0)
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      const seconds = (performance.now() - began) / 1_000;
      rounds.push({
        seconds,
        cpu: cpuBetween(before, cpuOf({ pids: all })),
      });
      await flusher.stop();
      const query = `SELECT toUInt32(count()) AS visits FROM ${database}.visits`;
      same(`visits in ${database}`, (await rowsOf<{ visits: number }>(admin, query))[0]?.visits, visits);
      say(`flushed ${Math.round(visits / seconds)} visits/s`);
    }
    await admin.command({ query: 'OPTIMIZE TABLE log0.visits_stored FINAL' });
    const seconds = median(rounds.map((round) => round.seconds));
    return {
      visits,
      visitsPerEntry: visits / entries,
      waitingBytes: waiting / visits,
      flushed: visits / seconds,
      cpu: rounds.find((round) => round.seconds === seconds)?.cpu ?? {},
      diskMerged: await diskOf(admin, 'log0', 'visits_stored'),
    };
  } finally {
    client.disconnect();
    await admin.close();
    await clickhouse.stop();
    await serve.stop();
  }
}
