// Looks at the merges of the last hours, and at erasures: finishes what a process left half done, and tells analysts
// of what it did not. After a failover of a cluster's node it finds merges that the heir's side has forgotten, and
// does them again from their journals. The other side needs no audit: a profile that forgot that it was merged is
// live again, and its next merge adds what it gained. (On one server neither happens. What it forgets is the end of
// one history, which both sides are in.)

import { setTimeout as sleep } from 'node:timers/promises';
import { isCustomerName } from '../identity-rules.js';
import { ERASED, type FinishErasure, MAX_HOPS } from '../redis/at-profile.js';
import type { Store } from '../redis/store.js';
import type { Linker } from './link.js';
import type { Merger } from './merge.js';

/** Milliseconds. */
const SPREAD_MS = 1_000;
/** Buckets that are asked for their merges at once. */
const AT_ONCE = 64;

export class MergeAudit {
  readonly #store: Store;
  readonly #merger: Merger;
  readonly #linker: Linker;
  readonly #finishErasure: FinishErasure;

  constructor(store: Store, merger: Merger, linker: Linker, finishErasure: FinishErasure) {
    this.#store = store;
    this.#finishErasure = finishErasure;
    this.#merger = merger;
    this.#linker = linker;
  }

  /**
   * Runs now, since a failover may have been missed and a process may have ended in the middle of a merge, and after
   * each failover, until it was all looked at.
   * @returns what ends it
   */
  watch(): () => void {
    let isClosed = false;
    let isWanted = true;
    let isRunning = false;
    const work = async () => {
      if (isRunning) return;
      isRunning = true;
      while (isWanted && !isClosed) {
        isWanted = false;
        // Every process does so; not all at once.
        await sleep(Math.random() * SPREAD_MS, undefined, { ref: false });
        await this.run().catch(() => {
          isWanted = true; // Redis is away, and that is told elsewhere
        });
      }
      isRunning = false;
    };
    this.#store.onFailover(() => {
      isWanted = true;
      void work();
    });
    void work();
    return () => {
      isClosed = true;
    };
  }

  /** @throws ServiceError `unavailable`: to be run again */
  async run(): Promise<void> {
    const { buckets } = this.#store.deployment;
    let next = 0;
    const work = async () => {
      while (next < buckets) await this.#checkBucket((next++).toString(36));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  async #checkBucket(bucket: string): Promise<void> {
    const key = this.#store.keys.merges(bucket);
    const merges = await this.#store.call((client) => client.zrange(key, '0', '-1'));
    for (const from of merges) await this.#check(from);
  }

  async #check(from: string): Promise<void> {
    const { keys } = this.#store;
    const { heir, nonce } = await this.#tombstoneOf(from);
    if (heir === ERASED) return this.#finishErasure(from);
    if (heir === null || nonce === null) return;
    const at = heir.startsWith('!')
      ? await this.#merger.merge(from, heir.slice(1))
      : await this.#lastHeir(heir);
    if (at === undefined) return;
    const merged = keys.merged(at);
    if ((await this.#store.call((client) => client.hget(merged, from))) !== nonce)
      await this.#merger.giveAgain(from, heir, nonce);
    else await this.#merger.tellAgain(from, at, nonce);
    // The owner's door may be on the node that forgot, too.
    const [, , , profile] = keys.journal(from);
    const owner = await this.#store.call((client) => client.hget(profile as string, 'owner'));
    if (owner !== null && isCustomerName(owner)) await this.#linker.bring(owner, at);
  }

  async #lastHeir(heir: string): Promise<string> {
    let at = heir;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const next = await this.#tombstoneOf(at);
      if (next.heir === null || next.heir === ERASED) break;
      at = next.heir.replace(/^!/, '');
    }
    return at;
  }

  async #tombstoneOf(profileId: string): Promise<{ heir: string | null; nonce: string | null }> {
    const key = this.#store.keys.profile(profileId);
    const [heir = null, nonce = null] = await this.#store.call((client) =>
      client.hmget(key, 'heir', 'nonce'),
    );
    return { heir, nonce };
  }
}
