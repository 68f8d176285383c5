// Products as they are now. Each is written down before its wishers are told of it, and struck out when all of them are:
//
//   PUT      ──▶ written down ──▶ told ──▶ struck out ──▶ answered, with how many were told
//   webhook  ──▶ written down ──▶ answered   and then the same, one product after the other
//
// What a process leaves half done is done by any process that finds it at two looks in a row. Of two versions of a product the
// newer one stays: a version is Shopify's `updated_at`, else the moment in which it came.

import { backoffMs, pause } from '../backoff.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Product } from './alert.js';
import { type Change, type Counts, Teller, type TellerSpec } from './teller.js';

const PRODUCT = loadScript<[] | [version: number, since: number]>('product');
/** Milliseconds for which versions are remembered: Shopify repeats a webhook for less. */
const REMEMBERED_MS = 48 * 60 * 60_000;
/** Products that HSCAN looks at, with all that they are like. */
const PAGE = 100;
/** Products that one look takes up, and that a process has to do: the next ones come when these are done. */
const MOST = 1_000;
/** Milliseconds between looks at what is left. */
const LOOK_MS = 30_000;

export interface ProductsSpec extends TellerSpec {
  /** Called with each version before its wishers are told; again if they are told again. Analysts see the product so. */
  readonly record: (product: Product, version: number) => Promise<unknown>;
  /** Told why a product is not done yet: it will be tried again. */
  readonly onError: (error: Error) => void;
  /** Called for each version that is later than Redis's clock: it counts as this moment. */
  readonly onFuture: () => void;
  /** Other than LOOK_MS in tests. */
  readonly lookMs?: number | undefined;
}

export class Products {
  readonly #store: Store;
  readonly #spec: ProductsSpec;
  readonly #teller: Teller;
  readonly #closing = new AbortController();
  /** Ids of products that this process is to do, MOST and the one under way at most: a look finds the others. */
  readonly #wanted = new Set<string>();
  /** Versions that were open at the last look -> when a look saw them first, of our monotonic clock; about MOST at most. */
  #seen: ReadonlyMap<string, number> = new Map();
  #running: Promise<void> | undefined;

  constructor(spec: ProductsSpec) {
    this.#store = spec.store;
    this.#spec = spec;
    this.#teller = new Teller(spec);
  }

  /**
   * Tells all wishers. Safe to repeat: those that were told are not told again.
   * @throws ServiceError `unavailable`, `overloaded`: it goes on after some time, also where it is not repeated
   */
  async put(product: Product): Promise<Counts> {
    const [version = 0, since = 0] = await this.#write(product, '');
    return this.#tell({ product, version, since });
  }

  /** Takes note of a product; its wishers are told afterwards. @param updatedAt milliseconds since 1970 @throws ServiceError `unavailable` */
  async take(product: Product, updatedAt: number | undefined): Promise<void> {
    const [version] = await this.#write(product, updatedAt ?? '');
    if (version === undefined) return;
    if (updatedAt !== undefined && version < updatedAt) this.#spec.onFuture();
    this.#want(product.productId);
  }

  /**
   * Products whose wishers are not all told yet, and for how many milliseconds this process has seen the oldest of them.
   * @throws ServiceError `unavailable`
   */
  async open(): Promise<{ readonly products: number; readonly oldestMs: number }> {
    const { products } = this.#store.keys;
    const count = await this.#store.call((client) => client.hlen(products));
    if (count === 0) return { products: 0, oldestMs: 0 };
    const now = performance.now();
    const oldest = [...this.#seen.values()].reduce((least, at) => Math.min(least, at), now);
    return { products: count, oldestMs: now - oldest };
  }

  /** Looks now, and now and then, at what was left half done. @returns what ends it, once the page under way is done */
  watch(): () => Promise<void> {
    // Where Redis is away, that is logged elsewhere.
    const look = () => void this.look().catch(() => {});
    const timer = setInterval(look, this.#spec.lookMs ?? LOOK_MS);
    look();
    return async () => {
      clearInterval(timer);
      this.#closing.abort();
      await this.#running;
    };
  }

  /** Goes on with what was open at the last look, too. @throws ServiceError `unavailable` */
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
    // `#running` is set by then, and unset in the step that finds nothing wanted.
    await undefined;
    for (let [id] = this.#wanted; id !== undefined && !signal.aborted; [id] = this.#wanted) {
      this.#wanted.delete(id);
      try {
        const change = await this.#read(id);
        if (change !== undefined) await this.#tell(change);
        failures = 0;
      } catch (error) {
        this.#wanted.add(id);
        if (!signal.aborted) this.#spec.onError(error as Error);
        await pause(backoffMs(++failures), signal);
      }
    }
    this.#running = undefined;
  }

  async #tell(change: Change): Promise<Counts> {
    await this.#spec.record(change.product, change.version);
    const counts = await this.#teller.tell(change, this.#closing.signal);
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
