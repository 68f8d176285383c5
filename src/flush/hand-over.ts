// How an extra takes part in flushing: it gets each batch before the batch leaves its stream, and each erasure.

import type { ErasedUntil } from '../clickhouse/erased-rows.js';
import type { Refused } from './group.js';

export interface HandOver {
  /** Is called again after a crash. @param refused lines that come again when their dead letters are retried */
  handOver(stream: number, batch: Buffer, refused: readonly Refused[]): Promise<void>;
  erase(erased: ErasedUntil): Promise<void>;
}
