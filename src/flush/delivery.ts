// Brings one batch into ClickHouse, however often it has to try: an insert that fails by the server's fault is tried for
// ever, and a row that ClickHouse can't read is searched by halves until it is alone. Halves and their tokens follow from
// the batch's bytes and token, so a replay after a crash sends what was sent before.
//
// An insert under a token that was never used is believed when it is acknowledged. One under a token whose earlier outcome
// is unknown (an attempt failed, or this is a replay) may be dropped as a duplicate of rows that were never committed (see
// stored.ts). So its rows are looked for, and inserted under a new token where some are missing. Rows that were there are
// then there twice, and the view `events` shows each once.

import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import { type Blame, blame, errorCode } from '../clickhouse/blame.js';
import type { Refused } from './fenced-stream.js';

/** Where lines go; insert.ts and stored.ts in src/clickhouse/. */
export interface Table {
  /** Inserts lines under a token. */
  insert(lines: Buffer, token: string, signal: AbortSignal): Promise<void>;
  /** Whether the rows of all lines are there. */
  holds(lines: Buffer, signal: AbortSignal): Promise<boolean>;
}

const REASON_LENGTH = 1_000;
const NEWLINE = 0x0a;

export class Delivery {
  readonly #table: Table;
  readonly #log: Logger;
  readonly #onError: (blame: Blame) => void;
  readonly #signal: AbortSignal;
  readonly #backoff: Backoff | undefined;

  /** @param onError told of each insert that failed */
  constructor(
    table: Table,
    log: Logger,
    onError: (blame: Blame) => void,
    signal: AbortSignal,
    backoff?: Backoff,
  ) {
    this.#table = table;
    this.#log = log;
    this.#onError = onError;
    this.#signal = signal;
    this.#backoff = backoff;
  }

  /**
   * Resolves when every line is in ClickHouse or among the refused ones, which it returns.
   * @param isReplay the lines may have been sent before, by an earlier flusher
   * @throws the signal's reason when it aborts
   */
  async deliver(lines: Buffer, token: string, isReplay = false): Promise<readonly Refused[]> {
    const refusal = await this.#insert(lines, token, isReplay);
    if (refusal === undefined) return [];
    const cut = middleOf(lines);
    if (cut === undefined) {
      // Its reason quotes the line, so that is not for the log: `wishmeter dead list` shows it.
      this.#log.error({ code: refusal.code }, 'ClickHouse refuses a row: it is now a dead letter');
      return [{ line: lines.at(-1) === NEWLINE ? lines.subarray(0, -1) : lines, ...refusal }];
    }
    return [
      ...(await this.deliver(lines.subarray(0, cut), `${token}.0`, isReplay)),
      ...(await this.deliver(lines.subarray(cut), `${token}.1`, isReplay)),
    ];
  }

  /** Resolves to undefined when the lines are stored. */
  async #insert(lines: Buffer, token: string, isReplay: boolean): Promise<Omit<Refused, 'line'> | undefined> {
    let name = token;
    let isInDoubt = isReplay;
    for (let failures = 0; ; ) {
      try {
        await this.#table.insert(lines, name, this.#signal);
        if (!isInDoubt || (await this.#holds(lines))) return undefined;
        this.#log.warn('not all rows of a repeated insert are found: they are inserted again');
        name = `${token}.${randomUUID()}`;
        isInDoubt = false;
      } catch (error) {
        this.#signal.throwIfAborted();
        failures++;
        const fault = blame(error);
        this.#onError(fault);
        const code = errorCode(error);
        const reason = (error as Error).message.slice(0, REASON_LENGTH);
        // ClickHouse reads all lines before it stores any.
        if (fault === 'data') return { code, reason };
        isInDoubt = true;
        const waitMs = Math.round(backoffMs(failures, this.#backoff));
        // ClickHouse's text may quote a line, so only its code is logged.
        const told = code === 0 ? { reason } : { code };
        this.#log.warn({ ...told, failures, waitMs }, 'an insert failed and will be tried again');
        await pause(waitMs, this.#signal);
        this.#signal.throwIfAborted();
      }
    }
  }

  /** A question that can't be answered counts as a no. */
  async #holds(lines: Buffer): Promise<boolean> {
    try {
      return await this.#table.holds(lines, this.#signal);
    } catch (error) {
      this.#signal.throwIfAborted();
      this.#log.warn({ code: errorCode(error) }, 'ClickHouse did not tell whether rows are there');
      return false;
    }
  }
}

/** The end of a line near the middle; undefined where there is only one line. */
function middleOf(lines: Buffer): number | undefined {
  const middle = lines.length >> 1;
  const cut = lines.lastIndexOf(NEWLINE, middle - 1) + 1 || lines.indexOf(NEWLINE, middle) + 1;
  return cut === 0 || cut === lines.length ? undefined : cut;
}
