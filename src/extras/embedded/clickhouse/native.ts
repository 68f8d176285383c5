// Converts the format Native for clients that send `client_protocol_version`, as Grafana's plugin does. chDB writes
// revision 0. Later revisions have a header before each block, and a serialization byte after each column's type. The
// end of a column follows from its type.

import { ClickHouseError } from './errors.js';

/** First revision with the serialization byte. */
const WITH_SERIALIZATION = 54_454;

/** Field 1 says that there are no overflow rows, field 2 (Int32) that there is no bucket; 0 ends the header. */
const BLOCK_HEAD = Buffer.of(1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0);
const DEFAULT_SERIALIZATION = Buffer.of(0);

const BYTES: Readonly<Record<string, number>> = {
  ...{
    Bool: 1,
    Nothing: 1,
    Int8: 1,
    UInt8: 1,
    Enum8: 1,
    Int16: 2,
    UInt16: 2,
    Enum16: 2,
    BFloat16: 2,
    Date: 2,
  },
  ...{ Int32: 4, UInt32: 4, Float32: 4, Date32: 4, DateTime: 4, IPv4: 4, Int64: 8, UInt64: 8, Float64: 8 },
  ...{ DateTime64: 8, Int128: 16, UInt128: 16, UUID: 16, IPv6: 16, Int256: 32, UInt256: 32 },
};

export function readsLaterNative(revision: string | null): boolean {
  return Number(revision) >= WITH_SERIALIZATION;
}

export async function* laterNative(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let size = 0;
  let enough = 0;
  for await (const chunk of chunks) {
    parts.push(chunk);
    size += chunk.length;
    if (size < enough) continue;
    const blocks = new Blocks(Buffer.concat(parts));
    yield* blocks.converted();
    parts = [blocks.rest];
    size = blocks.rest.length;
    enough = 2 * size; // so that a large block isn't parsed at each chunk
  }
  yield* new Blocks(Buffer.concat(parts)).converted();
}

class Incomplete extends Error {}

class Blocks {
  #at = 0;
  #done = 0;

  constructor(private readonly bytes: Buffer) {}

  get rest(): Buffer {
    return this.bytes.subarray(this.#done);
  }

  *converted(): Generator<Buffer> {
    try {
      while (this.#at < this.bytes.length) {
        yield this.#block();
        this.#done = this.#at;
      }
    } catch (error) {
      if (!(error instanceof Incomplete)) throw error;
    }
  }

  #block(): Buffer {
    const begin = this.#at;
    const columns = this.#varint();
    const rows = this.#varint();
    const parts = [BLOCK_HEAD, this.bytes.subarray(begin, this.#at)];
    for (let i = 0; i < columns; i++) {
      const head = this.#at;
      this.#text();
      const type = this.#text();
      const values = this.#at;
      if (rows > 0) this.#skipVersions(type);
      this.#skip(type, rows);
      parts.push(
        this.bytes.subarray(head, values),
        DEFAULT_SERIALIZATION,
        this.bytes.subarray(values, this.#at),
      );
    }
    return Buffer.concat(parts);
  }

  #advance(bytes: number): number {
    const from = this.#at;
    this.#at += bytes;
    if (this.#at > this.bytes.length) throw new Incomplete();
    return from;
  }

  #uint64(): number {
    return Number(this.bytes.readBigUInt64LE(this.#advance(8)));
  }

  #varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes.readUInt8(this.#advance(1));
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  #text(): string {
    const from = this.#advance(this.#varint());
    return this.bytes.toString('utf8', from, this.#at);
  }

  /** Each LowCardinality in a type has 8 bytes with a version before the column's values. */
  #skipVersions(type: string): void {
    const { name, inner } = parse(type);
    if (name === 'LowCardinality') this.#advance(8);
    else if (/^(Array|Map|Tuple|SimpleAggregateFunction)$/.test(name))
      for (const one of listOf(inner)) this.#skipVersions(withoutName(one));
  }

  #skip(type: string, rows: number): void {
    if (rows === 0) return;
    const { name, inner } = parse(type);
    const bytes = BYTES[name] ?? (name.startsWith('Interval') ? 8 : undefined);
    if (bytes !== undefined) this.#advance(bytes * rows);
    else if (name === 'String') this.#skipTexts(rows);
    else if (name === 'FixedString') this.#advance(Number(inner) * rows);
    else if (name === 'Decimal') this.#advance(decimalBytes(Number.parseInt(inner, 10)) * rows);
    else if (name === 'Nullable') {
      this.#advance(rows);
      this.#skip(inner, rows);
    } else if (name === 'LowCardinality') this.#skipDictionary(inner);
    else if (name === 'Array') this.#skip(inner, this.#skipOffsets(rows));
    else if (name === 'Map') {
      const pairs = this.#skipOffsets(rows);
      for (const one of listOf(inner)) this.#skip(one, pairs);
    } else if (name === 'Tuple') for (const one of listOf(inner)) this.#skip(withoutName(one), rows);
    else if (name === 'SimpleAggregateFunction') this.#skip(listOf(inner).at(-1) ?? '', rows);
    else
      throw ClickHouseError.of(
        'NOT_IMPLEMENTED',
        `The embedded ClickHouse can't write ${type} for this client; select it by toString() or another function.`,
      );
  }

  #skipTexts(rows: number): void {
    for (let i = 0; i < rows; i++) this.#advance(this.#varint());
  }

  /** A dictionary has the distinct values, then one index per row. */
  #skipDictionary(inner: string): void {
    const width = 1 << this.bytes.readUInt8(this.#advance(8));
    const values = this.#uint64();
    this.#skip(inner.replace(/^Nullable\((.*)\)$/s, '$1'), values);
    const rows = this.#uint64();
    this.#advance(width * rows);
  }

  #skipOffsets(rows: number): number {
    this.#advance(8 * (rows - 1));
    return this.#uint64();
  }
}

function parse(type: string): { name: string; inner: string } {
  const [, name = '', inner = ''] = /^(\w+)(?:\((.*)\))?$/s.exec(type) ?? [];
  return { name, inner };
}

function decimalBytes(digits: number): number {
  if (digits <= 9) return 4;
  if (digits <= 18) return 8;
  return digits <= 38 ? 16 : 32;
}

/** Splits at commas outside brackets and quotes. */
function listOf(inner: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let one = '';
  for (const [token] of inner.matchAll(/'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|./gs)) {
    if (token === '(') depth++;
    if (token === ')') depth--;
    if (token !== ',' || depth > 0) one += token;
    else {
      found.push(one.trim());
      one = '';
    }
  }
  return one.trim() === '' ? found : [...found, one.trim()];
}

function withoutName(element: string): string {
  return /^(?:`(?:\\.|[^`\\])*`|\w+)\s+(.*)$/s.exec(element)?.[1] ?? element;
}
