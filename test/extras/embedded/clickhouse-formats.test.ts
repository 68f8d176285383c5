// What analysts' tools read: formats that begin with names, Native for later clients, and ClickHouse's own compression.

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { cityHash128 } from '../../../src/extras/embedded/clickhouse/frames.js';
import { analyst, openShop } from './fixtures.js';
import { TOOLS } from './tools.js';

const { server, credentials, http, post, bare, table } = await openShop(t);

for (const { tool, params, headers, statements } of TOOLS)
  t.test(`the statements of ${tool} are answered`, async (t) => {
    for (const sql of statements) {
      const { status, bytes } = await bare(sql, params, headers);
      t.equal(status, 200, `${sql}: ${bytes.toString('latin1', 0, 300)}`);
      t.not(bytes.length, 0, sql);
    }
  });

t.test('clickhouse-connect gets Native without a block header', async (t) => {
  const answer = await http({ client_protocol_version: '54405', query: 'SELECT 1 AS check FORMAT Native' });
  t.equal(answer.text, '\u0001\u0001\u0005check\u0005UInt8\u0001');
});

t.test('a streamed format with names has them once, whatever they are', async (t) => {
  const columns = 'number AS a, toString(number) AS `b\n"c`';
  const texts = ['TabSeparatedWithNames', 'TSVRawWithNamesAndTypes', 'CSVWithNames', 'CSVWithNamesAndTypes'];
  const json = ['JSONCompactEachRowWithNamesAndTypes', 'JSONCompactStringsEachRowWithNames'];
  for (const format of [...texts, ...json, 'RowBinaryWithNames', 'RowBinaryWithNamesAndTypes']) {
    const get = async (rows: number, blocks: string, more = '') => {
      const sql = `SELECT ${columns} FROM numbers(${rows}) ${more} FORMAT ${format}`;
      return (await bare(sql, { max_block_size: blocks, max_threads: '1' })).bytes.toString('latin1');
    };
    t.equal(await get(1_000, '300'), await get(1_000, '1000'), format);
    t.equal(await get(5, '7', 'WHERE number > 9'), await get(0, '1000'), `${format}, no rows`);
  }
  const large = await post(analyst, 'SELECT number FROM numbers(1000001) FORMAT RowBinaryWithNames');
  t.equal(large.status, 200, 'more rows than are held whole');
});

interface Frame {
  readonly checksum: Buffer;
  readonly body: Buffer;
  readonly method: number;
  readonly length: number;
}

function* framesOf(bytes: Buffer): Generator<Frame> {
  for (let at = 0; at < bytes.length; ) {
    const end = at + 16 + bytes.readUInt32LE(at + 17);
    yield {
      checksum: bytes.subarray(at, at + 16),
      body: bytes.subarray(at + 16, end),
      method: bytes.readUInt8(at + 16),
      length: bytes.readUInt32LE(at + 21),
    };
    at = end;
  }
}

/** LZ4 by its block format. */
function unpack(body: Buffer): Buffer {
  const out: number[] = [];
  for (let at = 9; at < body.length; ) {
    const token = body.readUInt8(at++);
    const lengthFrom = (nibble: number) => {
      let length = nibble;
      if (nibble === 15) for (let byte = 255; byte === 255; length += byte) byte = body.readUInt8(at++);
      return length;
    };
    const literal = lengthFrom(token >> 4);
    out.push(...body.subarray(at, at + literal));
    at += literal;
    if (at >= body.length) break;
    const back = body.readUInt16LE(at);
    at += 2;
    for (let i = lengthFrom(token & 15) + 4; i > 0; i--) out.push(out.at(-back) as number);
  }
  return Buffer.from(out);
}

t.test("checksums are those of ClickHouse's own files, at every length", async (t) => {
  const lengths = new Set<number>();
  for (const rows of [1, 2, 3, 5, 8, 13, 21, 34, 40, 200, 3_000, 30_000]) {
    const name = await table('id UInt8, s String', 'SETTINGS min_bytes_for_wide_part = 0');
    const values = `SELECT number, hex(sipHash64(number)) FROM numbers(${rows})`;
    await post(credentials, `INSERT INTO ${name} ${values}`);
  }
  for (const file of await readdir(server.dir, { recursive: true })) {
    if (!/\/(id|s[\w.]*)\.bin$/.test(file)) continue;
    for (const { checksum, body } of framesOf(await readFile(join(server.dir, file)))) {
      lengths.add(body.length);
      if (!checksum.equals(cityHash128(body))) t.fail(`${body.length} bytes of ${file}`);
    }
  }
  // The algorithm differs by length.
  const classes = [...lengths].map((n) => [16, 33, 144, 1_000].findLastIndex((least) => n >= least));
  t.same([...new Set(classes)].sort(), [-1, 0, 1, 2, 3]);
});

t.test('compress=1 gives the same answer in frames, also for an error', async (t) => {
  for (const sql of [
    'SELECT 1',
    "SELECT 'fourteen bytes'",
    "SELECT repeat('x', 14)",
    "SELECT repeat('x', 269)",
    'SELECT number FROM numbers(100000) FORMAT RowBinaryWithNamesAndTypes',
    'SELECT number FROM numbers(1000) FORMAT JSON',
    'SELECT number FROM numbers(0)',
    'SELECT nothing',
  ]) {
    const [plain, packed] = [await bare(sql, { compress: '0' }), await bare(sql, { compress: '1' })];
    t.equal(packed.status, plain.status, sql);
    const frames = [...framesOf(packed.bytes)];
    for (const { checksum, body, method, length } of frames) {
      if (!checksum.equals(cityHash128(body))) t.fail('the checksum');
      t.equal(method, 0x82);
      t.equal(unpack(body).length, length);
    }
    const whole = Buffer.concat(frames.map(({ body }) => unpack(body)));
    const timeless = (bytes: Buffer) =>
      bytes.toString('latin1').replace(/"(elapsed|rows_read|bytes_read)": [\d.]+/g, '');
    t.equal(timeless(whole), timeless(plain.bytes), sql);
  }
});

