// Product updates and their alerts, which are sent in the background. An update stays in the journal until all its
// alerts are sent. If a process dies, another one finishes an entry that it finds in two consecutive scans. A product's
// newest version wins. The version is Shopify's `updated_at`, or else the time of arrival.

import { backoffMs, pause } from '../../backoff.js';
import { ServiceError } from '../../errors.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';
import type { Product } from './alert.js';
import { alertKeys } from './keys.js';
import { type Change, Notifier, type NotifierSpec } from './notifier.js';

const PRODUCT = loadScript<[] | [version: number, since: number]>('extras/alerts/journalProduct');
/** Milliseconds that a version is remembered, longer than Shopify repeats a webhook. */
const REMEMBERED_MS = 48 * 60 * 60_000;
/** Entries have up to 512 KiB. */
const PAGE = 16;
const MAX_SCANNED = 1_000;
const SCAN_MS = 30_000;
/** Products whose ids this process keeps, to send their alerts. A later scan finds the rest. */
const MAX_WANTED = 10_000;
/** Products whose alerts are sent at the same time, in turns of a page of subscribers. */
const MAX_CONCURRENT = 16;

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
  readonly #keys: ReturnType<typeof alertKeys>;
  readonly #spec: ProductsSpec;
  readonly #notifier: Notifier;
  readonly #closing = new AbortController();
  readonly #wanted = new Set<string>();
  /** Products that a worker is sending, or waits to send again. */
  readonly #busy = new Set<string>();
  readonly #workers = new Set<Promise<void>>();
  /** `<version> <product id>` of journaled updates -> when a scan first found them, by `performance.now()`. */
  #seen: ReadonlyMap<string, number> = new Map();

  constructor(spec: ProductsSpec) {
    this.#store = spec.store;
    this.#keys = alertKeys(spec.store.keys);
    this.#spec = spec;
    this.#notifier = new Notifier(spec);
  }

  /** Journals the update. Its alerts are sent later. @param updatedAt milliseconds since 1970; undefined means now */
  async take(product: Product, updatedAt?: number): Promise<void> {
    const version = await this.journal(product, updatedAt);
    if (version === undefined) return;
    if (updatedAt !== undefined && version < updatedAt) this.#spec.onFuture();
    this.#want(product.productId);
  }

  /** @returns the update's version; undefined if there is a newer one */
  async journal(product: Product, updatedAt?: number): Promise<number | undefined> {
    return (await this.#run(product.productId, updatedAt ?? '', JSON.stringify(product)))[0];
  }

  /** Sends the alerts of a journaled product, if there is one. Idempotent. */
  async send(productId: string): Promise<void> {
    const change = await this.#read(productId);
    if (change === undefined) return;
    const { product, version } = change;
    await this.#spec.record(product, version);
    await this.#notifier.notify(change, this.#closing.signal);
    await this.#run(productId, version, '');
  }

  /** @returns the number of journaled products, and how long this process has seen the oldest one */
  async open(): Promise<{ readonly products: number; readonly oldestMs: number }> {
    const { products } = this.#keys;
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
      await Promise.all(this.#workers);
    };
  }

  async look(): Promise<void> {
    const { products, productVersions } = this.#keys;
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
    } while (cursor !== '0' && open.size < MAX_SCANNED);
    const [seen, now] = [this.#seen, performance.now()];
    for (const [name, id] of open) if (seen.has(name)) this.#want(id);
    this.#seen = new Map(Array.from(open.keys(), (name) => [name, seen.get(name) ?? now]));
  }

  #want(productId: string): void {
    if (this.#wanted.size < MAX_WANTED) this.#wanted.add(productId);
    if (this.#workers.size === MAX_CONCURRENT) return;
    const worker = this.#work().finally(() => this.#workers.delete(worker));
    this.#workers.add(worker);
  }

  async #work(): Promise<void> {
    const { signal } = this.#closing;
    let failures = 0;
    for (let id = this.#next(); id !== undefined && !signal.aborted; id = this.#next()) {
      this.#wanted.delete(id);
      this.#busy.add(id);
      try {
        await this.send(id);
        failures = 0;
      } catch (error) {
        if (!signal.aborted) this.#spec.onError(error as Error);
        // Any other error would come again: the next scan is soon enough.
        if (error instanceof ServiceError) {
          await pause(backoffMs(++failures), signal);
          this.#wanted.add(id);
        }
      }
      this.#busy.delete(id);
    }
  }

  /** A busy product that has changed again is left to the worker that has it. */
  #next(): string | undefined {
    for (const id of this.#wanted) if (!this.#busy.has(id)) return id;
    return undefined;
  }

  #run(productId: string, version: number | '', text: string) {
    const { products, productVersions } = this.#keys;
    return this.#store.change(
      PRODUCT,
      [products, productVersions],
      [productId, version, text, REMEMBERED_MS],
    );
  }

  async #read(productId: string): Promise<Change | undefined> {
    const { products } = this.#keys;
    const written = await this.#store.call((client) => client.hget(products, productId));
    if (written === null) return undefined;
    const [head = '', json = ''] = written.split('\n');
    const [version = 0, since = 0] = head.split(' ').map(Number);
    return { product: JSON.parse(json) as Product, version, since };
  }
}
