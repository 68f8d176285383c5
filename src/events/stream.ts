// The format of stream entries.

export const ENTRY = {
  rows: 'n',
  /** Complete rows, each with \n, UTF-8: JSONEachRow for events, TabSeparated for visits. */
  lines: 'd',
  /** Profile, product, device, each row with \n; the flusher adds the rows' names. */
  visits: 'v',
  /** When the visits were counted, milliseconds of the node's clock. */
  time: 't',
} as const;
