// The format of a stream entry, shared by the appender and the flusher: an entry is a batch of events,
// already encoded as ClickHouse will read them, so that nobody in between parses them.

/** Fields of an entry. */
export const ENTRY = {
  /** Number of events. */
  rows: 'n',
  /** That many JSONEachRow lines, each ended by \n, UTF-8. */
  lines: 'd',
} as const;
