// Journals multi-step operations before they begin, for resume.ts:
//
//   merge <profile> <target's profile> <its generation> <mergeId>
//   erase <profile> <its generation>
//
// Each is listed at its profile's node, so that a failover loses both or neither.

import { bucketOf } from '../redis/keys.js';
import { streamsOf } from '../redis/node-markers.js';
import type { Store } from '../redis/store.js';
import { removeKeys, writeAtMaxmemory } from '../redis/write.js';

const PAGE = 250;

export class Pending {
  constructor(private readonly store: Store) {}

  async begin(profileId: string, operation: string): Promise<void> {
    const key = this.store.keys.pending(this.#streamOf(profileId));
    await writeAtMaxmemory(this.store, key, ['ZADD', 'NX', Date.now(), operation]);
  }

  async end(profileId: string, operation: string): Promise<void> {
    await this.#end(this.#streamOf(profileId), operation);
  }

  /** Removes an operation from every node's list, because its profile's slot may have moved. */
  async forget(operation: string): Promise<void> {
    for (const stream of await this.#streams()) await this.#end(stream, operation);
  }

  async clear(): Promise<void> {
    const { keys } = this.store;
    for (const stream of await this.#streams()) await removeKeys(this.store, [keys.pending(stream)]);
  }

  /** May repeat an operation, or miss one that begins or ends during the scan. */
  async *pages(): AsyncGenerator<readonly string[]> {
    for (const stream of await this.#streams()) {
      const key = this.store.keys.pending(stream);
      let cursor = '0';
      do {
        const from = cursor;
        const [next, found] = await this.store.call((client) => client.zscan(key, from, 'COUNT', PAGE));
        cursor = next;
        yield found.filter((_, i) => i % 2 === 0);
      } while (cursor !== '0');
    }
  }

  async #end(stream: number, operation: string): Promise<void> {
    await writeAtMaxmemory(this.store, this.store.keys.pending(stream), ['ZREM', operation]);
  }

  #streamOf(profileId: string): number {
    return this.store.streamAt(this.store.addressOf(bucketOf(profileId)));
  }

  #streams(): Promise<number[]> {
    return this.store.call((client) => streamsOf(client, this.store.keys));
  }
}
