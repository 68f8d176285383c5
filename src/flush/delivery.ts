// Brings one batch into ClickHouse, whatever it takes: what is the server's fault is tried for ever, what is
// a line's fault is searched by halves until the line is alone. Halves and their tokens follow from the
// batch's bytes and token, so that a replay after a crash sends what was sent before.

import type { Logger } from 'pino';
import { type Blame, blame, errorCode } from '../clickhouse/blame.js';
import { backoffMs, pause } from './backoff.js';
import type { Refused } from './shard.js';

/** Inserts lines under a token; in src/clickhouse/insert.ts. */
export type Insert = (lines: Buffer, token: string, signal: AbortSignal) => Promise<void>;

// Attempts after which an error of unknown kind may be a line's fault, so that the search is worth its inserts:
// some seconds for the batch, and a moment for each part of it.
const PATIENCE = 6;
const PATIENCE_WITH_PART = 2;

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

/** No part of the batch was accepted, with errors of unknown kind: it is not a line's fault. */
class NothingAccepted extends Error {}

export class Delivery {
  readonly #insert: Insert;
  readonly #log: Logger;
  readonly #onError: (blame: Blame) => void;
  readonly #signal: AbortSignal;
  #accepted = false;
  #refused: Refused[] = [];

  constructor(insert: Insert, log: Logger, onError: (blame: Blame) => void, signal: AbortSignal) {
    this.#insert = insert;
    this.#log = log;
    this.#onError = onError;
    this.#signal = signal;
  }

  /**
   * Resolves when every line is in ClickHouse or among the refused ones, which it returns.
   * @throws the signal's reason when it aborts
   */
  async deliver(lines: Buffer, token: string): Promise<readonly Refused[]> {
    const batch = { lines, token };
    for (;;) {
      this.#accepted = false;
      this.#refused = [];
      const refusal = await this.#attempt(batch, PATIENCE);
      if (refusal === undefined) return [];
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

  /** Sets a lone line aside; with an error of unknown kind only if it is refused where others are accepted. */
  async #judge(part: Part, refusal: Refusal): Promise<void> {
    if (refusal.blame === 'unknown') {
      if (!this.#accepted) throw new NothingAccepted();
      const again = await this.#attempt(part, PATIENCE_WITH_PART);
      if (again === undefined) return;
    }
    const { code, reason } = refusal;
    // Its reason quotes it, so that is not for the log: `wishmeter dead list` shows it.
    this.#log.error({ code }, 'ClickHouse refuses an event: it is now a dead letter');
    const { lines } = part;
    this.#refused.push({ line: lines.at(-1) === NEWLINE ? lines.subarray(0, -1) : lines, code, reason });
  }

  /** Resolves to undefined when the part was accepted. */
  async #attempt({ lines, token }: Part, patience: number): Promise<Refusal | undefined> {
    for (let failures = 1; ; failures++) {
      try {
        await this.#insert(lines, token, this.#signal);
        return undefined;
      } catch (error) {
        this.#signal.throwIfAborted();
        const kind = blame(error);
        this.#onError(kind);
        const code = errorCode(error);
        const reason = (error as Error).message.slice(0, REASON_LENGTH);
        if (kind === 'data' || (kind === 'unknown' && failures >= patience))
          return { blame: kind, code, reason };
        const waitMs = Math.round(backoffMs(failures));
        // What is not surely the server's fault may quote a line.
        const told = kind === 'server' ? { code, reason } : { code };
        this.#log.warn({ ...told, failures, waitMs }, 'an insert failed and will be tried again');
        await pause(waitMs, this.#signal);
        this.#signal.throwIfAborted();
      }
    }
  }
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
