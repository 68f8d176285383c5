// Streams all rows of a visitor for an export, as analysts see them. Events and visits are read without FINAL, which
// would sort whole tables.

import type { ClickHouseClient } from '@clickhouse/client';
import { createClickHouse, MONEY_AS_TEXT } from './client.js';
import { ALERT_COLUMNS, EVENT_COLUMNS, IS_EVENT, PURCHASE_COLUMNS } from './columns.js';
import {
  type Erasures,
  erasedUnder,
  isErasedRow,
  NAMES_IDENTITY,
  namedParams,
  type OwnedRow,
} from './erased-rows.js';

export const ROW_TABLES = ['events', 'visitLog', 'purchases', 'productAlerts'] as const;
export type RowTable = (typeof ROW_TABLES)[number];

export type RowTexts = AsyncIterable<readonly string[]>;

export interface Owners {
  readonly profiles: readonly string[];
  /** Names of identities, as identityName makes them. */
  readonly names: readonly string[];
  /** Erasures that ClickHouse may not have executed yet. */
  readonly erased: Erasures;
}

const BEGIN_MS = 30_000;
/** Keeps a query below ClickHouse's limits: parameters of 128 KiB, URLs of 1 MiB. */
const PAGE = 500;

const OF_VISITOR = `(profile_id IN {profiles: Array(String)} OR ${NAMES_IDENTITY})`;

const QUERIES: Readonly<
  Record<RowTable, { readonly clock: 'server' | 'redis'; readonly query: string; readonly hasTaken?: true }>
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
      FROM events_stored WHERE ${OF_VISITOR} AND origin = 'alert'
      ORDER BY occurred_at, event_id LIMIT 1 BY event_id`,
  },
};

export class VisitorRowReader {
  readonly #urlOf: () => string;
  readonly #database: string;
  #url = '';
  #client: ClickHouseClient | undefined;

  constructor(urlOf: () => string, database: string) {
    this.#urlOf = urlOf;
    this.#database = database;
  }

  /**
   * Yields rows, oldest first within each PAGE of profiles and names.
   * @returns undefined if there is no ClickHouse; iterating throws its errors
   */
  async read(table: RowTable, owners: Owners, signal: AbortSignal): Promise<RowTexts | undefined> {
    const client = await this.#connect();
    return client && readRows(client, table, owners, signal);
  }

  /** The password of an embedded ClickHouse may change when it starts again. */
  async #connect(): Promise<ClickHouseClient | undefined> {
    const url = this.#urlOf();
    if (url !== this.#url) {
      // Set before the wait: another export may connect then.
      const closing = this.close();
      this.#client = url === '' ? undefined : createClickHouse(url, this.#database);
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

async function* readRows(
  client: ClickHouseClient,
  table: RowTable,
  { profiles, names, erased }: Owners,
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  const { query, clock, hasTaken } = QUERIES[table];
  const pages = pagesOf(table === 'visitLog' ? { profiles, names: [] } : { profiles, names });
  const pageOf = new Map(
    pages.flatMap((page, at) => [...page.profiles, ...page.names].map((key) => [key, at])),
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

type Page = Pick<Owners, 'profiles' | 'names'>;

function pagesOf({ profiles, names }: Page): Page[] {
  const pages: Page[] = [];
  for (let i = 0; i < Math.max(profiles.length, names.length); i += PAGE)
    pages.push({ profiles: profiles.slice(i, i + PAGE), names: names.slice(i, i + PAGE) });
  return pages;
}

async function* readPage(
  client: ClickHouseClient,
  query: string,
  { profiles, names }: Page,
  signal: AbortSignal,
): AsyncGenerator<string[]> {
  const beginning = AbortSignal.any([signal, AbortSignal.timeout(BEGIN_MS)]);
  const answer = await client.query({
    query,
    format: 'JSONEachRow',
    query_params: { profiles, ...namedParams(names) },
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
