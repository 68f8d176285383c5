// One stream in Redis: the cut of a batch and its bounds; and each of the flusher's scripts alone, with a script cache that is
// emptied before every call.

import t from 'tap';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { FencedStream } from '../../src/flush/fenced-stream.js';
import { manifestOf } from '../../src/flush/manifest.js';
import { FencedError } from '../../src/flush/ownership.js';
import { cutBatch, readBatch } from '../../src/flush/reader.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys, type Keys } from '../../src/redis/keys.js';
import { visitLine } from '../../src/visits/visit-log.js';
import { startTestRedis } from '../harness/redis.js';
import { appendEvents, appendLines, eventRow, eventRows, pendingOf, until } from './fixtures.js';

const server = await startTestRedis(t);
const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
t.teardown(() => redis.disconnect());

const SILENT = 60_000;
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

t.test('what fits exactly is in the batch, one row or byte more is not', async (t) => {
  t.equal(await cutBatch(redis, 'nothing:{e0}'), undefined);
  const stream = await streamOf(3, 4, 3);
  for (const [bounds, expected] of [
    [
      { rows: 10, bytes: 1e6 },
      { rows: 10, full: false },
    ],
    [
      { rows: 9, bytes: 1e6 },
      { rows: 7, full: true },
    ],
    [
      { rows: 1e6, bytes: 100 },
      { bytes: 100, full: false },
    ],
    [
      { rows: 1e6, bytes: 99 },
      { bytes: 70, full: true },
    ],
  ] as const)
    t.match(await cutBatch(redis, stream, undefined, bounds), expected);
  const large = await streamOf(50, 1);
  const alone = await cutBatch(redis, large, undefined, { rows: 10, bytes: 1e6 });
  t.match(alone, { rows: 50, full: true }, 'an entry over the bounds is a batch of its own');
  t.match(await cutBatch(redis, large, alone?.last), { rows: 1, full: false });
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

t.test(
  'over many pages no entry is left out or taken twice, and a manifest reads its batch back',
  async (t) => {
    const rows = Array.from({ length: 3_000 }, (_, i) => (i % 7) + 1);
    const stream = await streamOf(...rows);
    const total = rows.reduce((a, b) => a + b);
    t.match(await cutBatch(redis, stream), { rows: total, bytes: total * 10, full: false });
    let seen = 0;
    let batch = await cutBatch(redis, stream, undefined, { rows: 4_500, bytes: 1e6 });
    await redis.xadd(stream, '*', 'n', '1', 'd', 'later\n');
    for (
      ;
      batch !== undefined;
      batch = await cutBatch(redis, stream, batch.last, { rows: 4_500, bytes: 1e6 })
    ) {
      t.ok(batch.rows <= 4_500);
      t.ok((await readBatch(redis, stream, manifestOf(batch)))?.lines.equals(batch.lines));
      seen += batch.rows;
    }
    t.equal(seen, total + 1);
  },
);

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

const visitLines = (n: number, of = 0) =>
  Array.from({ length: n }, (_, i) => visitLine(`${of}.s${i}`, `p${i}`, 'tv'));

/** A stream of visits, which are appended as lua/visits.lua does. */
function freshVisits(number = 0) {
  const stream = createKeys(`t${++prefixes}`).visits.events(number);
  return {
    source: { stream, visits: number },
    append: (lines: readonly string[], id = '*') =>
      redis.xadd(stream, id, 'n', lines.length, 'v', lines.join('')),
  };
}

t.test('a row of a visit has the entry, the place in the entry, and the line', async (t) => {
  const { source, append } = freshVisits(5);
  await append(visitLines(12), '1767225600007-0');
  await append(visitLines(1, 1), '1767225600007-3');
  const { lines, rows, bytes } = (await cutBatch(redis, source)) ?? {};
  const texts = visitLines(12).map((line, i) => `1767225600.007\t5\t0\t${i}\t${line}`);
  texts.push(`1767225600.007\t5\t3\t0\t${visitLines(1, 1)}`);
  t.equal(lines?.toString(), texts.join(''));
  t.equal(rows, 13);
  const waiting = [...visitLines(12), ...visitLines(1, 1)].join('');
  t.equal(bytes, Buffer.byteLength(waiting), 'as they are in the stream');
});

t.test('a visit that was logged late keeps the time at which it was counted', async (t) => {
  const { source } = freshVisits(5);
  const lines = visitLines(3).map((line, i) => `176722560${i}.007\t${line}`);
  await redis.xadd(source.stream, '1767225611111-4', 'n', 3, 'w', lines.join(''));
  const { lines: found, bytes } = (await cutBatch(redis, source)) ?? {};
  const rows = visitLines(3).map((line, i) => `176722560${i}.007\t5\t4\t${i}\t${line}`);
  t.equal(found?.toString(), rows.join(''));
  t.equal(bytes, Buffer.byteLength(lines.join('')), 'as they are in the stream');
  await redis.xadd(source.stream, '*', 'n', 1, 'w', 'no tab\n');
  t.match(await cutBatch(redis, source), { rows: 3, foreignEntries: [/no tab/] });
});

t.test('the bounds of a batch of visits count what is inserted; a replay reads the same bytes', async (t) => {
  const { source, append } = freshVisits();
  for (let i = 0; i < 30; i++) await append(visitLines(50, i));
  const memory = Buffer.alloc(6_000);
  const next = (last?: string) => cutBatch(redis, source, last, { rows: 1e6, bytes: 6_000 }, memory);
  let rows = 0;
  for (let batch = await next(); batch !== undefined; batch = await next(batch.last)) {
    const { lines } = batch;
    t.ok(lines.length <= 6_000 && lines.buffer === memory.buffer, `${lines.length} bytes`);
    t.equal(lines.toString().split('\n').length, batch.rows + 1);
    t.same((await readBatch(redis, source, manifestOf(batch)))?.lines, lines);
    rows += batch.rows;
  }
  t.equal(rows, 1_500);
});

t.test(
  'an entry among visits that is none, or has another number of lines than it says, is foreign',
  async (t) => {
    const { source, append } = freshVisits();
    for (const [n, text] of [
      [1, 'a\tb\t\nc\td\t\n'],
      [3, 'a\tb\t\nc\td\t\n'],
      [1, 'no newline'],
    ] as const)
      await redis.xadd(source.stream, '*', 'n', n, 'v', text);
    await append(visitLines(3));
    const batch = await cutBatch(redis, source);
    t.equal(batch?.rows, 3);
    t.equal(batch?.foreignEntries.length, 3);
    const events = await streamOf();
    await redis.xadd(events, '*', 'n', 1, 'v', 'a\tb\t\n');
    t.match(await cutBatch(redis, events), { rows: 0, foreignEntries: [/a\\tb/] }, 'visits among events');
  },
);

/** A stream of its own; every command finds the script cache empty. */
function freshStream() {
  const keys = createKeys(`t${++prefixes}`);
  const forgetful = new Proxy(redis, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      if (name !== 'evalsha') return value.bind(target);
      return async (...args: unknown[]) => {
        await target.script('FLUSH');
        return await value.apply(target, args);
      };
    },
  }) as RedisClient;
  return { keys, redis: forgetful, fenced: new FencedStream(forgetful, keys, 0), state: keys.eventsState(0) };
}

