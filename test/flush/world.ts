// A Redis, a ClickHouse and what is between them, for the tests of the whole pipeline.

import type { ClickHouseClient } from '@clickhouse/client';
import { pino } from 'pino';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { type Flusher, type FlusherSpec, startFlusher } from '../../src/flush/flusher.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys, type Keys } from '../../src/redis/keys.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import type { TestRedis } from '../harness/redis.js';
import { fixedShards, pendingOf, until } from './fixtures.js';

export interface World {
  readonly redis: RedisClient;
  readonly redisUrls: readonly string[];
  readonly clickhouseUrl: string;
  /** A prefix and a database that no other case has. */
  fresh(shards?: number): Promise<Place>;
  close(): Promise<void>;
}

/** Where one case happens. */
export interface Place {
  readonly prefix: string;
  readonly keys: Keys;
  readonly shards: number;
  readonly database: string;
  readonly clickhouse: ClickHouseClient;
  flusher(changes?: Partial<FlusherSpec>): Flusher;
  /** Rows that are stored, rows that analysts see, and different ids among those. */
  counts(): Promise<{ stored: number; shown: number; ids: number }>;
  /** Resolves when nothing waits in Redis. */
  drained(): Promise<void>;
}

/** @param ready cases for which a database is migrated before ClickHouse starts; any further one migrates its own */
export async function openWorld(server: TestRedis, ready = 12): Promise<World> {
  const nameOf = (n: number) => `db${n}`;
  const databases = Array.from({ length: ready }, (_, i) => nameOf(i + 1));
  const clickhouse = await startTestClickHouse({ databases });
  const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
  const admin = createClickHouse(clickhouse.url);
  const clients: ClickHouseClient[] = [admin];
  let places = 0;
  return {
    redis,
    redisUrls: server.urls,
    clickhouseUrl: clickhouse.url,
    async fresh(shards = 1) {
      const name = nameOf(++places);
      if (places > ready) await migrate(admin, name);
      const client = createClickHouse(clickhouse.url, name);
      clients.push(client);
      // Of a deployment, without which flushers are none of a team.
      await redis.hset(createKeys(name).meta, 'of', 'a test');
      return place(redis, client, name, shards);
    },
    async close() {
      await Promise.all(clients.map((client) => client.close()));
      redis.disconnect();
      await clickhouse.stop();
      await server.stop();
    },
  };
}

function place(redis: RedisClient, clickhouse: ClickHouseClient, name: string, shards: number): Place {
  const keys = createKeys(name);
  return {
    prefix: name,
    keys,
    shards,
    database: name,
    clickhouse,
    flusher: (changes = {}) =>
      startFlusher({
        redis,
        keys,
        clickhouse,
        shards: fixedShards(shards),
        owner: 'test',
        intervalMs: 20,
        log: pino({ level: 'silent' }),
        ...changes,
      }),
    async counts() {
      const answer = await clickhouse.query({
        query: `SELECT toUInt32((SELECT count() FROM events_stored)) AS stored,
          toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids FROM events`,
        format: 'JSONEachRow',
      });
      const [counts] = await answer.json<{ stored: number; shown: number; ids: number }>();
      if (counts === undefined) throw new Error('no counts');
      return counts;
    },
    async drained() {
      await until('nothing waits', async () => {
        for (let shard = 0; shard < shards; shard++) {
          const { events, bytes } = await pendingOf(redis, keys, shard);
          if (events !== 0 || bytes !== 0 || (await redis.hexists(keys.eventsState(shard), 'manifest')))
            return false;
        }
        return true;
      });
    },
  };
}
