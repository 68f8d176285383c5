// The format of a stream entry, shared by the appender and the flusher: an entry is a batch of events,
// already encoded as ClickHouse will read them, so that nobody in between parses them.

/** Fields of an entry. */
export const ENTRY = {
  /** Number of events. */
  rows: 'n',
  /** That many JSONEachRow lines, each ended by \n, UTF-8. */
  lines: 'd',
} as const;

/** One line: the columns of `events` in ClickHouse. What is left out takes the column's default. */
export interface EventRow {
  /** UUID, version 7. */
  readonly event_id: string;
  readonly type: string;
  /** ISO 8601 in UTC with milliseconds. */
  readonly occurred_at: string;
  readonly profile_id: string;
  readonly customer_id: string | null;
  readonly session_id: string | null;
  readonly device?: string;
  readonly locale?: string;
  readonly origin: 'event' | 'item' | 'share' | 'purchase';
  readonly product_id?: string;
  readonly variant_id?: string;
  readonly product_handle?: string;
  readonly source?: string;
  readonly channel?: string;
  readonly share_code?: string;
  readonly quantity?: number | null;
  /** Decimal text, up to 16 digits before the point and 2 after it. */
  readonly price?: string | null;
  readonly compare_at?: string | null;
  /** The payload as JSON: a text, or the object itself, which ClickHouse keeps as the text it reads. */
  readonly payload?: string | object;
}
