// Moves one stream from Redis to ClickHouse, in a loop:
//
//   read ──▶ insert ──▶ hand over to receivers ──▶ acknowledge     a full batch is inserted while the next one is read
//
// Rows are inserted at least once; their names make them unique. After a crash the batch's entries stay pending.

import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import { blame, errorCode } from '../clickhouse/blame.js';
import { type ErasuresReader, withoutErased } from './erasures.js';
import type { HeldBatch, StreamGroup } from './group.js';
import { insertLines, type Refusal, type Refused } from './insert-lines.js';
import type { FlushMetrics } from './metrics.js';

/** All lines of a flushed batch, and the lines that ClickHouse refused, which an operator may retry later. */
export type HandedOver = readonly [lines: Buffer, refused: readonly Refused[]];

export interface FlushedStream {
  readonly group: StreamGroup;
  readonly erasures: ErasuresReader;
  readonly insert: (lines: Buffer, signal: AbortSignal) => Promise<void>;
  readonly handOver?: ((...batch: HandedOver) => Promise<void>) | undefined;
  readonly intervalMs: number;
  readonly metrics: FlushMetrics;
  readonly log: Logger;
  readonly backoff?: Backoff | undefined;
}

export interface EndSignals {
  readonly drain: AbortSignal;
  readonly abort: AbortSignal;
}

class TakenOverError extends Error {}
const REASON_LENGTH = 1_000;

/** After `drain` it flushes the stream once more. */
export async function flushStream(stream: FlushedStream, { drain, abort }: EndSignals): Promise<void> {
  const { group, intervalMs, log } = stream;
  const read = async () => {
    const batch = await retry(stream, () => group.read(), drain).catch(() => undefined);
    if (batch?.wasAbandoned)
      log.warn({ rows: batch.rows }, 'entries that a flusher has left pending are read again');
    return batch;
  };
  let next = read();
  for (;;) {
    const began = performance.now();
    const isDraining = drain.aborted;
    const batch = await next;
    if (batch?.isFull) next = read();
    if (batch !== undefined) await bring(stream, batch, abort);
    if (abort.aborted || (isDraining && !batch?.isFull)) break;
    if (batch?.isFull) continue;
    await pause(intervalMs - (performance.now() - began), drain);
    next = read();
  }
  void next.then((batch) => batch?.release());
}

/** Never throws: a batch that fails for good stays pending. */
async function bring(stream: FlushedStream, batch: HeldBatch, signal: AbortSignal): Promise<void> {
  const { group, metrics, log, handOver } = stream;
  const untilDone = <T>(act: () => Promise<T>) => retry(stream, act, signal);
  try {
    const lines = withoutErased(batch.lines, await stream.erasures());
    const refused = await insertLines(lines, (some) => untilDone(() => insert(stream, batch, some, signal)));
    // The reason may quote the line, so it is not logged.
    for (const { code } of refused) log.error({ code }, 'ClickHouse refuses a row: it becomes a dead letter');
    if (handOver !== undefined && lines.length > 0) await untilDone(() => handOver(lines, refused));
    const foreign = batch.foreignEntries.length;
    if (foreign > 0)
      log.error({ entries: foreign }, 'entries that are not ours were in the stream; see dead list');
    await untilDone(() => group.ack(batch, refused));
    metrics.batches.inc();
    metrics.rows.inc(batch.rows - refused.length);
    metrics.refused.inc(refused.length);
  } catch (error) {
    if (error instanceof TakenOverError) log.warn('another flusher has claimed this batch: it is dropped');
    else if (!signal.aborted) log.error({ err: error }, 'a batch failed, and is read again later');
  } finally {
    batch.release();
  }
}

/** @throws if the server is at fault, or another flusher has the batch */
async function insert(
  stream: FlushedStream,
  batch: HeldBatch,
  lines: Buffer,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  if (!(await stream.group.holds(batch))) throw new TakenOverError();
  try {
    await stream.insert(lines, signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    const fault = blame(error);
    stream.metrics.insertErrors.inc({ blame: fault });
    const code = errorCode(error);
    const reason = (error as Error).message.slice(0, REASON_LENGTH);
    // ClickHouse reads all lines before it stores any.
    if (fault === 'data') return { code, reason };
    // A text with a code may quote a line.
    throw new Error(`ClickHouse failed: ${code === 0 ? reason : `code ${code}`}`);
  }
}

async function retry<T>(
  { log, backoff }: Pick<FlushedStream, 'log' | 'backoff'>,
  act: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await act();
    } catch (error) {
      if (signal.aborted || error instanceof TakenOverError) throw error;
      const waitMs = Math.round(backoffMs(failures, backoff));
      log.warn({ err: error, failures, waitMs }, 'Redis or ClickHouse failed, and is asked again');
      await pause(waitMs, signal);
    }
  }
}
