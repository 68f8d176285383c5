// Completes operations of several steps that a process has left half done, and after a failover merges that their target has
// forgotten. Every process looks now and then: each step is safe to repeat.
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

export class Resume {
  readonly #store: Store;
  readonly #pending: Pending;
  readonly #merger: Merger;
  readonly #redirects: Redirects;
  readonly #linkedEraser: LinkedEraser;
  #seen: ReadonlySet<string> = new Set();

  constructor(
    store: Store,
    pending: Pending,
    merger: Merger,
    redirects: Redirects,
    linkedEraser: LinkedEraser,
  ) {
    this.#store = store;
    this.#pending = pending;
    this.#merger = merger;
    this.#redirects = redirects;
    this.#linkedEraser = linkedEraser;
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
    const pending = await this.#pending.list('pending');
    const seen = this.#seen;
    this.#seen = new Set(pending);
    for (const operation of pending) if (seen.has(operation)) await this.#complete(operation);
    if (!looksAtMerges) return;
    for (const operation of await this.#pending.list('merges')) {
      const [, profileId = '', into = '', , nonce] = operation.split(' ');
      const members = this.#store.keys.members(into);
      if ((await this.#store.call((client) => client.hget(members, profileId))) !== nonce)
        await this.#complete(operation);
    }
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
