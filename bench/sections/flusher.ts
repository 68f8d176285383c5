// The flusher's throughput: a full stream flushed into ClickHouse, beside direct inserts of the same blocks. Also the
// bytes of a pending event in Redis and of a stored one on disk.

import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import type { Redis } from 'ioredis';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { INSERT_BYTES, INSERT_ROWS, insertEvents } from '../../src/clickhouse/insert.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { type EmbeddedClickHouse, startClickHouse } from '../../src/embedded/clickhouse/start.js';
import type { EmbeddedRedis } from '../../src/embedded/redis.js';
import { collectBatch } from '../../src/flush/reader.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { type CpuByPart, cpuBetween, cpuOf } from '../cpu.js';
import { fillEvents } from '../load/fill.js';
import { pendingEvents } from '../proofs/events.js';
import { same } from '../proofs/proof.js';
import { columnsOf, type Disk, diskOf, rowsOf, untilMerged } from '../servers/clickhouse.js';
import { connectTo, settledMemory, startBenchRedis, untilWritten } from '../servers/redis.js';
import { pidsOf } from '../servers/target.js';
import { startCommand, wishmeterEnv } from '../servers/wishmeter.js';
import { median } from '../statistics.js';
import { firstEvents } from '../traffic/events.js';

const CROWD = { visitors: 100_000, signedIn: 0.2 };
const SEED = 7;
const ROUNDS = 3;
const POLL_MS = 5;

const keys = createKeys('wm');
const SAVED = { events: `${keys.events(0)}:saved`, state: `${keys.eventsState(0)}:saved` };

export interface FlusherCeiling {
  readonly rows: number;
  readonly bytesPerEvent: number;
  /** Events in one entry of the stream. */
  readonly eventsPerEntry: number;
  /** Bytes of Redis beyond the line itself. */
  readonly redisBytesBeyondLine: number;
  /** Rows per second, medians. */
  readonly flushed: number;
  readonly direct: number;
  /** Seconds of CPU that the flusher's round took. */
  readonly cpu: CpuByPart;
  /** As ClickHouse left the parts itself a moment later, and as one part per month after OPTIMIZE … FINAL. */
  readonly disk: Disk;
  readonly diskMerged: Disk;
  /** Bytes per row of each column, merged. */
  readonly columns: Readonly<Record<string, number>>;
}

interface World {
  readonly redis: EmbeddedRedis;
  readonly client: Redis;
  readonly clickhouse: EmbeddedClickHouse;
  readonly admin: ClickHouseClient;
  readonly rows: number;
}

export async function measureFlusher(bench: Bench): Promise<FlusherCeiling> {
  const dir = bench.folder();
  const redis = await startBenchRedis(join(dir, 'redis'));
  const clickhouse = await startClickHouse({ dir: join(dir, 'clickhouse'), restart: false });
  const client = connectTo(redis);
  const admin = createClickHouse(clickhouse.url);
  const rows = bench.settings.events;
  try {
    return await measure(bench, { redis, client, clickhouse, admin, rows });
  } finally {
    await admin.close();
    client.disconnect();
    await clickhouse.stop();
    await redis.stop();
  }
}

