// Inserts a batch, and halves what ClickHouse refuses, until it has the memory for it or a bad row is alone.

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

/** @param insert may refuse several lines for other reasons than a bad one */
export async function insertLines(
  lines: Buffer,
  insert: (lines: Buffer, isSingle: boolean) => Promise<Refusal | undefined>,
): Promise<readonly Refused[]> {
  const cut = middleOf(lines);
  const refusal = await insert(lines, cut === undefined);
  if (refusal === undefined) return [];
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
