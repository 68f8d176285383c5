// The cut of a batch: its bounds from both sides, and that bytes stay what they are.

import t from 'tap';
import { manifestOf } from '../../src/flush/manifest.js';
import { cutBatch, readBatch } from '../../src/flush/reader.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { startTestRedis } from '../harness/redis.js';
import { appendLines } from './fixtures.js';

const server = await startTestRedis(t);
const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
t.teardown(() => redis.disconnect());

let prefixes = 0;

/** A stream of entries with so many lines each; a line is 10 bytes. */
async function streamOf(...rows: number[]) {
  const keys = createKeys(`t${++prefixes}`);
  for (const n of rows)
    await appendLines(
      redis,
      keys,
      0,
      Array.from({ length: n }, (_, i) => `${String(i).padStart(9, '0')}\n`),
    );
  return keys.events(0);
}

t.test('an empty stream has no batch', async (t) => {
  t.equal(await cutBatch(redis, 'nothing:{e0}'), undefined);
});

t.test('rows: what fits exactly is taken, one more is not', async (t) => {
  const stream = await streamOf(3, 4, 3);
  t.match(await cutBatch(redis, stream, undefined, { rows: 10, bytes: 1e6 }), { rows: 10, full: false });
  t.match(await cutBatch(redis, stream, undefined, { rows: 9, bytes: 1e6 }), { rows: 7, full: true });
});

t.test('bytes: what fits exactly is taken, one more is not', async (t) => {
  const stream = await streamOf(3, 4, 3);
  t.match(await cutBatch(redis, stream, undefined, { rows: 1e6, bytes: 100 }), { bytes: 100, full: false });
  t.match(await cutBatch(redis, stream, undefined, { rows: 1e6, bytes: 99 }), { bytes: 70, full: true });
});

t.test('an entry over the bounds is a batch of its own', async (t) => {
  const stream = await streamOf(50, 1);
  const batch = await cutBatch(redis, stream, undefined, { rows: 10, bytes: 100 });
  t.match(batch, { rows: 50, bytes: 500, full: true });
  t.match(await cutBatch(redis, stream, batch?.last, { rows: 10, bytes: 100 }), { rows: 1, full: false });
});

t.test('lines are in the memory that is given, but for an entry that is larger', async (t) => {
  const memory = Buffer.alloc(100);
  const stream = await streamOf(4, 5, 11);
  const batch = await cutBatch(redis, stream, undefined, { rows: 1e6, bytes: 100 }, memory);
  t.match(batch, { rows: 9, bytes: 90, full: true });
  t.equal(batch?.lines.buffer, memory.buffer);
  const next = await cutBatch(redis, stream, batch?.last, { rows: 1e6, bytes: 100 }, memory);
  t.match(next, { rows: 11, bytes: 110, full: false });
  t.match(next?.lines.toString(), /^000000000\n(\d{9}\n){9}000000010\n$/);
});

t.test('over many pages no entry is left out or taken twice', async (t) => {
  const rows = Array.from({ length: 3_000 }, (_, i) => (i % 7) + 1);
  const stream = await streamOf(...rows);
  const total = rows.reduce((a, b) => a + b);
  t.match(await cutBatch(redis, stream), { rows: total, bytes: total * 10, full: false });
  let seen = 0;
  let after: string | undefined;
  for (;;) {
    const batch = await cutBatch(redis, stream, after, { rows: 1_000, bytes: 1e6 });
    if (batch === undefined) break;
    t.ok(batch.rows <= 1_000);
    seen += batch.rows;
    after = batch.last;
    if (!batch.full) break;
  }
  t.equal(seen, total);
});

t.test('a manifest reads back the bytes of its batch, whatever came after', async (t) => {
  const stream = await streamOf(...Array.from({ length: 2_500 }, () => 2));
  const batch = await cutBatch(redis, stream, undefined, { rows: 4_500, bytes: 1e6 });
  if (batch === undefined) throw new Error('no batch');
  await redis.xadd(stream, '*', 'n', '1', 'd', 'later\n');
  const again = await readBatch(redis, stream, manifestOf(batch));
  t.equal(again?.rows, 4_500);
  t.ok(again?.lines.equals(batch.lines));
});

t.test('bytes that are no text pass unchanged', async (t) => {
  const bytes = Buffer.from([...Array(256).keys(), 10]);
  await redis.xadd('odd:{e0}', '*', 'n', '1', 'd', bytes);
  t.ok((await cutBatch(redis, 'odd:{e0}'))?.lines.equals(bytes));
});

t.test("an entry that is not a batch of events is told whole, and spoils no other's lines", async (t) => {
  const foreign: (string | Buffer)[][] = [
    ['hello', 'world'],
    ['n', '1'],
    ['n', '1', 'd', 'no newline'],
    ['n', '0', 'd', '\n'],
    ['n', 'x', 'd', Buffer.from([0xff, 10])],
  ];
  const stream = await streamOf(1);
  const ids: (string | null)[] = [];
  for (const fields of foreign) ids.push(await redis.xadd(stream, '*', ...fields));
  await redis.xadd(stream, '*', 'n', '1', 'd', 'ours\n');
  const batch = await cutBatch(redis, stream);
  t.match(batch, { rows: 2, bytes: 15, full: false });
  t.equal(batch?.lines.toString(), '000000000\nours\n');
  t.same(
    batch?.foreignEntries.map((entry) => JSON.parse(entry)),
    foreign.map((fields, i) => ({
      id: ids[i],
      fields: fields.map((field) => (typeof field === 'string' ? field : { base64: '/wo=' })),
    })),
  );
});