async function measure({ settings, say }: Bench, world: World): Promise<FlusherCeiling> {
  const { redis, client, admin, rows } = world;
  say(`${rows} events fill the stream`);
  const empty = await settledMemory(client);
  await fillEvents(redis.url, firstEvents(rows, SEED, CROWD), rows);
  const full = await settledMemory(client);
  const bytes = Number(await client.hget(keys.eventsState(0), 'bytes'));
  const entries = await client.xlen(keys.events(0));
  await copy(client, [keys.events(0), SAVED.events], [keys.eventsState(0), SAVED.state]);
  const blocks = await readBlocks(client);

  const flushed: { seconds: number; cpu: CpuByPart }[] = [];
  const direct: number[] = [];
  for (let round = 0; round < (settings.quick ? 1 : ROUNDS); round++) {
    await untilWritten(client);
    await untilMerged(admin);
    flushed.push(await flush(world, `flushed${round}`));
    await untilMerged(admin);
    direct.push(await insert(world, `direct${round}`, blocks));
    await copy(client, [SAVED.events, keys.events(0)], [SAVED.state, keys.eventsState(0)]);
    const rate = (seconds = 1) => Math.round(rows / seconds);
    say(`flushed ${rate(flushed.at(-1)?.seconds)} rows/s, inserted directly ${rate(direct.at(-1))} rows/s`);
  }
  await untilMerged(admin);
  const disk = await diskOf(admin, 'flushed0');
  await admin.command({ query: 'OPTIMIZE TABLE flushed0.events_stored FINAL' });
  return {
    rows,
    bytesPerEvent: bytes / rows,
    eventsPerEntry: rows / entries,
    redisBytesBeyondLine: (full - empty - bytes) / rows,
    flushed: rows / median(flushed.map(({ seconds }) => seconds)),
    direct: rows / median(direct),
    cpu: flushed[0]?.cpu ?? {},
    disk,
    diskMerged: await diskOf(admin, 'flushed0'),
    columns: await columnsOf(admin, 'flushed0'),
  };
}

/** Migrates the database, then measures the seconds from the flusher's start until the stream is empty. */
async function flush(world: World, database: string): Promise<{ seconds: number; cpu: CpuByPart }> {
  const { redis, client, clickhouse, admin } = world;
  await migrate(admin, database);
  const env = { ...wishmeterEnv(redis, clickhouse.url), CLICKHOUSE_DATABASE: database };
  const pids = { redis: pidsOf(redis), clickhouse: pidsOf(clickhouse) };
  const before = cpuOf({ pids });
  const flusher = await startCommand('flush', env);
  try {
    const began = performance.now();
    while ((await pendingEvents({ redis: client })) > 0) await pause();
    const seconds = (performance.now() - began) / 1_000;
    const cpu = cpuBetween(before, cpuOf({ pids: { ...pids, flusher: pidsOf(flusher) } }));
    await arrived(world, database);
    return { seconds, cpu };
  } finally {
    await flusher.stop();
  }
}

/** Seconds that the same blocks take, one after the other, without a stream or a flusher. */
async function insert(world: World, database: string, blocks: readonly Buffer[]): Promise<number> {
  await migrate(world.admin, database);
  const client = createClickHouse(world.clickhouse.url, database);
  try {
    const began = performance.now();
    for (const block of blocks) await insertEvents(client, block, AbortSignal.timeout(60_000));
    const seconds = (performance.now() - began) / 1_000;
    await arrived(world, database);
    return seconds;
  } finally {
    await client.close();
  }
}

/** @throws where an event is missing or there twice */
async function arrived({ admin, rows }: World, database: string): Promise<void> {
  const [row] = await rowsOf<{ events: number; ids: number }>(
    admin,
    `SELECT toUInt32(count()) AS events, toUInt32(uniqExact(event_id)) AS ids FROM ${database}.events_stored`,
  );
  same(`ids in ${database}`, row?.ids, rows);
  same(`rows in ${database}`, row?.events, rows);
}

async function readBlocks(client: Redis): Promise<Buffer[]> {
  const blocks: Buffer[] = [];
  const source = { stream: keys.events(0) };
  const bounds = { rows: INSERT_ROWS, bytes: INSERT_BYTES };
  let from = '-';
  const page = async (count: number) => {
    const entries = await client.xrangeBuffer(source.stream, from, '+', 'COUNT', count);
    from = `(${entries.at(-1)?.[0] ?? ''}`;
    return entries;
  };
  for (;;) {
    const batch = await collectBatch(page, source, bounds);
    if (batch === undefined) return blocks;
    blocks.push(batch.lines);
  }
}

async function copy(
  client: Redis,
  ...pairs: readonly (readonly [from: string, to: string])[]
): Promise<void> {
  for (const [from, to] of pairs) await client.copy(from, to, 'REPLACE');
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
