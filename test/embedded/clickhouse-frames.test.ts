// Answers in ClickHouse's own compression are what ClickHouse's readers take: the checksum is that of its own files, which
// have the same frames.

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { cityHash128 } from '../../src/embedded/clickhouse-frames.js';
import { openWorld } from './world.js';

const { server, origin, post, table } = await openWorld(t);
const HEAD = 25;

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

t.test("the checksum is that of ClickHouse's own files, at every length", async (t) => {
  const lengths = new Set<number>();
  for (const rows of [...Array.from({ length: 40 }, (_, i) => i + 1), 200, 3_000, 30_000]) {
    const name = await table('id UInt8, s String', 'SETTINGS min_bytes_for_wide_part = 0');
    await post({}, `INSERT INTO ${name} SELECT number, hex(sipHash64(number)) FROM numbers(${rows})`);
  }
  for (const file of await readdir(server.dir, { recursive: true })) {
    if (!/\/(id|s[\w.]*)\.bin$/.test(file)) continue;
    for (const { checksum, body } of framesOf(await readFile(join(server.dir, file)))) {
      lengths.add(body.length);
      if (!checksum.equals(cityHash128(body))) t.fail(`${body.length} bytes of ${file}`);
    }
  }
  const all = [...lengths];
  for (const [least, most] of [
    [10, 15],
    [16, 32],
    [33, 143],
    [144, 300],
    [1_000, 1e9],
  ] as const)
    t.ok(
      all.some((n) => n >= least && n <= most),
      `there are frames of ${least} to ${most} bytes`,
    );
});

t.test('an answer to compress=1 is the same answer in frames, an error too', async (t) => {
  const ask = async (sql: string, compress: string) => {
    const answer = await fetch(`${origin}/?compress=${compress}`, { method: 'POST', body: sql });
    return { status: answer.status, bytes: Buffer.from(await answer.arrayBuffer()) };
  };
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
    const plain = await ask(sql, '0');
    const packed = await ask(sql, '1');
    t.equal(packed.status, plain.status, sql);
    const frames = [...framesOf(packed.bytes)];
    for (const { checksum, body, method, length } of frames) {
      if (!checksum.equals(cityHash128(body))) t.fail('the checksum');
      t.equal(method, 0x82);
      t.equal(unpack(body).length, length);
    }
    const whole = Buffer.concat(frames.map(({ body }) => unpack(body)));
    const measured = /"(elapsed|rows_read|bytes_read)": [\d.]+/g;
    t.equal(
      whole.toString('latin1').replace(measured, ''),
      plain.bytes.toString('latin1').replace(measured, ''),
      sql,
    );
    if (frames.length > 0) t.ok(packed.bytes.length > HEAD);
  }
});
