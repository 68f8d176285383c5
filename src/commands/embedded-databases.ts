// How a command reaches the databases of a `wishmeter start` on this machine, where no URL is given: by the files
// that they leave in DATA_DIR for those who may read them.

import { join, resolve } from 'node:path';
import type { Config } from '../config.js';
import { readServiceUrl } from '../embedded/clickhouse/service-url.js';
import { embeddedRedisUrl } from '../embedded/redis.js';

export function clickhouseFolder(dataDir: string): string {
  return join(resolve(dataDir), 'clickhouse');
}

export function redisFolder(dataDir: string): string {
  return join(resolve(dataDir), 'redis');
}

/** CLICKHOUSE_URL, or the embedded one with the service's user and password; empty where neither is there. */
export function serviceClickHouse({
  CLICKHOUSE_URL,
  DATA_DIR,
}: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'>): string {
  return CLICKHOUSE_URL || (readServiceUrl(clickhouseFolder(DATA_DIR)) ?? '');
}

/** REDIS_URL, or the embedded one, whether or not it is there. */
export function redisUrls({
  REDIS_URL,
  DATA_DIR,
}: Pick<Config, 'REDIS_URL' | 'DATA_DIR'>): readonly string[] {
  return REDIS_URL.length > 0 ? REDIS_URL : [embeddedRedisUrl(redisFolder(DATA_DIR))];
}
