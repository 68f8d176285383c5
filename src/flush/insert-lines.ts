// Inserts a batch. If the server is at fault, it retries until the insert succeeds. If a row is at fault, it halves the
// batch until that row is alone.

import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import { type Blame, blame, errorCode } from '../clickhouse/blame.js';
import type { Refused } from './group.js';

export interface Inserter {
  readonly insert: (lines: Buffer, signal: AbortSignal) => Promise<void>;
  readonly log: Logger;
  readonly onError: (blame: Blame) => void;
  /** Throws if another flusher has claimed entries of the batch. */
  readonly confirm: () => Promise<void>;
  readonly signal: AbortSignal;
  readonly backoff?: Backoff | undefined;
}

const REASON_LENGTH = 1_000;
const NEWLINE = 0x0a;

/**
 * Resolves when every line is stored or refused.
 * @throws errors of `confirm`, or the signal's reason
 */
export async function insertLines(lines: Buffer, inserter: Inserter): Promise<readonly Refused[]> {
  const refusal = await insert(lines, inserter);
  if (refusal === undefined) return [];
  const cut = middleOf(lines);
  if (cut !== undefined)
    return [
      ...(await insertLines(lines.subarray(0, cut), inserter)),
      ...(await insertLines(lines.subarray(cut), inserter)),
    ];
  // The reason may quote the line, so it is not logged.
  inserter.log.error({ code: refusal.code }, 'ClickHouse refuses a row: it is now a dead letter');
  return [{ line: lines.at(-1) === NEWLINE ? lines.subarray(0, -1) : lines, ...refusal }];
}

async function insert(lines: Buffer, inserter: Inserter): Promise<Omit<Refused, 'line'> | undefined> {
  const { log, onError, confirm, signal, backoff } = inserter;
  for (let failures = 1; ; failures++) {
    await confirm();
    try {
      await inserter.insert(lines, signal);
      return undefined;
    } catch (error) {
      signal.throwIfAborted();
      const fault = blame(error);
      onError(fault);
      const code = errorCode(error);
      const reason = (error as Error).message.slice(0, REASON_LENGTH);
      // ClickHouse reads all lines before it stores any.
      if (fault === 'data') return { code, reason };
      const waitMs = Math.round(backoffMs(failures, backoff));
      const cause = code === 0 ? { reason } : { code };
      log.warn({ ...cause, failures, waitMs }, 'an insert failed and will be tried again');
      await pause(waitMs, signal);
      signal.throwIfAborted();
    }
  }
}

function middleOf(lines: Buffer): number | undefined {
  const middle = lines.length >> 1;
  const cut = lines.lastIndexOf(NEWLINE, middle - 1) + 1 || lines.indexOf(NEWLINE, middle) + 1;
  return cut === 0 || cut === lines.length ? undefined : cut;
}
