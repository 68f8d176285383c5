// Formats that begin with the names of the columns, and their types: chDB writes these before every chunk of a stream,
// and a document has them once.

/** Bytes before the rows of a chunk. */
export function headLength(format: string, chunk: Buffer): number {
  const lines = /WithNamesAndTypes$/.test(format) ? 2 : /WithNames$/.test(format) ? 1 : 0;
  if (lines === 0) return 0;
  return format.startsWith('RowBinary') ? binaryHead(chunk, lines) : textHead(chunk, lines, format);
}

/** The number of columns, then so many texts a line, each after its length. */
function binaryHead(chunk: Buffer, lines: number): number {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = chunk[at++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  for (let texts = varint() * lines; texts > 0; texts--) {
    const length = varint();
    at += length;
  }
  return at;
}

/** Only in CSV may a name have a line break as it is, within quotes. */
function textHead(chunk: Buffer, lines: number, format: string): number {
  const quote = format.startsWith('CSV') ? 0x22 : -1;
  let isQuoted = false;
  let left = lines;
  for (let at = 0; at < chunk.length; at++) {
    if (chunk[at] === quote) isQuoted = !isQuoted;
    if (chunk[at] === 0x0a && !isQuoted && --left === 0) return at + 1;
  }
  return chunk.length;
}
