// Fields of stream entries.

export const ENTRY = {
  rows: 'n',
  /** Rows with \n: JSONEachRow for events, TabSeparated for visits. */
  lines: 'd',
  /** Rows of profile, product, device, with \n; the flusher adds their names. */
  visits: 'v',
  /** When the visits were counted, milliseconds of the node's clock. */
  time: 't',
} as const;
