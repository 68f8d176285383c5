// Lists multi-step work before it begins, for resume.ts:
//
//   merge <session's profile> <customer's profile> <link id>   until the frozen data are removed
//   leave <session's profile> <customer's profile> <link id>   until the customer's note says that the session has moved
//   erase <profile> <erasure's id>                             until nothing leads to the profile
//
// Each is listed at the node of its first profile, so that a failover loses both or neither. If several processes do the same
// work, each lists a `leave` of its own, because the first to end doesn't know whether the others have ended. They share
// `merge`, which stays listed as long as the frozen data.

import { randomBytes } from 'node:crypto';
import { bucketOf } from '../redis/keys.js';
import { streamsOf } from '../redis/node-markers.js';
import type { Store } from '../redis/store.js';
import { removeKeys, writeAtMaxmemory } from '../redis/write.js';
import { type LinkRef, targetText } from './link.js';

const PAGE = 250;
/** Milliseconds after which work counts as interrupted. */
const DUE_MS = 30_000;

export class Pending {
  constructor(private readonly store: Store) {}

  async begin(profileId: string, work: string): Promise<void> {
    await this.#list(this.#streamOf(profileId), work, DUE_MS, 'NX');
  }

  async end(profileId: string, work: string): Promise<void> {
    await this.#end(this.#streamOf(profileId), work);
  }

  /** Removes work from every node's list, because its profile's slot may have moved. */
  async forget(work: string): Promise<void> {
    for (const stream of await this.#streams()) await this.#end(stream, work);
  }

  async clear(): Promise<void> {
    const { keys } = this.store;
    for (const stream of await this.#streams()) await removeKeys(this.store, [keys.pending(stream)]);
  }

  /** Yields work that is due. Others will see it again only after DUE_MS. */
  async *takeDue(): AsyncGenerator<string> {
    for (const stream of await this.#streams()) {
      const key = this.store.keys.pending(stream);
      for (;;) {
        const due = await this.store.call((client) =>
          client.zrangebyscore(key, '-inf', this.store.now, 'LIMIT', 0, PAGE),
        );
        for (const work of due) {
          await this.#list(stream, work, DUE_MS, 'XX');
          yield work;
        }
        if (due.length < PAGE) break;
      }
    }
  }

  /** @param ms from now */
  async postpone(work: string, ms: number): Promise<void> {
    for (const stream of await this.#streams()) await this.#list(stream, work, ms, 'XX');
  }

  async #list(stream: number, work: string, ms: number, how: 'NX' | 'XX'): Promise<void> {
    const due = Math.floor(this.store.now + ms);
    await writeAtMaxmemory(this.store, this.store.keys.pending(stream), ['ZADD', how, due, work]);
  }

  async #end(stream: number, work: string): Promise<void> {
    await writeAtMaxmemory(this.store, this.store.keys.pending(stream), ['ZREM', work]);
  }

  #streamOf(profileId: string): number {
    return this.store.streamAt(this.store.addressOf(bucketOf(profileId)));
  }

  #streams(): Promise<number[]> {
    return this.store.call((client) => streamsOf(client, this.store.keys));
  }
}

export function mergeWork(session: string, link: LinkRef): string {
  return `merge ${session} ${targetText(link)}`;
}

export function leaveWork(session: string, link: LinkRef): string {
  return `leave ${session} ${targetText(link)} ${randomBytes(6).toString('base64url')}`;
}
