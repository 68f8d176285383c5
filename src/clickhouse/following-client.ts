// A client of ClickHouse at a URL that may change: an embedded ClickHouse has another password after each start.

import type { ClickHouseClient } from '@clickhouse/client';
import { createClickHouse } from './client.js';

export class FollowingClient {
  #url = '';
  #client: ClickHouseClient | undefined;

  constructor(
    private readonly urlOf: () => string,
    private readonly database: string,
  ) {}

  /** @returns undefined if there is no ClickHouse */
  async connect(): Promise<ClickHouseClient | undefined> {
    const url = this.urlOf();
    if (url !== this.#url) {
      // Set before the wait: another caller may connect then.
      const closing = this.close();
      this.#client = url === '' ? undefined : createClickHouse(url, this.database);
      this.#url = url;
      await closing;
    }
    return this.#client;
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    this.#url = '';
    await client?.close();
  }
}
