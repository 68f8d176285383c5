// When a process starts, it waits for the databases: after a reboot, they may start later.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Backoff, backoffMs } from '../backoff.js';
import { AwayError } from '../errors.js';

const AGAIN: Backoff = { firstMs: 100, longestMs: 2_000 };
const LOG_MS = 30_000;

export class Waiting {
  #why: string | undefined;

  constructor(private readonly log: Logger) {}

  get why(): string | undefined {
    return this.#why;
  }

  /** Repeats `open` while it throws AwayError. @param onWaiting called once if the first try fails */
  async until<T>(what: string, open: () => Promise<T>, onWaiting: () => void = () => {}): Promise<T> {
    let logged = Number.NEGATIVE_INFINITY;
    for (let failures = 1; ; failures++) {
      try {
        const opened = await open();
        if (failures > 1) this.log.info(`${what} answers`);
        this.#why = undefined;
        return opened;
      } catch (error) {
        if (!(error instanceof AwayError)) throw error;
        this.#why = error.message.replace(/\.$/, '');
      }
      if (performance.now() - logged >= LOG_MS) {
        logged = performance.now();
        this.log.warn({ reason: this.#why }, `waiting for ${what}`);
      }
      if (failures === 1) onWaiting();
      await sleep(backoffMs(failures, AGAIN));
    }
  }
}

/** @param waiting undefined in a child of `start`, because its parent waits */
export function opened<T>(
  waiting: Waiting | undefined,
  what: string,
  open: () => Promise<T>,
  onWaiting?: () => void,
): Promise<T> {
  return waiting === undefined ? open() : waiting.until(what, open, onWaiting);
}
