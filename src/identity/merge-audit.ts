// Looks at the merges of the last hours, and at erasures: finishes what a process left half done. After a failover of a
// cluster's node it finds merges that the heir's side has forgotten, and does them again from their journals. The other
// side needs no audit: a profile that forgot that it was merged is live again, and its next merge adds what it gained.
// (On one server neither happens. What it forgets is the end of one history, which both sides are in.)

import { setTimeout as sleep } from 'node:timers/promises';
import { isCustomerName } from '../identity-rules.js';
import { ERASED, type FinishErasure, MAX_HOPS } from '../redis/at-profile.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Linker } from './link.js';
import type { Merger } from './merge.js';

/** Milliseconds. */
const SPREAD_MS = 1_000;
const MERGES = loadScript<(string | number)[]>('merges');

/** Buckets that one call asks for. */
const AT_ONCE = 1_024;

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
    for (const from of await this.#merged()) await this.#check(from);
  }

  /** Profiles that were merged away in the last hours, or are being erased: many buckets in one call to their node. */
  async #merged(): Promise<string[]> {
    const { keys, deployment } = this.#store;
    const ofNodes = new Map<string | undefined, string[]>();
    for (let number = 0; number < deployment.buckets; number++) {
      const bucket = number.toString(36);
      const address = this.#store.addressOf(bucket);
      const ofNode = ofNodes.get(address);
      if (ofNode === undefined) ofNodes.set(address, [keys.merges(bucket)]);
      else ofNode.push(keys.merges(bucket));
    }
    const merged: string[] = [];
    for (const all of ofNodes.values())
      for (let i = 0; i < all.length; i += AT_ONCE) {
        const some = all.slice(i, i + AT_ONCE);
        for (const found of await this.#store.run(MERGES, some.slice(0, 1), some)) {
          if (typeof found === 'string') merged.push(found);
          // Its slot has moved, or is on the move.
          else
            merged.push(
              ...(await this.#store.call((client) => client.zrange(some[found - 1] as string, '0', '-1'))),
            );
        }
      }
    return merged;
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
    // The owner's door may be on the node that forgot, too.
    const [, , profile] = keys.journal(from);
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
