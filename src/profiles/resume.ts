// Completes interrupted multi-step operations. Every step is idempotent; the next scan retries failed operations.

import { repeat } from '../repeat.js';
import type { LinkedEraser } from './linked-eraser.js';
import type { Merger } from './merge.js';
import type { Pending } from './pending.js';
import type { Redirects } from './redirects.js';

/** An operation that was pending at the last scan counts as interrupted. */
const SCAN_MS = 30_000;
/** Operations read per scan; the last page may exceed it. */
const MOST = 10_000;

export type OnFailed = (task: 'erasure' | 'merge', error: Error) => void;

export interface ResumeParts {
  readonly pending: Pending;
  readonly merger: Merger;
  readonly redirects: Redirects;
  readonly linkedEraser: LinkedEraser;
  readonly onFailed: OnFailed;
}

export class Resume {
  #seen: ReadonlySet<string> = new Set();

  constructor(private readonly parts: ResumeParts) {}

  watch(): () => Promise<void> {
    // The store logs that Redis is away.
    return repeat(SCAN_MS, (signal) => this.run(signal).catch(() => {}));
  }

  async run(signal?: AbortSignal): Promise<void> {
    const pending = await this.#pendingNow();
    const seen = this.#seen;
    this.#seen = pending;
    for (const operation of pending) {
      if (signal?.aborted) return;
      if (!seen.has(operation)) continue;
      await this.#complete(operation).catch((error: Error) =>
        this.parts.onFailed(operation.startsWith('erase') ? 'erasure' : 'merge', error),
      );
    }
  }

  async #pendingNow(): Promise<ReadonlySet<string>> {
    const found = new Set<string>();
    for await (const page of this.parts.pending.pages()) {
      for (const operation of page) found.add(operation);
      if (found.size >= MOST) break;
    }
    return found;
  }

  async #complete(operation: string): Promise<void> {
    const [kind, profileId = '', generation = '', , mergeId] = operation.split(' ');
    if (kind === 'erase') {
      await this.parts.linkedEraser.eraseGeneration(profileId, generation);
      return;
    }
    const target = await this.parts.merger.targetOf(profileId);
    const isPending = target !== undefined && target.mergeId === mergeId;
    if (isPending && !(await this.parts.merger.finish(profileId, target)))
      await this.parts.redirects.undo(profileId, target);
    // The operation is listed at another node if its profile's slot has moved.
    await this.parts.pending.forget(operation);
  }
}
