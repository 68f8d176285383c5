// Inserts a batch, and finds the rows that ClickHouse refuses: it halves the batch until such a row is alone.

export interface Refusal {
  /** ClickHouse's error code. */
  readonly code: number;
  /** May quote the line. */
  readonly reason: string;
}

export interface Refused extends Refusal {
  /** The line without its newline. */
  readonly line: Buffer;
}

const NEWLINE = 0x0a;

/** @param insert stores all lines, or none if it returns a refusal */
export async function insertLines(
  lines: Buffer,
  insert: (lines: Buffer) => Promise<Refusal | undefined>,
): Promise<readonly Refused[]> {
  const refusal = await insert(lines);
  if (refusal === undefined) return [];
  const cut = middleOf(lines);
  if (cut === undefined)
    return [{ line: lines.at(-1) === NEWLINE ? lines.subarray(0, -1) : lines, ...refusal }];
  return [
    ...(await insertLines(lines.subarray(0, cut), insert)),
    ...(await insertLines(lines.subarray(cut), insert)),
  ];
}

function middleOf(lines: Buffer): number | undefined {
  const middle = lines.length >> 1;
  const cut = lines.lastIndexOf(NEWLINE, middle - 1) + 1 || lines.indexOf(NEWLINE, middle) + 1;
  return cut === 0 || cut === lines.length ? undefined : cut;
}
