// Redis and ClickHouse with a flusher between them. The servers are shared by a file; each test takes a pipeline with a
// key prefix of its own and an empty database.

import type { ClickHouseClient } from '@clickhouse/client';
import { pino } from 'pino';
import { type Flusher, type FlusherSpec, startFlusher } from '../../src/flush/flusher.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys, type Keys } from '../../src/redis/keys.js';
import { startDatabases } from '../clickhouse/databases.js';
import type { ProcessSpec } from '../faults/flusher-process.js';
import type { Scope, TestRedis } from '../harness/redis.js';
import { nameStreams, pendingOf, until } from './fixtures.js';

export interface Pipelines {
  readonly redis: RedisClient;
  readonly redisUrls: readonly string[];
  readonly clickhouseUrl: string;
  /** Empties the database that the test before it used. */
  fresh(streams?: number): Promise<Pipeline>;
  /** With a database of its own, for tests that change its tables or look at its mutations. */
  freshDatabase(): Promise<Pipeline>;
}

/** What one test uses. */
export interface Pipeline {
  readonly prefix: string;
  readonly keys: Keys;
  readonly streams: number;
  readonly database: string;
  readonly clickhouse: ClickHouseClient;
  /** Where a process finds it all. */
  readonly processSpec: Pick<ProcessSpec, 'redisUrls' | 'prefix' | 'streams' | 'clickhouseUrl' | 'database'>;
  flusher(changes?: Partial<FlusherSpec>): Flusher;
  /** Rows that are stored, rows that analysts see, and different ids among those. */
  counts(): Promise<{ stored: number; shown: number; ids: number }>;
  ask<T>(query: string): Promise<T[]>;
  /** Resolves when nothing waits in Redis. */
  drained(): Promise<void>;
}

/** @param own databases for `freshDatabase` */
export async function openPipelines(t: Scope, server: TestRedis, own = 0): Promise<Pipelines> {
  const databases = await startDatabases(t, own);
  const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
  t.teardown(() => redis.disconnect());
  let opened = 0;
  const open = async ({ database, own }: Awaited<ReturnType<typeof databases.emptied>>, streams: number) => {
    const prefix = `case${++opened}`;
    await nameStreams(redis, createKeys(prefix), streams);
    const processSpec = { redisUrls: server.urls, prefix, streams, clickhouseUrl: databases.url, database };
    return pipelineOf(redis, own, processSpec);
  };
  return {
    redis,
    redisUrls: server.urls,
    clickhouseUrl: databases.url,
    fresh: async (streams = 1) => open(await databases.emptied(t), streams),
    freshDatabase: async () => open(await databases.migrated(t), 1),
  };
}

function pipelineOf(
  redis: RedisClient,
  clickhouse: ClickHouseClient,
  processSpec: Pipeline['processSpec'],
): Pipeline {
  const { prefix, streams, database } = processSpec;
  const keys = createKeys(prefix);
  const ask = async <T>(query: string): Promise<T[]> =>
    await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<T>();
  return {
    prefix,
    keys,
    streams,
    database,
    clickhouse,
    processSpec,
    ask,
    flusher: (changes = {}) =>
      startFlusher({
        redis,
        keys,
        clickhouse,
        intervalMs: 20,
        backoff: { firstMs: 10, longestMs: 100 },
        log: pino({ level: 'silent' }),
        ...changes,
      }),
    async counts() {
      const [counts] = await ask<{ stored: number; shown: number; ids: number }>(
        `SELECT toUInt32((SELECT count() FROM events_stored)) AS stored,
          toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids FROM events`,
      );
      if (counts === undefined) throw new Error('no counts');
      return counts;
    },
    async drained() {
      await until('nothing waits', async () => {
        for (let stream = 0; stream < streams; stream++) {
          const { events, bytes } = await pendingOf(redis, keys, stream);
          if (events !== 0 || bytes !== 0) return false;
        }
        return true;
      });
    },
  };
}
