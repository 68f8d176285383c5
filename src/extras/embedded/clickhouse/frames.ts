// ClickHouse's compression of answers (`compress=1`), which its JDBC driver asks for by default. A frame has a checksum
// (CityHash128), method, two lengths, and LZ4. The LZ4 has only literals, since fewer bytes gain nothing on loopback.

/** A frame is small, because its checksum blocks the event loop. */
const FRAME_BYTES = 64 * 1024;
const LZ4 = 0x82;
const HEAD_BYTES = 9;

export async function* framed(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks)
    for (let at = 0; at < chunk.length; at += FRAME_BYTES) yield frame(chunk.subarray(at, at + FRAME_BYTES));
}

export function frame(data: Buffer): Buffer {
  const packed = literals(data);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(LZ4, 0);
  head.writeUInt32LE(HEAD_BYTES + packed.length, 1);
  head.writeUInt32LE(data.length, 5);
  const body = Buffer.concat([head, packed]);
  return Buffer.concat([cityHash128(body), body]);
}

/** @returns an LZ4 sequence: the length, which takes more bytes from 15 on, and the data */
function literals(data: Buffer): Buffer {
  if (data.length < 15) return Buffer.concat([Buffer.of(data.length << 4), data]);
  const more = data.length - 15;
  return Buffer.concat([
    Buffer.of(0xf0),
    Buffer.alloc(Math.floor(more / 255), 255),
    Buffer.of(more % 255),
    data,
  ]);
}

type Pair = readonly [low: bigint, high: bigint];

const K0 = 0xc3a5c85c97cb3127n;
const K1 = 0xb492b66fbe98f273n;
const K2 = 0x9ae16a3b2f90404fn;
const K3 = 0xc949d7c7509e6557n;
const K_MUL = 0x9ddfea08eb382d69n;

const u64 = (n: bigint) => BigInt.asUintN(64, n);
const rotate = (n: bigint, by: bigint) => (n >> by) | u64(n << (64n - by));
const mix = (n: bigint) => n ^ (n >> 47n);
const at = (s: Buffer, offset = 0) => s.readBigUInt64LE(offset);

/** CityHash128 of version 1.0.2. Later versions give other checksums. */
export function cityHash128(s: Buffer): Buffer {
  const n = s.length;
  const [low, high] =
    n >= 16
      ? seeded(s.subarray(16), [at(s) ^ K3, at(s, 8)])
      : n >= 8
        ? seeded(Buffer.alloc(0), [at(s) ^ u64(BigInt(n) * K0), at(s, n - 8) ^ K1])
        : seeded(s, [K0, K1]);
  const hash = Buffer.alloc(16);
  hash.writeBigUInt64LE(low, 0);
  hash.writeBigUInt64LE(high, 8);
  return hash;
}

function hash16(u: bigint, v: bigint): bigint {
  const a = mix(u64((u ^ v) * K_MUL));
  return u64(mix(u64((v ^ a) * K_MUL)) * K_MUL);
}

function upTo16(s: Buffer): bigint {
  const n = s.length;
  const length = BigInt(n);
  if (n > 8) return hash16(at(s), rotate(u64(at(s, n - 8) + length), length)) ^ at(s, n - 8);
  if (n >= 4) return hash16(length + (BigInt(s.readUInt32LE()) << 3n), BigInt(s.readUInt32LE(n - 4)));
  if (n === 0) return K2;
  const y = BigInt(s.readUInt8() + (s.readUInt8(n >> 1) << 8));
  const z = BigInt(n + (s.readUInt8(n - 1) << 2));
  return u64(mix(u64(y * K2) ^ u64(z * K3)) * K2);
}

function murmur(s: Buffer, [low, high]: Pair): Pair {
  const n = s.length;
  let a = low;
  let b = high;
  let c: bigint;
  let d: bigint;
  if (n <= 16) {
    a = u64(mix(u64(a * K1)) * K1);
    c = u64(b * K1 + upTo16(s));
    d = mix(u64(a + (n >= 8 ? at(s) : c)));
  } else {
    c = hash16(u64(at(s, n - 8) + K1), a);
    d = hash16(u64(b + BigInt(n)), u64(c + at(s, n - 16)));
    a = u64(a + d);
    for (let offset = 0; offset < n - 16; offset += 16) {
      a = u64((a ^ u64(mix(u64(at(s, offset) * K1)) * K1)) * K1);
      b ^= a;
      c = u64((c ^ u64(mix(u64(at(s, offset + 8) * K1)) * K1)) * K1);
      d ^= c;
    }
  }
  a = hash16(a, c);
  b = hash16(d, b);
  return [a ^ b, hash16(b, a)];
}

function weak(s: Buffer, offset: number, first: bigint, second: bigint): Pair {
  const a = u64(first + at(s, offset));
  const last = at(s, offset + 24);
  const sum = u64(a + at(s, offset + 8) + at(s, offset + 16));
  return [u64(sum + last), u64(rotate(u64(second + a + last), 21n) + rotate(sum, 44n) + a)];
}

function seeded(s: Buffer, seed: Pair): Pair {
  const n = s.length;
  if (n < 128) return murmur(s, seed);
  let [x, y] = seed;
  let z = u64(BigInt(n) * K1);
  const first = u64(rotate(y ^ K1, 49n) * K1 + at(s));
  let v: Pair = [first, u64(rotate(first, 42n) * K1 + at(s, 8))];
  let w: Pair = [u64(rotate(u64(y + z), 35n) * K1 + x), u64(rotate(u64(x + at(s, 88)), 53n) * K1)];
  const whole = n - (n % 128);
  for (let offset = 0; offset < whole; offset += 64) {
    x = u64(rotate(u64(x + y + v[0] + at(s, offset + 16)), 37n) * K1) ^ w[1];
    y = u64(rotate(u64(y + v[1] + at(s, offset + 48)), 42n) * K1) ^ v[0];
    z = rotate(z ^ w[0], 33n);
    v = weak(s, offset, u64(v[1] * K1), u64(x + w[0]));
    w = weak(s, offset + 32, u64(z + w[1]), y);
    [x, z] = [z, x];
  }
  y = u64(y + rotate(w[0], 37n) * K0 + z);
  x = u64(x + rotate(u64(v[0] + z), 49n) * K0);
  for (let back = 32; back - 32 < n - whole; back += 32) {
    y = u64(rotate(u64(y - x), 42n) * K0 + v[1]);
    w = [u64(w[0] + at(s, n - back + 16)), w[1]];
    x = u64(rotate(x, 49n) * K0 + w[0]);
    w = [u64(w[0] + v[0]), w[1]];
    v = weak(s, n - back, v[0], v[1]);
  }
  x = hash16(x, v[0]);
  y = hash16(y, w[0]);
  return [u64(hash16(u64(x + v[1]), w[1]) + y), hash16(u64(x + w[1]), u64(y + v[1]))];
}
