// The flusher's throughput: a full stream flushed into ClickHouse, next to direct inserts of the same blocks. Also the bytes
// of a pending event in Redis and of a stored one on disk.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { Redis } from 'ioredis';
import { createClickHouse, select } from '../../src/clickhouse/client.js';
import { INSERT_BYTES, INSERT_ROWS, insertEvents } from '../../src/clickhouse/insert.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { type EmbeddedClickHouse, startClickHouse } from '../../src/extras/embedded/clickhouse/start.js';
import type { EmbeddedRedis } from '../../src/extras/embedded/redis.js';
import { collectBatch } from '../../src/flush/reader.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { type CpuByPart, cpuBetween, cpuOf } from '../cpu.js';
import { replay } from '../load/wrk.js';
import { pendingEvents } from '../proofs/events.js';
import { same } from '../proofs/proof.js';
import { bytesPerRow, untilMerged } from '../servers/clickhouse.js';
import { settledMemory, startBenchRedis } from '../servers/redis.js';
import { pidsOf } from '../servers/target.js';
import { startCommand, wishmeterEnv } from '../servers/wishmeter.js';
import { median } from '../statistics.js';

const ROUNDS = 3;
const POLL_MS = 5;

const keys = createKeys('wm');
const STREAM = [keys.events(0), keys.eventsState(0)] as const;

export interface Flusher {
  readonly rows: number;
  /** Bytes of a pending event's line, and what it takes in Redis. */
  readonly lineBytes: number;
  readonly redisBytes: number;
  /** Rows per second, medians. */
  readonly flushed: number;
  readonly direct: number;
  /** Seconds of CPU of the first round. */
  readonly cpu: CpuByPart;
  /** Bytes on disk of a stored event, parts merged. */
  readonly diskBytes: number;
}

interface World {
  readonly redis: EmbeddedRedis;
  readonly client: Redis;
  readonly clickhouse: EmbeddedClickHouse;
  readonly admin: ClickHouseClient;
  readonly rows: number;
}

export async function measureFlusher(bench: Bench): Promise<Flusher> {
  const dir = bench.folder();
  const redis = await startBenchRedis(join(dir, 'redis'));
  const clickhouse = await startClickHouse({ dir: join(dir, 'clickhouse'), restart: false });
  const client = new Redis(redis.url);
  const admin = createClickHouse(clickhouse.url);
  try {
    return await measure(bench, { redis, client, clickhouse, admin, rows: bench.settings.events });
  } finally {
    await admin.close();
    client.disconnect();
    await clickhouse.stop();
    await redis.stop();
  }
}

async function measure(bench: Bench, world: World): Promise<Flusher> {
  const { client, admin, rows } = world;
  const pending = await fill(bench, world);
  for (const key of STREAM) await client.copy(key, `${key}:saved`, 'REPLACE');
  const blocks = await readBlocks(client);
  const flushed: { seconds: number; cpu: CpuByPart }[] = [];
  const direct: number[] = [];
  for (let round = 0; round < (bench.settings.quick ? 1 : ROUNDS); round++) {
    for (const key of STREAM) await client.copy(`${key}:saved`, key, 'REPLACE');
    flushed.push(await flush(world, `flushed${round}`));
    await untilMerged(admin);
    direct.push(await insert(world, `direct${round}`, blocks));
    await untilMerged(admin);
    const rate = (seconds = 1) => Math.round(rows / seconds);
    bench.say(`flushed ${rate(flushed.at(-1)?.seconds)} rows/s, inserted ${rate(direct.at(-1))} rows/s`);
  }
  await admin.command({ query: 'OPTIMIZE TABLE flushed0.events_stored FINAL' });
  return {
    ...{ ...pending, rows },
    flushed: rows / median(flushed.map(({ seconds }) => seconds)),
    direct: rows / median(direct),
    cpu: flushed[0]?.cpu ?? {},
    diskBytes: await bytesPerRow(admin, 'flushed0'),
  };
}

/** Sends the events over HTTP to a `serve` that has no flusher. */
async function fill(bench: Bench, world: World): Promise<Pick<Flusher, 'lineBytes' | 'redisBytes'>> {
  const { redis, client, rows } = world;
  // The pool's visitors are known before memory is measured: only what waits is counted.
  const pool = bench.pool('events');
  const serve = await startCommand('serve', { ...wishmeterEnv(redis.url), PORT: '0' });
  const { port } = serve.ready;
  try {
    await replay({ port, pool, requests: pool.size });
    const before = { events: await pendingEvents({ redis: client }), bytes: await pendingBytes(client) };
    const empty = await settledMemory(client);
    await replay({ port, pool, first: pool.size, requests: rows - before.events });
    const added = rows - before.events;
    same('events that wait', await pendingEvents({ redis: client }), rows);
    return {
      lineBytes: ((await pendingBytes(client)) - before.bytes) / added,
      redisBytes: ((await settledMemory(client)) - empty) / added,
    };
  } finally {
    await serve.stop();
  }
}

async function pendingBytes(client: Redis): Promise<number> {
  return Number(await client.hget(keys.eventsState(0), 'bytes'));
}

/** Measures the seconds from the flusher's start until the stream is empty. */
async function flush(world: World, database: string): Promise<{ seconds: number; cpu: CpuByPart }> {
  const { redis, client, clickhouse, admin } = world;
  await migrate(admin, database);
  const pids = { redis: pidsOf(redis), clickhouse: pidsOf(clickhouse) };
  const before = cpuOf({ pids });
  const env = { ...wishmeterEnv(redis.url, clickhouse.url), CLICKHOUSE_DATABASE: database };
  const flusher = await startCommand('flush', env);
  try {
    const began = performance.now();
    while ((await pendingEvents({ redis: client })) > 0) await sleep(POLL_MS);
    const seconds = (performance.now() - began) / 1_000;
    const cpu = cpuBetween(before, cpuOf({ pids: { ...pids, flusher: pidsOf(flusher) } }));
    await arrived(world, database);
    return { seconds, cpu };
  } finally {
    await flusher.stop();
  }
}

/** Measures the seconds of the same blocks, one after the other, without a stream or a flusher. */
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

/** @throws if an event is missing or there twice */
async function arrived({ admin, rows }: World, database: string): Promise<void> {
  const [row] = await select<{ events: number; ids: number }>(
    admin,
    `SELECT toUInt32(count()) AS events, toUInt32(uniqExact(event_id)) AS ids FROM ${database}.events_stored`,
  );
  same(`ids in ${database}`, row?.ids, rows);
  same(`rows in ${database}`, row?.events, rows);
}

async function readBlocks(client: Redis): Promise<Buffer[]> {
  const blocks: Buffer[] = [];
  let from = '-';
  const page = async (count: number) => {
    const entries = await client.xrangeBuffer(STREAM[0], from, '+', 'COUNT', count);
    from = `(${entries.at(-1)?.[0] ?? ''}`;
    return entries;
  };
  for (;;) {
    const batch = await collectBatch(page, undefined, { rows: INSERT_ROWS, bytes: INSERT_BYTES });
    if (batch === undefined) return blocks;
    blocks.push(batch.lines);
  }
}
