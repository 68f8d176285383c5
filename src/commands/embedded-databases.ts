// Finds the embedded databases by the files in DATA_DIR, if no URL is set.

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

export function serviceClickHouse({
  CLICKHOUSE_URL,
  DATA_DIR,
}: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'>): string {
  return CLICKHOUSE_URL || (readServiceUrl(clickhouseFolder(DATA_DIR)) ?? '');
}

/** @returns the URLs of Redis, or of the embedded one, which may not be running */
export function redisUrls({
  REDIS_URL,
  DATA_DIR,
}: Pick<Config, 'REDIS_URL' | 'DATA_DIR'>): readonly string[] {
  return REDIS_URL.length > 0 ? REDIS_URL : [embeddedRedisUrl(redisFolder(DATA_DIR))];
}
