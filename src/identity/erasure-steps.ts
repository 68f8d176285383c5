// Single steps of an erasure, which know nothing of its order: see src/identity/eraser.ts.

import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const ERASURES = loadScript('erasures');
const PUT = loadScript('put');

const PAGE = 250;
/** Keys or names that one call takes. */
const AT_ONCE = 100;

export class ErasureSteps {
  readonly #store: Store;
  readonly #queuesRows: boolean;

  /** @param queuesRows whether rows in streams and ClickHouse are queued for erasure; not where all of the shop is */
  constructor(store: Store, queuesRows: boolean) {
    this.#store = store;
    this.#queuesRows = queuesRows;
  }

  /**
   * Queues the rows of profiles, and those that name an identity, for erasure from streams and ClickHouse: all up to now.
   * @param what profile ids and identity names
   */
  async queueRows(what: readonly string[]): Promise<void> {
    if (!this.#queuesRows) return;
    for (let i = 0; i < what.length; i += AT_ONCE)
      await this.#store.change(
        ERASURES,
        [this.#store.keys.erasures],
        [Date.now(), ...what.slice(i, i + AT_ONCE)],
      );
  }

  /** Request records that name a profile. */
  async eraseRequests(profileId: string): Promise<void> {
    const key = this.#store.keys.requests(profileId);
    const digests = await this.#store.call((client) => client.zrange(key, '0', '-1'));
    for (let i = 0; i < digests.length; i += AT_ONCE)
      await Promise.all(
        digests
          .slice(i, i + AT_ONCE)
          .map((digest) => this.#store.change(PUT, [this.#store.keys.request(digest)], [''])),
      );
  }

  async eraseCode(code: string): Promise<void> {
    await this.#store.change(PUT, [this.#store.keys.share(code)], ['']);
  }

  async *fieldsOf(key: string): AsyncGenerator<string> {
    let cursor = '0';
    do {
      const from = cursor;
      const [next, fields] = await this.#store.call((client) => client.hscan(key, from, 'COUNT', PAGE));
      cursor = next;
      for (let i = 0; i < fields.length; i += 2) yield fields[i] as string;
    } while (cursor !== '0');
  }
}
