// The format of stream entries: batches of events, encoded as ClickHouse reads them, or of visits, to which the flusher adds only
// their names.

/** Fields of an entry. */
export const ENTRY = {
  /** Number of rows. */
  rows: 'n',
  /** Complete rows, each with \n, UTF-8: JSONEachRow for events, TabSeparated for visits. */
  lines: 'd',
  /** Visits as arguments of lua/visits/countVisits.lua, each with \n: profile, product, device. */
  visits: 'v',
  /** Time at which the visits were counted, milliseconds of the node's clock. */
  time: 't',
} as const;
