// Product updates and their alerts. An update stays in the journal until all its alerts are sent. If a process dies,
// another one finishes an entry that it finds in two consecutive scans. A product's newest version wins. The version is
// Shopify's `updated_at`, or else the time of arrival.

import { backoffMs, pause } from '../../backoff.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';
import type { Product } from './alert.js';
import { type Change, type Counts, Notifier, type NotifierSpec } from './notifier.js';

const PRODUCT = loadScript<[] | [version: number, since: number]>('extras/alerts/journalProduct');
/** Milliseconds that a version is remembered, longer than Shopify repeats a webhook. */
const REMEMBERED_MS = 48 * 60 * 60_000;
const PAGE = 100;
const MOST = 1_000;
const SCAN_MS = 30_000;

export interface ProductsSpec extends NotifierSpec {
  /** Records the product's row. Called before the alerts are sent, and again if they are retried. */
  readonly record: (product: Product, version: number) => Promise<unknown>;
  readonly onError: (error: Error) => void;
  /** Called if a version was in the future by Redis's clock, and was replaced by the current time. */
  readonly onFuture: () => void;
  readonly scanMs?: number | undefined;
}

export class Products {
  readonly #store: Store;
  readonly #spec: ProductsSpec;
  readonly #notifier: Notifier;
  readonly #closing = new AbortController();
  /** Ids of products whose alerts this process sends, at most MOST. A later scan finds the rest. */
  readonly #wanted = new Set<string>();
  /** `<version> <product id>` of journaled updates -> when a scan first found them, by `performance.now()`. */
  #seen: ReadonlyMap<string, number> = new Map();
  #running: Promise<void> | undefined;

  constructor(spec: ProductsSpec) {
    this.#store = spec.store;
    this.#spec = spec;
    this.#notifier = new Notifier(spec);
  }

  /**
   * Journals the update and sends its alerts. Idempotent. If it fails after journaling, the alerts are sent later.
   * @throws ServiceError `overloaded`
   */
  async put(product: Product): Promise<Counts> {
    const [version = 0, since = 0] = await this.#write(product, '');
    return this.#notify({ product, version, since });
  }

  /** Journals the update. Its alerts are sent later. @param updatedAt milliseconds since 1970 */
  async take(product: Product, updatedAt: number | undefined): Promise<void> {
    const [version] = await this.#write(product, updatedAt ?? '');
    if (version === undefined) return;
    if (updatedAt !== undefined && version < updatedAt) this.#spec.onFuture();
    this.#want(product.productId);
  }

  /** @returns the number of journaled products, and how long this process has seen the oldest one */
  async open(): Promise<{ readonly products: number; readonly oldestMs: number }> {
    const { products } = this.#store.keys;
    const count = await this.#store.call((client) => client.hlen(products));
    if (count === 0) return { products: 0, oldestMs: 0 };
    const now = performance.now();
    const oldest = [...this.#seen.values()].reduce((least, at) => Math.min(least, at), now);
    return { products: count, oldestMs: now - oldest };
  }

  watch(): () => Promise<void> {
    const look = () => void this.look().catch(() => {});
    const timer = setInterval(look, this.#spec.scanMs ?? SCAN_MS);
    look();
    return async () => {
      clearInterval(timer);
      this.#closing.abort();
      await this.#running;
    };
  }

  async look(): Promise<void> {
    const { products, productVersions } = this.#store.keys;
    const open = new Map<string, string>();
    let cursor = '0';
    do {
      const from = cursor;
      const [next, found] = await this.#store.call((client) => client.hscan(products, from, 'COUNT', PAGE));
      cursor = next;
      const page = found.filter((_, i) => i % 2 === 0);
      if (page.length === 0) continue;
      const versions = await this.#store.call((client) => client.zmscore(productVersions, ...page));
      for (const [at, id] of page.entries()) open.set(`${versions[at]} ${id}`, id);
    } while (cursor !== '0' && open.size < MOST);
    const [seen, now] = [this.#seen, performance.now()];
    for (const [name, id] of open) if (seen.has(name)) this.#want(id);
    this.#seen = new Map(Array.from(open.keys(), (name) => [name, seen.get(name) ?? now]));
  }

  #want(productId: string): void {
    if (this.#wanted.size < MOST) this.#wanted.add(productId);
    this.#running ??= this.#work();
  }

  async #work(): Promise<void> {
    const { signal } = this.#closing;
    let failures = 0;
    // The caller must set `#running` before this function clears it.
    await undefined;
    for (let [id] = this.#wanted; id !== undefined && !signal.aborted; [id] = this.#wanted) {
      this.#wanted.delete(id);
      try {
        const change = await this.#read(id);
        if (change !== undefined) await this.#notify(change);
        failures = 0;
      } catch (error) {
        this.#wanted.add(id);
        if (!signal.aborted) this.#spec.onError(error as Error);
        await pause(backoffMs(++failures), signal);
      }
    }
    this.#running = undefined;
  }

  async #notify(change: Change): Promise<Counts> {
    await this.#spec.record(change.product, change.version);
    const counts = await this.#notifier.notify(change, this.#closing.signal);
    await this.#run(change.product.productId, change.version, '');
    return counts;
  }

  #write(product: Product, version: number | '') {
    return this.#run(product.productId, version, JSON.stringify(product));
  }

  #run(productId: string, version: number | '', text: string) {
    const { products, productVersions } = this.#store.keys;
    return this.#store.change(
      PRODUCT,
      [products, productVersions],
      [productId, version, text, REMEMBERED_MS],
    );
  }

  async #read(productId: string): Promise<Change | undefined> {
    const { products } = this.#store.keys;
    const written = await this.#store.call((client) => client.hget(products, productId));
    if (written === null) return undefined;
    const [head = '', json = ''] = written.split('\n');
    const [version = 0, since = 0] = head.split(' ').map(Number);
    return { product: JSON.parse(json) as Product, version, since };
  }
}
