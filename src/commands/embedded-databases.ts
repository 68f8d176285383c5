// Finds the databases of a `wishmeter start` on this machine if no URL is given: by the files that they write into DATA_DIR.

import { join, resolve } from 'node:path';
import type { Config } from '../config.js';
import { readServiceUrl } from '../extras/embedded/clickhouse/service-url.js';
import { embeddedRedisUrl } from '../extras/embedded/redis.js';

export function clickhouseFolder(dataDir: string): string {
  return join(resolve(dataDir), 'clickhouse');
}

export function redisFolder(dataDir: string): string {
  return join(resolve(dataDir), 'redis');
}

/** CLICKHOUSE_URL, or the embedded one with the service's user and password, or ''. */
export function serviceClickHouse({
  CLICKHOUSE_URL,
  DATA_DIR,
}: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'>): string {
  return CLICKHOUSE_URL || (readServiceUrl(clickhouseFolder(DATA_DIR)) ?? '');
}

/** REDIS_URL, or the embedded one, which may not run. */
export function redisUrls({
  REDIS_URL,
  DATA_DIR,
}: Pick<Config, 'REDIS_URL' | 'DATA_DIR'>): readonly string[] {
  return REDIS_URL.length > 0 ? REDIS_URL : [embeddedRedisUrl(redisFolder(DATA_DIR))];
}
