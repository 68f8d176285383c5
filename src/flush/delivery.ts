// Brings one batch into ClickHouse, whatever it takes: what is the server's fault is tried for ever, what is
// a line's fault is searched by halves until the line is alone. Halves and their tokens follow from the
// batch's bytes and token, so that a replay after a crash sends what was sent before.
//
// An insert under a token that was never used is believed when it is acknowledged. One under a token whose earlier
// outcome is unknown (an attempt failed, or this is a replay) may be dropped as a duplicate of rows that were never
// committed (see stored.ts): it is believed when its rows are found, and else they are inserted under a token that
// was never used. Rows that were there are then there twice, and the view `events` shows each once.
//
// Errors of unknown kind are told apart by what else is accepted. Where nothing is, it is taken for the server's
// fault, but not for ever if the batch is only a few lines: a line that is bad in a way that this list does not know, alone in
// its batch, would hold up its stream for good. After minutes it is set aside; if it was the server after all, a
// few dead letters are there to be retried. With many lines that would fill Redis with them, past any high-water
// mark, and so many are hardly all bad. (A row sent along to prove the server well would be one that is stored.)

import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import { type Blame, blame, errorCode, isOutcomeUnknown } from '../clickhouse/blame.js';
import type { Refused } from './fenced-stream.js';

/** Where lines go; insert.ts and stored.ts in src/clickhouse/. */
export interface Table {
  /** Inserts lines under a token. */
  insert(lines: Buffer, token: string, signal: AbortSignal): Promise<void>;
  /** Whether the rows of all lines are there. */
  holds(lines: Buffer, signal: AbortSignal): Promise<boolean>;
}

// Attempts after which an error of unknown kind may be a line's fault, so that the search is worth its inserts:
// some seconds for the batch, and a moment for each part of it.
const PATIENCE = 6;
const PATIENCE_WITH_PART = 2;

/** Milliseconds after which a few lines of which none is accepted, with errors of unknown kind, are set aside. */
const FEW_MS = 5 * 60_000;
const FEW_LINES = 10;

/** What tests shorten. */
export interface DeliveryTimes {
  readonly fewMs?: number;
  readonly backoff?: Backoff | undefined;
}

const REASON_LENGTH = 1_000;
const NEWLINE = 0x0a;

interface Refusal {
  readonly blame: Exclude<Blame, 'server'>;
  readonly code: number;
  readonly reason: string;
}

interface Part {
  readonly lines: Buffer;
  readonly token: string;
}

/** No part of the batch was accepted, with errors of unknown kind: for now it is taken for the server's fault. */
class NothingAccepted extends Error {}

export class Delivery {
  readonly #table: Table;
  readonly #log: Logger;
  readonly #onError: (blame: Blame) => void;
  readonly #signal: AbortSignal;
  readonly #fewMs: number;
  readonly #backoff: Backoff | undefined;
  /** Whether the outcome of an earlier insert of the batch, or of parts of it, is unknown. */
  #isInDoubt = false;
  #accepted = false;
  /** Whether lines may be set aside although none was accepted. */
  #mayQuarantine = false;
  #refused: Refused[] = [];

  constructor(
    table: Table,
    log: Logger,
    onError: (blame: Blame) => void,
    signal: AbortSignal,
    { fewMs = FEW_MS, backoff }: DeliveryTimes = {},
  ) {
    this.#table = table;
    this.#log = log;
    this.#onError = onError;
    this.#signal = signal;
    this.#fewMs = fewMs;
    this.#backoff = backoff;
  }

  /**
   * Resolves when every line is in ClickHouse or among the refused ones, which it returns.
   * @param isReplay the batch may have been sent before, by an earlier flusher
   * @throws the signal's reason when it aborts
   */
  async deliver(lines: Buffer, token: string, isReplay = false): Promise<readonly Refused[]> {
    const batch = { lines, token };
    this.#isInDoubt = isReplay;
    const began = performance.now();
    for (;;) {
      this.#accepted = false;
      this.#refused = [];
      const refusal = await this.#attempt(batch, PATIENCE);
      if (refusal === undefined) return [];
      this.#mayQuarantine = performance.now() - began >= this.#fewMs && isFew(lines);
      try {
        await this.#search(batch, refusal);
        return this.#refused;
      } catch (error) {
        if (!(error instanceof NothingAccepted)) throw error;
      }
    }
  }

  /** Both halves are tried before one is searched: what is accepted tells a bad line from a bad server. */
  async #search(part: Part, refusal: Refusal): Promise<void> {
    const halves = halve(part);
    if (halves === undefined) return await this.#judge(part, refusal);
    const refusals: [Part, Refusal][] = [];
    for (const half of halves) {
      const again = await this.#attempt(half, PATIENCE_WITH_PART);
      if (again === undefined) this.#accepted = true;
      else refusals.push([half, again]);
    }
    for (const [half, again] of refusals) await this.#search(half, again);
  }

  /** Sets a lone line aside; with an error of unknown kind only if it is refused where others are accepted, or for long. */
  async #judge(part: Part, refusal: Refusal): Promise<void> {
    if (refusal.blame === 'unknown') {
      if (!this.#accepted && !this.#mayQuarantine) throw new NothingAccepted();
      const again = await this.#attempt(part, PATIENCE_WITH_PART);
      if (again === undefined) {
        this.#accepted = true;
        return;
      }
    }
    const { code, reason } = refusal;
    // Its reason quotes it, so that is not for the log: `wishmeter dead list` shows it.
    this.#log.error({ code }, 'ClickHouse refuses a row: it is now a dead letter');
    const { lines } = part;
    this.#refused.push({ line: lines.at(-1) === NEWLINE ? lines.subarray(0, -1) : lines, code, reason });
  }

  /** Resolves to undefined when the part was accepted. */
  async #attempt({ lines, token }: Part, patience: number): Promise<Refusal | undefined> {
    let name = token;
    let isInDoubt = this.#isInDoubt;
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
        if (isOutcomeUnknown(error)) isInDoubt = this.#isInDoubt = true;
        const kind = blame(error);
        this.#onError(kind);
        const code = errorCode(error);
        const reason = (error as Error).message.slice(0, REASON_LENGTH);
        if (kind === 'data' || (kind === 'unknown' && failures >= patience))
          return { blame: kind, code, reason };
        const waitMs = Math.round(backoffMs(failures, this.#backoff));
        // What is not surely the server's fault may quote a line.
        const told = kind === 'server' ? { code, reason } : { code };
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

function isFew(lines: Buffer): boolean {
  let end = -1;
  for (let line = 0; line < FEW_LINES; line++) {
    end = lines.indexOf(NEWLINE, end + 1);
    if (end < 0 || end === lines.length - 1) return true;
  }
  return false;
}

/** Cuts at the end of a line near the middle; undefined where there is only one line. */
function halve({ lines, token }: Part): [Part, Part] | undefined {
  const middle = lines.length >> 1;
  let cut = lines.lastIndexOf(NEWLINE, middle - 1) + 1;
  if (cut === 0) cut = lines.indexOf(NEWLINE, middle) + 1;
  if (cut === 0 || cut === lines.length) return undefined;
  return [
    { lines: lines.subarray(0, cut), token: `${token}.0` },
    { lines: lines.subarray(cut), token: `${token}.1` },
  ];
}
