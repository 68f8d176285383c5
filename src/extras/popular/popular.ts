// Keeps the numbers of saved products in memory, and reads them again in the background. A look that fails leaves the
// numbers as they were, and is repeated with back-off.

import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../../backoff.js';
import type { FollowingClient } from '../../clickhouse/following-client.js';
import { ServiceError } from '../../errors.js';
import { type Counting, look, type PopularProducts } from './look.js';

/** The highest age of the numbers while ClickHouse answers. */
export const MAX_AGE_S = 300;
const RETRY_AFTER_S = 5;
/** While an embedded ClickHouse starts, it has no URL. */
const WITHOUT_URL_MS = 5_000;
/** Fewer failures are not logged: `flush` may not have created the tables yet, and ClickHouse may restart. */
const LOGGED_FAILURES = 3;

export interface Looks {
  /** The longest pause between two looks. */
  readonly everyMs: number;
  readonly again: Backoff;
  readonly deadlineMs: number;
}

export const USUAL_LOOKS: Looks = {
  // Leaves time for the query.
  everyMs: (MAX_AGE_S - 15) * 1_000,
  again: { firstMs: 1_000, longestMs: MAX_AGE_S * 1_000 },
  deadlineMs: 60_000,
};

export interface PopularSpec {
  readonly clickhouse: FollowingClient;
  readonly counting: Counting;
  readonly looks: Looks;
  readonly log: Logger;
  readonly onFailed: () => void;
}

export class Popular {
  #products: PopularProducts | undefined;
  /** When the numbers were read, or the first look began. */
  #since: number | undefined;

  constructor(private readonly spec: PopularSpec) {}

  /** False also before an embedded ClickHouse has its first URL. */
  get hasClickHouse(): boolean {
    return this.#since !== undefined;
  }

  /** @returns undefined without ClickHouse */
  get ageS(): number | undefined {
    return this.#since === undefined ? undefined : (performance.now() - this.#since) / 1_000;
  }

  /** @throws ServiceError before the first look has ended */
  get products(): PopularProducts {
    if (this.#products !== undefined) return this.#products;
    throw new ServiceError(
      'unavailable',
      'How many visitors saved a product is not known yet; send the request again.',
      undefined,
      { retryAfterS: RETRY_AFTER_S },
    );
  }

  /** The first look begins now. */
  watch(): () => Promise<void> {
    const closing = new AbortController();
    const running = this.#run(closing.signal);
    return async () => {
      closing.abort();
      await running;
    };
  }

  async #run(closing: AbortSignal): Promise<void> {
    const { everyMs, again } = this.spec.looks;
    for (let failures = 0; !closing.aborted; ) {
      let pauseMs = WITHOUT_URL_MS;
      try {
        if (await this.#look(closing)) pauseMs = backoffMs(1, { firstMs: everyMs, longestMs: everyMs });
        failures = 0;
      } catch (error) {
        if (closing.aborted) return;
        failures++;
        this.#report(error as Error, failures);
        pauseMs = backoffMs(failures, again);
      }
      await pause(pauseMs, closing);
    }
  }

  /** @returns false if there is no ClickHouse */
  async #look(closing: AbortSignal): Promise<boolean> {
    const client = await this.spec.clickhouse.connect();
    if (client === undefined) return false;
    const { counting, looks } = this.spec;
    const began = performance.now();
    this.#since ??= began;
    this.#products = await look(client, counting, looks.deadlineMs, closing);
    this.#since = began;
    return true;
  }

  #report(error: Error, failures: number): void {
    this.spec.onFailed();
    if (failures >= LOGGED_FAILURES)
      this.spec.log.warn({ err: error, failures }, 'GET /popular keeps its old numbers: ClickHouse fails');
  }
}
