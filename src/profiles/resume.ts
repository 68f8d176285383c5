// Completes operations of several steps that a process has left half done. Each process scans every 30 s; every step is safe to
// repeat. An operation that fails is reported and tried again at the next scan; the others go on.

import type { LinkedEraser } from './linked-eraser.js';
import type { Merger } from './merge.js';
import type { Pending } from './pending.js';
import type { Redirects } from './redirects.js';

/** Milliseconds between scans: an operation that was pending at the last one is taken to be left. */
const SCAN_MS = 30_000;
/** Operations that one scan takes up. */
const MOST = 10_000;

/** Called with each operation that failed, by its kind. */
export type OnFailed = (task: 'erasure' | 'merge', error: Error) => void;

export interface ResumeParts {
  readonly pending: Pending;
  readonly merger: Merger;
  readonly redirects: Redirects;
  readonly linkedEraser: LinkedEraser;
  readonly onFailed: OnFailed;
}

export class Resume {
  readonly #parts: ResumeParts;
  /** Pending at the last scan; MOST of them at most. */
  #seen: ReadonlySet<string> = new Set();

  constructor(parts: ResumeParts) {
    this.#parts = parts;
  }

  /** Scans now and every half a minute. @returns what ends it */
  watch(): () => void {
    let isRunning = false;
    const scan = async () => {
      if (isRunning) return;
      isRunning = true;
      // If Redis is away, that is logged elsewhere.
      await this.run().catch(() => {});
      isRunning = false;
    };
    const timer = setInterval(() => void scan(), SCAN_MS);
    timer.unref();
    void scan();
    return () => clearInterval(timer);
  }

  /** Completes what was pending at the last scan, too. @throws ServiceError `unavailable`: to be run again */
  async run(): Promise<void> {
    const pending = await this.#pendingNow();
    const seen = this.#seen;
    this.#seen = pending;
    for (const operation of pending) {
      if (!seen.has(operation)) continue;
      const error = await failureOf(this.#complete(operation));
      if (error !== undefined)
        this.#parts.onFailed(operation.startsWith('erase') ? 'erasure' : 'merge', error);
    }
  }

  async #pendingNow(): Promise<ReadonlySet<string>> {
    const found = new Set<string>();
    for await (const page of this.#parts.pending.pages()) {
      for (const operation of page) found.add(operation);
      if (found.size >= MOST) break;
    }
    return found;
  }

  async #complete(operation: string): Promise<void> {
    const [kind, profileId = '', generation = '', , nonce] = operation.split(' ');
    if (kind === 'erase') {
      await this.#parts.linkedEraser.eraseGeneration(profileId, generation);
      return;
    }
    const target = await this.#parts.merger.targetOf(profileId);
    const isPending = target !== undefined && target.nonce === nonce;
    if (isPending && !(await this.#parts.merger.finish(profileId, target)))
      await this.#parts.redirects.undo(profileId, target);
    // It may be in the list of another node, where its profile's slot was when it began.
    await this.#parts.pending.forget(operation);
  }
}

/** What it fails with, if it does. */
function failureOf(work: Promise<void>): Promise<Error | undefined> {
  return work.then(
    () => undefined,
    (error: Error) => error,
  );
}
