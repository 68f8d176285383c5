// Finds the embedded databases by the files in DATA_DIR, if no URL is set.

import { join, resolve } from 'node:path';
import type { Config } from '../config.js';
import { StartupError } from '../errors.js';
import { readServiceUrl } from '../extras/embedded/clickhouse/service-url.js';
import { embeddedRedisUrl } from '../extras/embedded/redis.js';

export function clickhouseFolder(dataDir: string): string {
  return join(resolve(dataDir), 'clickhouse');
}

export function redisFolder(dataDir: string): string {
  return join(resolve(dataDir), 'redis');
}

export function serviceClickHouse({
  CLICKHOUSE_URL,
  DATA_DIR,
}: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'>): string {
  return CLICKHOUSE_URL || (readServiceUrl(clickhouseFolder(DATA_DIR)) ?? '');
}

/** @returns the URL of analysts */
export function analystClickHouse({
  CLICKHOUSE_URL,
  CLICKHOUSE_PORT,
  DATA_DIR,
}: Pick<Config, 'CLICKHOUSE_URL' | 'CLICKHOUSE_PORT' | 'DATA_DIR'>): URL {
  if (CLICKHOUSE_URL) return new URL(CLICKHOUSE_URL);
  // If DATA_DIR is unreadable, CLICKHOUSE_PORT says where the embedded ClickHouse listens.
  const service = readServiceUrl(clickhouseFolder(DATA_DIR));
  const port = service ? new URL(service).port : CLICKHOUSE_PORT;
  if (!port) throw new StartupError('Set CLICKHOUSE_PORT or CLICKHOUSE_URL to where ClickHouse listens.');
  return new URL(`http://analyst@127.0.0.1:${port}`);
}

/** @returns the URLs of Redis, or of the embedded one, which may not be running */
export function redisUrls({
  REDIS_URL,
  DATA_DIR,
}: Pick<Config, 'REDIS_URL' | 'DATA_DIR'>): readonly string[] {
  return REDIS_URL.length > 0 ? REDIS_URL : [embeddedRedisUrl(redisFolder(DATA_DIR))];
}
