// The format of a stream entry, shared by those who append and the flusher: an entry is a batch of events, already encoded
// as ClickHouse will read them, so that no process in between parses them; or one of visits, which lack only their name.

/** Fields of an entry. */
export const ENTRY = {
  /** Number of events, or of visits. */
  rows: 'n',
  /** That many whole rows as lines, each ended by \n, UTF-8: JSONEachRow for events, TabSeparated for visits. */
  lines: 'd',
  /** That many visits as lines, each ended by \n, as lua/visits.lua is given them: profile, product, device. */
  visits: 'v',
  /** When these visits were counted: milliseconds of the node's clock. */
  time: 't',
} as const;
