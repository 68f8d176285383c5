// A Redis and a ClickHouse for processes of the service, and the settings with which `serve` and `flush` find
// them.

import type { Test } from 'tap';
import { startTestClickHouse } from './clickhouse.js';
import { startTestRedis } from './redis.js';

/**
 * `env` has a free port, and no delay at the end. Without `databases` the first `flush` or `migrate`
 * migrates.
 */
export async function startStores(t: Test, databases: readonly string[] = []) {
  const [redis, clickhouse] = await Promise.all([startTestRedis(t), startTestClickHouse(t, { databases })]);
  const env = {
    REDIS_URL: redis.url,
    CLICKHOUSE_URL: clickhouse.url,
    HOST: '127.0.0.1',
    PORT: '0',
    DRAIN_MS: '0',
    // Not more often, because each insert takes 50 ms of ClickHouse's CPU.
    FLUSH_INTERVAL_MS: '200',
  };
  return { redis, clickhouse, env };
}