/** Claims the stream, and prepares the next batch of it. */
async function prepared(fenced: FencedStream, keys: Keys) {
  const epoch = await claimed(fenced);
  const batch = await cut(keys);
  const manifest = manifestOf(batch);
  await fenced.prepare(epoch, manifest);
  return { epoch, manifest };
}

async function cut(keys: Keys) {
  const batch = await cutBatch(redis, keys.events(0));
  if (batch === undefined) throw new Error('nothing to cut');
  return batch;
}

async function claimed(fenced: FencedStream, owner = 'a') {
  const claim = await fenced.claim(owner, undefined, SILENT);
  if (claim === undefined) throw new Error('not claimed');
  return claim.epoch;
}

t.test(
  'a free stream is granted; its owner keeps it by heartbeats, and loses it when it is silent',
  async (t) => {
    const { fenced, state } = freshStream();
    const epoch = await claimed(fenced);
    t.match(epoch, /^\d+$/);
    t.equal(await fenced.claim('b', undefined, SILENT), undefined);
    await redis.hset(state, 'beat', Date.now() - 31_000);
    await fenced.beat(epoch);
    t.equal(await fenced.claim('b', undefined, 30_000), undefined, 'the heartbeat was just now');
    await until('it has been silent for 50 ms', () => fenced.claim('b', undefined, 50));
    await t.rejects(fenced.beat(epoch), FencedError);
  },
);

