// The format of a stream entry, shared by those who append and the flusher: an entry is a batch of events, already encoded
// as ClickHouse will read them, so that no process in between parses them; or one of visits, which lack only what the entry
// itself says of them.

/** Fields of an entry. */
export const ENTRY = {
  /** Number of events, or of visits. */
  rows: 'n',
  /** That many whole rows as lines, each ended by \n, UTF-8: JSONEachRow for events, TabSeparated for visits. */
  lines: 'd',
  /** That many visits as lines, each ended by \n, as lua/visits.lua is given them: profile, product, device. */
  visits: 'v',
  /** The same of visits that were counted before, each with its time and a tab before it: seconds of the node that counted. */
  lateVisits: 'w',
} as const;