const LATER = '54460';

async function native(sql: string, revision?: string, more: Record<string, string> = {}): Promise<Buffer> {
  const later: Record<string, string> = revision ? { client_protocol_version: revision } : {};
  return (await bare(sql, { default_format: 'Native', ...more, ...later })).bytes;
}

/** Splits an answer of one column and one block, shorter than 128 bytes, into its head and its values. */
function split(bytes: Buffer): [head: Buffer, values: Buffer] {
  const name = 3 + bytes.readUInt8(2);
  const type = name + 1 + bytes.readUInt8(name);
  return [bytes.subarray(2, type), bytes.subarray(type)];
}

const COLUMNS = [
  'number',
  'toString(number) AS s',
  "toFixedString('ab', 5) AS f",
  'number % 2 = 0 AS b',
  'toDecimal32(number, 2) AS d32',
  'toDecimal64(number, 2) AS d64',
  'toDecimal128(number, 2) AS d128',
  'toDecimal256(number, 2) AS d256',
  'toInt256(number) AS i256',
  "toDateTime64(number, 3, 'Europe/Berlin') AS t64",
  "toDateTime(number, 'UTC') AS t32",
  'toDate(number) AS day',
  'toDate32(number) AS day32',
  "toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS u",
  "toIPv4('127.0.0.1') AS ip4",
  "toIPv6('::1') AS ip6",
  'toIntervalDay(number) AS i',
  "CAST(number % 2, 'Enum8(\\'a, b)\\' = 0, \\'c\\' = 1)') AS e",
  'toNullable(toString(number)) AS n',
  'NULL AS nothing',
  'toLowCardinality(toString(number)) AS lc',
  'toLowCardinality(if(number % 3 = 0, NULL, toString(number))) AS lcn',
  'arrayMap(x -> toLowCardinality(toString(x)), range(number % 4)) AS alc',
  "map(toLowCardinality('k'), (toLowCardinality(toString(number)), number)) AS mlc",
  'range(number % 4) AS a',
  'arrayMap(x -> arrayMap(y -> toString(y), range(x)), range(number % 4)) AS aa',
  'map(toString(number), range(number % 3)) AS m',
  "CAST((number, toString(number), [number]), 'Tuple(`a, (` UInt8, s Nullable(String), DateTime64 Array(UInt64))') AS tu",
  'tuple(number, (1, toString(number))) AS tt',
  "CAST(number, 'SimpleAggregateFunction(sum, UInt64)') AS sa",
];

t.test('Native finds the end of a column of every type', async (t) => {
  const from = 'FROM numbers(17)';
  const one = Buffer.of(1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0);
  const singles: Buffer[] = [];
  for (const column of COLUMNS) {
    const [head, values] = split(await native(`SELECT ${column} ${from}`));
    const expected = Buffer.concat([head, Buffer.of(0), values]);
    singles.push(expected);
    const later = await native(`SELECT ${column} ${from}`, LATER);
    t.ok(later.equals(Buffer.concat([one, Buffer.of(1, 17), expected])), column);
  }
  const sql = `SELECT ${COLUMNS.join(', ')} ${from}`;
  const whole = Buffer.concat([one, Buffer.of(singles.length, 17), ...singles]);
  t.ok((await native(sql, LATER)).equals(whole), 'all of them in one block');
  const blocks = await native(sql, LATER, { max_block_size: '3', max_threads: '1' });
  t.equal(blocks.toString('latin1').split(one.toString('latin1')).length - 1, 6, 'each block has its head');
});

t.test('a Native block that arrives in many pieces stays one block', async (t) => {
  const sql = "SELECT number, repeat('x', 1000) AS s, range(number % 50) AS a FROM numbers(5000)";
  const settings = { max_block_size: '1000', max_threads: '1' };
  const plain = await native(sql, undefined, settings);
  const later = await native(sql, LATER, settings);
  t.equal(later.length, plain.length + 5 * (8 + 3), 'five heads, and a byte for each column');
});

t.test('Native finds the end of a column of many rows or of long texts', async (t) => {
  const head = Buffer.of(1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0);
  const columns = { number: ['UInt64', 300], "repeat('x', 300)": ['String', 3] } as const;
  for (const [column, [type, rows]] of Object.entries(columns)) {
    const sql = `SELECT ${column} AS a, 1 AS b FROM numbers(${rows})`;
    const plain = await native(sql);
    const first = plain.indexOf(type) + type.length;
    const second = plain.lastIndexOf('UInt8') + 'UInt8'.length;
    const parts = [plain.subarray(0, first), plain.subarray(first, second), plain.subarray(second)];
    const [names, values, more] = parts as [Buffer, Buffer, Buffer];
    const expected = Buffer.concat([head, names, Buffer.of(0), values, Buffer.of(0), more]);
    t.ok((await native(sql, LATER)).equals(expected), sql);
  }
});

t.test('Native without rows has no block, and a type without a measurable end is refused', async (t) => {
  const answer = (await native('SELECT uniqState(number) FROM numbers(3)', LATER)).toString('latin1');
  t.match(answer, /NOT_IMPLEMENTED/);
  t.match(answer, /__exception__/);
  t.equal((await native('SELECT 1 WHERE 0', LATER)).length, 0);
  t.ok((await native('SELECT 1', '54405')).equals(await native('SELECT 1')));
});
