// Fields of stream entries.

export const ENTRY = {
  rows: 'n',
  /** Rows, each with \n, as JSONEachRow for events or TabSeparated for visits. */
  lines: 'd',
  /** Rows of profile, product and device, each with \n. The flusher adds what makes a row unique. */
  visits: 'v',
  /** When the visits were counted, in milliseconds of the node's clock. */
  time: 't',
} as const;
