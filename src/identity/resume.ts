// Completes operations of several steps that a process has left half done, and after a failover merges that their target has
// forgotten. Every process looks now and then: each step is safe to repeat. An operation that fails is reported and tried again at
// the next look; the others go on.
//
// The other side of a merge needs no look: a guest whose side forgot the merge is a guest again, and the next one adds only
// what it gained since. On one server a failover forgets the end of one history, which both sides are in.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../redis/store.js';
import type { LinkedEraser } from './linked-eraser.js';
import type { Merger } from './merge.js';
import type { Pending } from './pending.js';
import type { Redirects } from './redirects.js';

/** Milliseconds between looks: what was under way at the last one is taken to be left. */
const LOOK_MS = 30_000;
/** Milliseconds over which processes spread their looks after a failover. */
const SPREAD_MS = 1_000;
/** Operations that one look takes up, and failed merges that are remembered. */
const MOST = 10_000;

/** Called with each operation that failed, by its kind. */
export type OnFailed = (task: 'erasure' | 'merge', error: Error) => void;

export class Resume {
  readonly #store: Store;
  readonly #pending: Pending;
  readonly #merger: Merger;
  readonly #redirects: Redirects;
  readonly #linkedEraser: LinkedEraser;
  readonly #onFailed: OnFailed;
  /** Pending at the last look; MOST of them at most. */
  #seen: ReadonlySet<string> = new Set();
  /** Merges whose check failed; MOST of them at most. */
  #failed = new Set<string>();

  constructor(
    store: Store,
    pending: Pending,
    merger: Merger,
    redirects: Redirects,
    linkedEraser: LinkedEraser,
    onFailed: OnFailed = () => {},
  ) {
    this.#store = store;
    this.#pending = pending;
    this.#merger = merger;
    this.#redirects = redirects;
    this.#linkedEraser = linkedEraser;
    this.#onFailed = onFailed;
  }

  /**
   * Looks now, since a failover may have been missed, every half a minute, and after each failover.
   * @returns what ends it
   */
  watch(): () => void {
    const closing = new AbortController();
    const { signal } = closing;
    let hasFailedOver = true;
    let isRunning = false;
    const work = async () => {
      if (isRunning) return;
      isRunning = true;
      while (!signal.aborted) {
        const wasWanted = hasFailedOver;
        hasFailedOver = false;
        // Where Redis is away, that is logged elsewhere.
        await this.run(wasWanted).catch(() => {
          hasFailedOver ||= wasWanted;
        });
        if (!hasFailedOver) break;
        await sleep(Math.random() * SPREAD_MS, undefined, { ref: false });
      }
      isRunning = false;
    };
    this.#store.onFailover(() => {
      hasFailedOver = true;
      void work();
    });
    const timer = setInterval(() => void work(), LOOK_MS);
    timer.unref();
    void work();
    return () => {
      closing.abort();
      clearInterval(timer);
    };
  }

  /**
   * Completes what was under way at the last look, too. @param looksAtMerges of the last hours: their targets may have
   * forgotten them
   * @throws ServiceError `unavailable`: to be run again
   */
  async run(looksAtMerges: boolean): Promise<void> {
    const pending = await this.#pendingNow();
    const seen = this.#seen;
    this.#seen = pending;
    for (const operation of pending) {
      if (!seen.has(operation)) continue;
      const error = await failureOf(this.#complete(operation));
      if (error !== undefined) this.#onFailed(operation.startsWith('erase') ? 'erasure' : 'merge', error);
    }
    const failed = this.#failed;
    this.#failed = new Set();
    for (const operation of failed) await this.#tryMerge(operation);
    if (!looksAtMerges) return;
    for await (const page of this.#pending.pages('merges'))
      for (const operation of page) await this.#tryMerge(operation);
  }

  async #pendingNow(): Promise<ReadonlySet<string>> {
    const found = new Set<string>();
    for await (const page of this.#pending.pages('pending')) {
      for (const operation of page) found.add(operation);
      if (found.size >= MOST) break;
    }
    return found;
  }

  /** @throws what it failed with, once MOST have failed: the look begins anew */
  async #tryMerge(operation: string): Promise<void> {
    const error = await failureOf(this.#checkMerge(operation));
    if (error === undefined) return;
    this.#onFailed('merge', error);
    if (this.#failed.size >= MOST) throw error;
    this.#failed.add(operation);
  }

  /** Completes a merge again if its target has forgotten it. */
  async #checkMerge(operation: string): Promise<void> {
    const [, profileId = '', into = '', , nonce] = operation.split(' ');
    const members = this.#store.keys.members(into);
    if ((await this.#store.call((client) => client.hget(members, profileId))) !== nonce)
      await this.#complete(operation);
  }

  async #complete(operation: string): Promise<void> {
    const [kind, profileId = '', generation = '', , nonce] = operation.split(' ');
    if (kind === 'erase') {
      await this.#linkedEraser.eraseGeneration(profileId, generation);
      return;
    }
    // It may be in the list of another node, where its profile's slot was when it began.
    await this.#pending.forget(operation);
    const target = await this.#merger.targetOf(profileId);
    if (target === undefined || target.nonce !== nonce) return;
    if (!(await this.#merger.finish(profileId, target))) await this.#redirects.undo(profileId, target);
  }
}

/** What it fails with, if it does. */
function failureOf(work: Promise<void>): Promise<Error | undefined> {
  return work.then(
    () => undefined,
    (error: Error) => error,
  );
}