t.test(
  'every claim raises the epoch, also twice in a millisecond and after the clock fell behind it',
  async (t) => {
    const { fenced, state } = freshStream();
    // One that a failover lost is not handed out again.
    let last = BigInt(Date.now() - 1_000);
    for (let i = 0; i < 50; i++) {
      const epoch = BigInt(await claimed(fenced));
      t.ok(epoch > last);
      last = epoch;
    }
    await redis.hset(state, 'epoch', '9000000000000000');
    t.equal(await claimed(fenced), '9000000000000001');
  },
);

t.test(
  'an owner has its stream back at once after a restart, and two of one name do not take it from each other for ever',
  async (t) => {
    const { fenced } = freshStream();
    const first = await claimed(fenced);
    const second = await claimed(fenced);
    t.not(second, first);
    t.equal(await fenced.claim('a', first, SILENT), undefined, 'the first waits');
    t.ok(await fenced.claim('a', second, SILENT), 'the second has it back after a fault');
  },
);

t.test(
  "Redis's clock is set back an hour: a living owner keeps the stream, a dead one is not waited for",
  async (t) => {
    const { fenced, state } = freshStream();
    const epoch = await claimed(fenced);
    const ahead = Date.now() + 3_600_000;
    await redis.hset(state, { beat: ahead, epoch: ahead });
    t.equal(await fenced.claim('b', undefined, 1), undefined);
    t.ok(Number(await redis.hget(state, 'beat')) < ahead, 'the beat is now, and silence counts from here');
    const next = await until('b has it', () => fenced.claim('b', undefined, 1));
    t.ok(Number(next.epoch) > ahead, 'the epoch rises all the same');
    await t.rejects(fenced.beat(epoch), FencedError);
  },
);

t.test('every script of an older epoch is refused and changes nothing', async (t) => {
  const { fenced, keys, redis: client, state } = freshStream();
  await appendEvents(client, keys, 0, [eventRow()]);
  const { epoch: old, manifest } = await prepared(fenced, keys);
  await claimed(fenced, 'a');
  const before = await redis.hgetall(state);
  await t.rejects(fenced.beat(old), FencedError);
  await t.rejects(fenced.prepare(old, manifest), FencedError);
  await t.rejects(fenced.finalize(old, manifest, []), FencedError);
  await t.rejects(fenced.release(old), FencedError);
  t.same(await redis.hgetall(state), before);
  t.equal(await redis.xlen(keys.events(0)), 1);
});

t.test('a manifest stays until its own batch is finalized, and comes with the next claim', async (t) => {
  const { fenced, keys, redis: client } = freshStream();
  await appendEvents(client, keys, 0, [eventRow()]);
  const epoch = await claimed(fenced);
  const batch = await cut(keys);
  const manifest = manifestOf(batch);
  await t.rejects(fenced.finalize(epoch, manifest, []), /another batch/, 'nothing was prepared');
  await fenced.prepare(epoch, manifest);
  await fenced.prepare(epoch, manifest); // a lost reply
  await t.rejects(fenced.prepare(epoch, manifestOf(batch)), /another batch/);
  await t.rejects(fenced.finalize(epoch, manifestOf(batch), []), /another batch/);
  t.equal(await redis.xlen(keys.events(0)), 1);
  t.same((await fenced.claim('a', epoch, SILENT))?.manifest, manifest);
});

t.test('release frees the stream at once and keeps the batch in flight', async (t) => {
  const { fenced, keys, redis: client } = freshStream();
  await appendEvents(client, keys, 0, [eventRow()]);
  const { epoch, manifest } = await prepared(fenced, keys);
  await fenced.release(epoch);
  t.same((await fenced.claim('b', undefined, SILENT))?.manifest, manifest);
});

