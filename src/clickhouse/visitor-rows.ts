// Streams all rows of a visitor for an export, as analysts see them. Events and visits are read without FINAL, which
// would sort whole tables.

import type { ClickHouseClient } from '@clickhouse/client';
import { MONEY_AS_TEXT } from './client.js';
import { ALERT_COLUMNS, EVENT_COLUMNS, IS_EVENT, PURCHASE_COLUMNS } from './columns.js';
import {
  customerParams,
  type Erasures,
  erasedUnder,
  IS_OF_ORDER,
  isErasedRow,
  NAMES_CUSTOMER,
  type OwnedRow,
} from './erased-rows.js';
import { FollowingClient } from './following-client.js';

export const ROW_TABLES = ['events', 'visitLog', 'purchases', 'productAlerts'] as const;
export type RowTable = (typeof ROW_TABLES)[number];

export type RowTexts = AsyncIterable<readonly string[]>;

export interface Owners {
  readonly profiles: readonly string[];
  /** Names of customers, as identityName makes them. */
  readonly customers: readonly string[];
  /** Erasures that ClickHouse may not have executed yet. */
  readonly erased: Erasures;
}

const BEGIN_MS = 30_000;
/** Keeps a query below ClickHouse's limits: parameters of 128 KiB, URLs of 1 MiB. */
const PAGE = 500;

const OF_PROFILE = 'profile_id IN {profiles: Array(String)}';
const OF_VISITOR = `(${OF_PROFILE} OR ${NAMES_CUSTOMER})`;

const QUERIES: Readonly<
  Record<RowTable, { readonly clock: 'server' | 'redis'; readonly query: string; readonly hasTaken?: true }>
> = {
  events: {
    clock: 'server',
    query: `SELECT ${EVENT_COLUMNS}
      FROM events_stored WHERE (${OF_PROFILE} OR ${IS_OF_ORDER} AND ${NAMES_CUSTOMER}) AND ${IS_EVENT}
      ORDER BY occurred_at, event_id LIMIT 1 BY event_id`,
  },
  visitLog: {
    clock: 'redis',
    query: `SELECT occurred_at, profile_id, CAST(product_handle, 'String') AS product_handle, device
      FROM visits_stored WHERE ${OF_PROFILE}
      ORDER BY occurred_at, stream, entry, line LIMIT 1 BY occurred_at, stream, entry, line`,
  },
  purchases: {
    clock: 'server',
    hasTaken: true,
    // The table is sorted by order id, so find the visitor's orders first. Erasures compare taken_at: a row taken after
    // the erasure may have an earlier occurred_at.
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
      FROM events_stored WHERE ${OF_PROFILE} AND origin = 'alert'
      ORDER BY occurred_at, event_id LIMIT 1 BY event_id`,
  },
};

/** Tables whose rows name no customer. */
const BY_PROFILE: readonly RowTable[] = ['visitLog', 'productAlerts'];

export class VisitorRowReader {
  readonly #clickhouse: FollowingClient;

  constructor(urlOf: () => string, database: string) {
    this.#clickhouse = new FollowingClient(urlOf, database);
  }

  /**
   * Yields rows, oldest first within each PAGE of profiles and customers.
   * @returns undefined if there is no ClickHouse; iterating throws its errors
   */
  async read(table: RowTable, owners: Owners, signal: AbortSignal): Promise<RowTexts | undefined> {
    const client = await this.#clickhouse.connect();
    return client && readRows(client, table, owners, signal);
  }

  close(): Promise<void> {
    return this.#clickhouse.close();
  }
}

async function* readRows(
  client: ClickHouseClient,
  table: RowTable,
  { profiles, customers, erased }: Owners,
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  const { query, clock, hasTaken } = QUERIES[table];
  const pages = pagesOf(BY_PROFILE.includes(table) ? { profiles, customers: [] } : { profiles, customers });
  const pageOf = new Map(
    pages.flatMap((page, at) => [...page.profiles, ...page.customers].map((key) => [key, at])),
  );
  for (const [at, page] of pages.entries())
    for await (const texts of readPage(client, query, page, signal))
      if (pages.length === 1 && erased.size === 0 && !hasTaken) yield texts;
      else
        yield texts.flatMap((text) => {
          const { taken_at: takenAt, ...row } = JSON.parse(text) as OwnedRow &
            Readonly<Record<string, unknown>>;
          const first = Math.min(...erasedUnder(row).map((key) => pageOf.get(key) ?? at));
          const time = Date.parse((takenAt ?? row['occurred_at']) as string);
          return first < at || isErasedRow(row, time, clock, erased) ? [] : [JSON.stringify(row)];
        });
}

type Page = Pick<Owners, 'profiles' | 'customers'>;

function pagesOf({ profiles, customers }: Page): Page[] {
  const pages: Page[] = [];
  for (let i = 0; i < Math.max(profiles.length, customers.length); i += PAGE)
    pages.push({ profiles: profiles.slice(i, i + PAGE), customers: customers.slice(i, i + PAGE) });
  return pages;
}

async function* readPage(
  client: ClickHouseClient,
  query: string,
  { profiles, customers }: Page,
  signal: AbortSignal,
): AsyncGenerator<string[]> {
  const beginning = AbortSignal.any([signal, AbortSignal.timeout(BEGIN_MS)]);
  const answer = await client.query({
    query,
    format: 'JSONEachRow',
    query_params: { profiles, ...customerParams(customers) },
    abort_signal: beginning,
    clickhouse_settings: {
      ...MONEY_AS_TEXT,
      date_time_output_format: 'iso',
      // Otherwise an error after the first rows would look like a row.
      http_write_exception_in_output_format: 0,
    },
  });
  const close = () => answer.close();
  signal.addEventListener('abort', close);
  try {
    signal.throwIfAborted();
    for await (const rows of answer.stream()) {
      const texts = rows.map(({ text }) => text);
      // Servers before 25.11 append the text of a late error to the rows.
      const fault = texts.find((text) => !(text.startsWith('{') && text.endsWith('}')));
      if (fault !== undefined) throw new Error(`ClickHouse ended its answer: ${fault.slice(-1_000)}`);
      yield texts;
    }
  } finally {
    signal.removeEventListener('abort', close);
    close();
  }
}
