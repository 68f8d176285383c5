// All rows of a visitor, for an export: what analysts see of these profiles and identities, without FINAL, which would
// sort whole tables.

import type { ClickHouseClient } from '@clickhouse/client';
import { createClickHouse } from './client.js';
import { ALERT_COLUMNS, EVENT_COLUMNS, IS_EVENT, PURCHASE_COLUMNS } from './columns.js';
import { type ErasedUntil, isErasedRow, NAMES_IDENTITY, namedParams, type OwnedRow } from './erased-rows.js';

export type Row = Readonly<Record<string, unknown>>;

export interface VisitorRows {
  /** Columns of the view of that name, oldest first; times in ISO 8601. */
  readonly events: readonly Row[];
  /** Of the view `visits`. */
  readonly visitLog: readonly Row[];
  readonly purchases: readonly Row[];
  /** Of the view `product_alerts`. */
  readonly productAlerts: readonly Row[];
}

/** Milliseconds that ClickHouse may take for all of it. */
const TIMEOUT_MS = 30_000;

const OF_VISITOR = `(profile_id IN {profiles: Array(String)} OR ${NAMES_IDENTITY})`;

const QUERIES: Readonly<
  Record<keyof VisitorRows, { readonly clock: 'server' | 'redis'; readonly query: string }>
> = {
  events: {
    clock: 'server',
    query: `SELECT ${EVENT_COLUMNS}
      FROM events_stored WHERE ${OF_VISITOR} AND ${IS_EVENT}
      ORDER BY occurred_at, event_id LIMIT 1 BY event_id`,
  },
  visitLog: {
    clock: 'redis',
    query: `SELECT occurred_at, profile_id, CAST(product_handle, 'String') AS product_handle, device
      FROM visits_stored WHERE profile_id IN {profiles: Array(String)}
      ORDER BY occurred_at, stream, entry, place LIMIT 1 BY occurred_at, stream, entry, place`,
  },
  purchases: {
    clock: 'server',
    // Of the visitor's orders alone: their ids are what the table is sorted by. An erasure goes by taken_at: an order may be
    // stated after it, and tell an earlier time.
    query: `SELECT rows.*, products.product_handle AS product_handle
      FROM (SELECT ${PURCHASE_COLUMNS}, taken_at
        FROM (SELECT *, max(version) OVER (PARTITION BY order_id) AS newest
          FROM purchases_stored FINAL
          WHERE order_id GLOBAL IN (SELECT order_id FROM purchases_stored WHERE ${OF_VISITOR}))
        WHERE version = newest AND quantity > 0 AND ${OF_VISITOR}) AS rows
      LEFT ANY JOIN products ON products.product_id = rows.product_id
      ORDER BY occurred_at, order_id`,
  },
  productAlerts: {
    clock: 'server',
    query: `SELECT ${ALERT_COLUMNS}
      FROM events_stored WHERE ${OF_VISITOR} AND origin = 'alert'
      ORDER BY occurred_at, event_id LIMIT 1 BY event_id`,
  },
};

/** Reads rows of visitors from a ClickHouse that may not be there yet, or not at all. */
export class VisitorRowReader {
  readonly #urlOf: () => string;
  readonly #database: string;
  #url = '';
  #client: ClickHouseClient | undefined;

  /** @param urlOf asked at each reading; empty where there is no ClickHouse @param database of the tables */
  constructor(urlOf: () => string, database: string) {
    this.#urlOf = urlOf;
    this.#database = database;
  }

  /**
   * @param names of identities, see identityName
   * @param erased rows that ClickHouse may still have, and that are none any more
   * @returns undefined where there is no ClickHouse @throws ClickHouse's or the connection's error
   */
  async read(
    profiles: readonly string[],
    names: readonly string[],
    erased: ErasedUntil,
  ): Promise<VisitorRows | undefined> {
    const client = await this.#connect();
    return client && readVisitorRows(client, { profiles, ...namedParams(names) }, erased);
  }

  /** The embedded one has another password after each start. */
  async #connect(): Promise<ClickHouseClient | undefined> {
    const url = this.#urlOf();
    if (url !== this.#url) {
      await this.close();
      this.#client = url === '' ? undefined : createClickHouse(url, this.#database);
      this.#url = url;
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

async function readVisitorRows(
  client: ClickHouseClient,
  params: Readonly<Record<string, readonly string[]>>,
  erased: ErasedUntil,
): Promise<VisitorRows> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const read = async (kind: keyof VisitorRows): Promise<readonly Row[]> => {
    const { query, clock } = QUERIES[kind];
    const answer = await client.query({
      query,
      format: 'JSONEachRow',
      query_params: params,
      abort_signal: signal,
      clickhouse_settings: { date_time_output_format: 'iso' },
    });
    return (await answer.json<Row & OwnedRow>()).flatMap(({ taken_at: takenAt, ...row }) => {
      const at = Date.parse((takenAt ?? row['occurred_at']) as string);
      return isErasedRow(row, at, clock, erased) ? [] : [row];
    });
  };
  const [events, visitLog, purchases, productAlerts] = await Promise.all([
    read('events'),
    read('visitLog'),
    read('purchases'),
    read('productAlerts'),
  ]);
  return { events, visitLog, purchases, productAlerts };
}