t.test('finalize removes exactly its range and its figures', async (t) => {
  const { fenced, keys, redis: client } = freshStream();
  const first = [eventRow({ payload: { note: '😀' } }), eventRow()];
  await appendEvents(client, keys, 0, first, 1);
  const { epoch, manifest } = await prepared(fenced, keys);
  const later = `${JSON.stringify(eventRow({ type: 'remove' }))}\n`;
  await appendLines(client, keys, 0, [later]);
  await fenced.finalize(epoch, manifest, []);
  t.same(await pendingOf(client, keys, 0), { events: 1, bytes: Buffer.byteLength(later) });
  t.equal((await cutBatch(client, keys.events(0)))?.lines.toString(), later);
  t.equal((await fenced.claim('a', epoch, SILENT))?.manifest, undefined);
});

t.test('what was removed from the stream by hand does not count as pending for ever', async (t) => {
  const { fenced, keys, redis: client } = freshStream();
  await appendEvents(client, keys, 0, eventRows(3), 1);
  await redis.xtrim(keys.events(0), 'MAXLEN', 1);
  for (const more of [eventRow(), undefined]) {
    const { epoch, manifest } = await prepared(fenced, keys);
    await fenced.finalize(epoch, manifest, []);
    t.same(await pendingOf(client, keys, 0), { events: 0, bytes: 0 });
    if (more !== undefined) await appendEvents(client, keys, 0, [more]);
  }
});

t.test('dead letters are listed in pages, retried with the figures right, and dropped', async (t) => {
  const { fenced, keys, redis: client } = freshStream();
  const lines = ['{"a":"emoji 😀"}', '{"b":"\\n"}', '{"c":1}'];
  const whole = lines.map((line) => `${line}\n`);
  await appendLines(client, keys, 0, whole);
  const { epoch, manifest } = await prepared(fenced, keys);
  const refused = lines.map((line) => ({ line: Buffer.from(line), code: 72, reason: 'why' }));
  await fenced.finalize(epoch, manifest, refused);
  t.equal(await redis.xlen(keys.eventsDead(0)), 3);

  const letters = await listDeadLetters(client, keys, 0, 2);
  t.match(letters, [
    { line: lines[0], code: 72, reason: 'why' },
    { line: lines[1], code: 72, reason: 'why' },
  ]);
  t.ok(letters[0]?.time);
  t.match(await listDeadLetters(client, keys, 0, 2, letters[1]?.id), [{ line: lines[2] }]);

  const ids = letters.map(({ id }) => id);
  t.equal(await retryDeadLetters(client, keys, 0, [...ids, '1-1']), 2);
  t.equal(await retryDeadLetters(client, keys, 0, ids), 0, 'a second time there is nothing to retry');
  const back = await cutBatch(client, keys.events(0));
  t.equal(back?.lines.toString(), `${lines[0]}\n${lines[1]}\n`);
  t.same(await pendingOf(client, keys, 0), { events: back?.rows, bytes: back?.bytes });

  const rest = await listDeadLetters(client, keys, 0);
  t.equal(await dropDeadLetters(client, keys, 0, [rest[0]?.id ?? '']), 1);
  t.same(await listDeadLetters(client, keys, 0), []);
});

t.test('a large batch of nothing but bad lines becomes as many dead letters', async (t) => {
  const { fenced, keys, redis: client } = freshStream();
  const lines = Array.from({ length: 20_000 }, (_, i) => `{"a":${i}}\n`);
  await appendLines(client, keys, 0, lines);
  const { epoch, manifest } = await prepared(fenced, keys);
  const refused = lines.map((line) => ({ line: Buffer.from(line.trimEnd()), code: 27, reason: 'bad' }));
  await fenced.finalize(epoch, manifest, refused);
  t.equal(await redis.xlen(keys.eventsDead(0)), 20_000);
  t.equal((await listDeadLetters(client, keys, 0, 1))[0]?.line, '{"a":0}');
});

t.test('at maxmemory the flusher can still make room', async (t) => {
  const { fenced, keys, redis: client } = freshStream();
  await appendEvents(client, keys, 0, [eventRow()]);
  await redis.config('SET', 'maxmemory', '1');
  t.teardown(() => redis.config('SET', 'maxmemory', '0'));
  await t.rejects(redis.set('more', 'memory'), /OOM/);
  const { epoch, manifest } = await prepared(fenced, keys);
  await fenced.beat(epoch);
  await fenced.finalize(epoch, manifest, [{ line: Buffer.from('{}'), code: 6, reason: 'bad' }]);
  await fenced.release(epoch);
  t.same(await pendingOf(client, keys, 0), { events: 0, bytes: 0 });
});
