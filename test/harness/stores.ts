// A Redis and a ClickHouse for processes of the service, and the settings that lead `serve` and `flush` to them.

import type { Test } from 'tap';
import { startTestClickHouse } from './clickhouse.js';
import { startTestRedis } from './redis.js';

/** `env` has a free port, and waits for nothing when it stops. Without `databases` the first `flush` or `migrate` migrates. */
export async function startStores(t: Test, databases: readonly string[] = []) {
  const [redis, clickhouse] = await Promise.all([startTestRedis(t), startTestClickHouse(t, { databases })]);
  const env = {
    REDIS_URL: redis.url,
    CLICKHOUSE_URL: clickhouse.url,
    HOST: '127.0.0.1',
    PORT: '0',
    DRAIN_MS: '0',
    // Each insert takes ClickHouse 50 ms of CPU.
    FLUSH_INTERVAL_MS: '200',
  };
  return { redis, clickhouse, env };
}
