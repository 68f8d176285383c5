// Moves one stream from Redis to ClickHouse, in a loop:
//
//   read ──▶ insert ──▶ hand over to extras ──▶ acknowledge     a full batch is inserted while the next one is read
//
// Rows are inserted at least once; their names make them unique. After a crash the batch's entries stay pending.

import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import { blame, errorCode, MEMORY_LIMIT_EXCEEDED } from '../clickhouse/blame.js';
import { type ErasuresReader, withoutErased } from './erasures.js';
import type { HeldBatch, StreamGroup } from './group.js';
import { insertLines, type Refusal, type Refused } from './insert-lines.js';
import type { FlushMetrics } from './metrics.js';

/** All lines of a flushed batch, and the lines that ClickHouse refused, which an operator may retry later. */
export type HandedOver = readonly [lines: Buffer, refused: readonly Refused[]];

/** Called when Redis or ClickHouse begins to fail. @returns a function to call when it works again */
export type OnOutage = (why: string) => () => void;

export interface FlushedStream {
  readonly group: StreamGroup;
  readonly erasures: ErasuresReader;
  readonly insert: (lines: Buffer, signal: AbortSignal) => Promise<void>;
  readonly handOver?: ((...batch: HandedOver) => Promise<void>) | undefined;
  readonly intervalMs: number;
  readonly metrics: FlushMetrics;
  readonly log: Logger;
  readonly onOutage: OnOutage;
  readonly backoff?: Backoff | undefined;
}

export interface EndSignals {
  readonly drain: AbortSignal;
  readonly abort: AbortSignal;
}

class NotPendingError extends Error {}
class InsertFailedError extends Error {}
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
    if (batch !== undefined) await flushBatch(stream, batch, abort);
    if (abort.aborted || (isDraining && !batch?.isFull)) break;
    if (batch?.isFull) continue;
    await pause(intervalMs - (performance.now() - began), drain);
    next = read();
  }
  void next.then((batch) => batch?.release());
}

/** Never throws: a batch that fails for good stays pending. */
async function flushBatch(stream: FlushedStream, batch: HeldBatch, signal: AbortSignal): Promise<void> {
  const { group, metrics, log, handOver } = stream;
  const untilDone = <T>(act: () => Promise<T>) => retry(stream, act, signal);
  try {
    const lines = withoutErased(batch.lines, await stream.erasures());
    const refused = await insertLines(lines, (some, isSingle) =>
      untilDone(async () => {
        // If another flusher has inserted entries of this batch, their visitors may have been erased since.
        if (!(await group.isPending(batch))) throw new NotPendingError();
        return await insert(stream, some, isSingle, signal);
      }),
    );
    // The reason may quote the line, so it is not logged.
    const codes = [...new Set(refused.map(({ code }) => code))];
    if (refused.length > 0)
      log.error({ rows: refused.length, codes }, 'ClickHouse refuses rows: they become dead letters');
    if (handOver !== undefined && lines.length > 0) await untilDone(() => handOver(lines, refused));
    const foreign = batch.foreignEntries.length;
    if (foreign > 0)
      log.error({ entries: foreign }, 'entries that are not ours were in the stream; see dead list');
    await untilDone(() => group.ack(batch, refused));
    metrics.batches.inc();
    metrics.rows.inc(batch.rows - refused.length);
    metrics.refused.inc(refused.length);
  } catch (error) {
    if (error instanceof NotPendingError)
      log.warn(
        'another flusher has inserted entries of this batch: it is dropped, and the rest is read again',
      );
    else if (!signal.aborted) log.error({ err: error }, 'a batch failed, and is read again later');
  } finally {
    batch.release();
  }
}

/** @throws if the server is at fault */
async function insert(
  stream: FlushedStream,
  lines: Buffer,
  isSingle: boolean,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
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
    const why = `ClickHouse failed: ${code === 0 ? reason : `code ${code}`}`;
    if (code !== MEMORY_LIMIT_EXCEEDED || isSingle) throw new InsertFailedError(why);
    stream.onOutage(why)();
    return { code, reason };
  }
}

/** @throws what `act` throws once `signal` is aborted */
export async function retry<T>(
  { onOutage, backoff }: Pick<FlushedStream, 'onOutage' | 'backoff'>,
  act: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  let outage: { readonly why: string; readonly end: () => void } | undefined;
  try {
    for (let failures = 1; ; failures++) {
      try {
        return await act();
      } catch (error) {
        if (signal.aborted || error instanceof NotPendingError) throw error;
        const { message } = error as Error;
        const why = error instanceof InsertFailedError ? message : `Redis failed: ${message}`;
        if (outage?.why !== why) {
          outage?.end();
          outage = { why, end: onOutage(why) };
        }
        await pause(backoffMs(failures, backoff), signal);
      }
    }
  } finally {
    outage?.end();
  }
}
