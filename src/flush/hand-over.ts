// What an extra does with a flushed batch before it leaves its stream, and on erasures.

import type { Logger } from 'pino';
import type { ErasedUntil } from '../clickhouse/erased-rows.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import type { Refused } from './group.js';

export interface HandOver {
  /**
   * Repeated after a crash.
   * @param batch lines, each ending with a newline
   * @param refused lines that come again when their dead letters are retried
   * @throws Redis's errors
   */
  handOver(stream: number, batch: Buffer, refused: readonly Refused[]): Promise<void>;
  /** @throws Redis's errors */
  erase(erased: ErasedUntil): Promise<void>;
}

/** @param highWater RECEIVERS_HIGH_WATER */
export type OpenHandOver = (redis: RedisClient, keys: Keys, highWater: number, log: Logger) => HandOver;
