// Redis, ClickHouse and a flusher between them. A file shares the servers; each test has a key prefix and an empty database.

import type { ClickHouseClient } from '@clickhouse/client';
import { pino } from 'pino';
import { listDeadLetters } from '../../src/flush/dead-letters.js';
import { type FlusherSpec, startFlusher } from '../../src/flush/flusher.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { SHARED, startDatabases } from '../clickhouse/databases.js';
import type { ProcessSpec } from '../faults/flusher-process.js';
import { select } from '../harness/clickhouse.js';
import type { Scope, TestRedis } from '../harness/redis.js';
import { appendEvents, type EventRow, nameStreams, pendingOf, until } from './fixtures.js';

export type Pipeline = ReturnType<typeof pipelineOf>;

/** @param own databases for `freshDatabase` */
export async function openPipelines(t: Scope, server: TestRedis, own = 0) {
  const databases = await startDatabases(t, own);
  const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
  t.teardown(() => redis.disconnect());
  let opened = 0;
  const open = async ({ database, own }: ReturnType<typeof databases.migrated>, streams: number) => {
    const prefix = `case${++opened}`;
    await nameStreams(redis, createKeys(prefix), streams);
    const processSpec = { redisUrls: server.urls, prefix, streams, clickhouseUrl: databases.url, database };
    return pipelineOf(redis, own, processSpec);
  };
  return {
    redis,
    redisUrls: server.urls,
    clickhouseUrl: databases.url,
    async fresh(streams = 1) {
      await databases.emptied();
      return await open({ database: SHARED, own: databases.own }, streams);
    },
    /** With a database of its own, for tests that change its tables or look at its mutations. */
    freshDatabase: () => open(databases.migrated(t), 1),
  };
}

function pipelineOf(
  redis: RedisClient,
  clickhouse: ClickHouseClient,
  processSpec: Pick<ProcessSpec, 'redisUrls' | 'prefix' | 'streams' | 'clickhouseUrl' | 'database'>,
) {
  const { prefix, streams, database } = processSpec;
  const keys = createKeys(prefix);
  const ask = <T>(query: string) => select<T>(clickhouse, query);
  const flusher = (changes: Partial<FlusherSpec> = {}) =>
    startFlusher({
      redis,
      keys,
      clickhouse,
      intervalMs: 20,
      backoff: { firstMs: 10, longestMs: 100 },
      log: pino({ level: 'silent' }),
      ...changes,
    });
  const drained = async () => {
    for (let stream = 0; stream < streams; stream++)
      for (const kind of [keys, keys.visits])
        await until('nothing waits', async () => {
          const { events, bytes } = await pendingOf(redis, kind, stream);
          return events === 0 && bytes === 0;
        });
  };
  return {
    prefix,
    keys,
    streams,
    database,
    clickhouse,
    processSpec,
    ask,
    flusher,
    drained,
    async flush(changes?: Partial<FlusherSpec>) {
      const flushing = flusher(changes);
      await drained();
      await flushing.close();
    },
    append: (rows: readonly EventRow[], perEntry?: number) => appendEvents(redis, keys, 0, rows, perEntry),
    /** Visits as lua/visits/countVisits.lua appends them. */
    async appendVisits(lines: readonly string[], id = '*', at = Number.parseInt(id, 10) || Date.now()) {
      const [events, state] = [keys.visits.events(0), keys.visits.eventsState(0)];
      await redis.xadd(events, id, 'n', lines.length, 't', String(at), 'v', lines.join(''));
      await redis.hincrby(state, 'events', lines.length);
      await redis.hincrby(state, 'bytes', Buffer.byteLength(lines.join('')));
    },
    letters: () => listDeadLetters(redis, keys, 0),
    async counts() {
      const [counts] = await ask<{ stored: number; shown: number; ids: number }>(
        `SELECT toUInt32((SELECT count() FROM events_stored)) AS stored,
          toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids FROM events`,
      );
      if (counts === undefined) throw new Error('no counts');
      return counts;
    },
  };
}
