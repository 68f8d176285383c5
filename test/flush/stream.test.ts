// One stream in Redis: how its entries become a batch, and what its consumer group keeps, gives again and removes.

import t from 'tap';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { StreamGroup } from '../../src/flush/group.js';
import { collectBatch } from '../../src/flush/reader.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { visitLine } from '../../src/visits/visit-log.js';
import { startTestRedis } from '../harness/redis.js';
import { appendEvents, appendLines, eventRow, eventRows, peekBatch, pendingOf } from './fixtures.js';

const server = await startTestRedis(t);
const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
t.teardown(() => redis.disconnect());

const BOUNDS = { rows: 1e6, bytes: 1e6 };
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
  return { stream: keys.events(0) };
}

t.test('a batch ends with the page that reaches a bound, and has every entry of it', async (t) => {
  t.equal(await peekBatch(redis, { stream: 'nothing:{e0}' }), undefined);
  const source = await streamOf(...Array(8).fill(2), 3, 1);
  for (const [bounds, expected] of [
    [
      { rows: 21, bytes: 1e6 },
      { rows: 20, isFull: false },
    ],
    [
      { rows: 16, bytes: 1e6 },
      { rows: 16, isFull: true },
    ],
    [
      { rows: 1e6, bytes: 160 },
      { rows: 16, isFull: true },
    ],
    [
      { rows: 17, bytes: 1e6 },
      { rows: 19, isFull: true },
    ],
  ] as const)
    t.match(await peekBatch(redis, source, bounds), expected);
});

t.test('lines are in the memory that is given, unless an entry is larger', async (t) => {
  const memory = Buffer.alloc(100);
  const bounds = { rows: 1e6, bytes: 100 };
  const small = await peekBatch(redis, await streamOf(4, 5), bounds, memory);
  t.match(small, { rows: 9, isFull: false });
  t.equal(small?.lines.buffer, memory.buffer);
  const large = await peekBatch(redis, await streamOf(11), bounds, memory);
  t.match(large?.lines.toString(), /^000000000\n(\d{9}\n){9}000000010\n$/);
});

t.test('over many pages no entry is left out or taken twice', async (t) => {
  const rows = Array.from({ length: 3_000 }, (_, i) => (i % 7) + 1);
  const { stream } = await streamOf(...rows);
  const total = rows.reduce((a, b) => a + b);
  const batch = await peekBatch(redis, { stream });
  t.match(batch, { rows: total, isFull: false });
  t.equal(batch?.lines.length, total * 10);
  t.same(
    batch?.entries,
    (await redis.xrange(stream, '-', '+')).map(([id], i) => ({
      id,
      rows: rows[i],
      bytes: Number(rows[i]) * 10,
    })),
  );
});

t.test(
  'a page that fails ends the batch with the entries before it, and the first one is an error',
  async (t) => {
    const entry = [Buffer.from('1-1'), ['n', '1', 'd', 'x\n'].map((text) => Buffer.from(text))] as const;
    let pages = 0;
    const failing = (good: number) => async (count: number) => {
      if (pages++ === good) throw new Error('Redis is away');
      return Array(count).fill(entry);
    };
    const bounds = { rows: 1e6, bytes: 1e6 };
    t.match(await collectBatch(failing(1), { stream: '' }, bounds), { rows: 8, isFull: true });
    pages = 0;
    await t.rejects(collectBatch(failing(0), { stream: '' }, bounds), /Redis is away/);
  },
);

t.test('bytes that are no text pass unchanged', async (t) => {
  const bytes = Buffer.from([...Array(256).keys(), 10]);
  await redis.xadd('odd:{e0}', '*', 'n', '1', 'd', bytes);
  t.ok((await peekBatch(redis, { stream: 'odd:{e0}' }))?.lines.equals(bytes));
});

t.test("an entry that is not a batch of events is told whole, and spoils no other's lines", async (t) => {
  const foreign: (string | Buffer)[][] = [
    ['hello', 'world'],
    ['n', '1'],
    ['n', '1', 'd', 'no newline'],
    ['n', '0', 'd', '\n'],
    ['n', 'x', 'd', Buffer.from([0xff, 10])],
  ];
  const { stream } = await streamOf(1);
  const ids: (string | null)[] = [];
  for (const fields of foreign) ids.push(await redis.xadd(stream, '*', ...fields));
  await redis.xadd(stream, '*', 'n', '1', 'd', 'ours\n');
  const batch = await peekBatch(redis, { stream });
  t.match(batch, { rows: 2, isFull: false });
  t.same(
    batch?.entries.map(({ rows, bytes }) => [rows, bytes]),
    [
      [1, 10],
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
      [1, 5],
    ],
  );
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
    append: (lines: readonly string[], id = '*', time = String(Number.parseInt(id, 10) || Date.now())) =>
      redis.xadd(stream, id, 'n', lines.length, 't', time, 'v', lines.join('')),
  };
}

t.test('a row of a visit has its time, stream, entry and number in that before its line', async (t) => {
  const { source, append } = freshVisits(5);
  await append(visitLines(12), '1767225600007-0');
  await append(visitLines(1, 1), '1767225600007-3');
  const { lines, rows, entries } = (await peekBatch(redis, source)) ?? {};
  const texts = visitLines(12).map((line, i) => `1767225600.007\t5\t0\t${i}\t${line}`);
  texts.push(`1767225600.007\t5\t3\t0\t${visitLines(1, 1)}`);
  t.equal(lines?.toString(), texts.join(''));
  t.equal(rows, 13);
  const bytes = [visitLines(12), visitLines(1, 1)].map((one) => Buffer.byteLength(one.join('')));
  t.same(
    entries?.map((one) => one.bytes),
    bytes,
    'as they are in the stream',
  );
});

t.test(
  'after a clock was set back rows have the times at which they were counted, and names of their own',
  async (t) => {
    const { source, append } = freshVisits(5);
    const ahead = 1767225600007;
    for (const id of [`${ahead}-0`, `${ahead}-1`]) await append(visitLines(1), id, String(ahead));
    for (const id of [`${ahead}-2`, `${ahead}-3`]) await append(visitLines(1), id, '1767220000000');
    const lines = (await peekBatch(redis, source))?.lines.toString().trim().split('\n') ?? [];
    t.same(
      lines.map((line) => line.split('\t').slice(0, 4)),
      [
        ['1767225600.007', '5', '0', '0'],
        ['1767225600.007', '5', '1', '0'],
        ['1767220000.000', '5', String(2 ** 31 + 2), '0'],
        ['1767220000.000', '5', String(2 ** 31 + 3), '0'],
      ],
    );
  },
);

t.test(
  'an entry among visits that is none, or has another number of lines than it says, is foreign',
  async (t) => {
    const { source, append } = freshVisits();
    for (const [n, text] of [
      [1, 'a\tb\t\nc\td\t\n'],
      [3, 'a\tb\t\nc\td\t\n'],
      [1, 'no newline'],
    ] as const)
      await redis.xadd(source.stream, '*', 'n', n, 't', '1767225600007', 'v', text);
    for (const time of [[], ['t', 'soon']])
      await redis.xadd(source.stream, '*', 'n', 1, ...time, 'v', 'a\tb\t\n');
    await append(visitLines(3));
    const batch = await peekBatch(redis, source);
    t.equal(batch?.rows, 3);
    t.equal(batch?.foreignEntries.length, 5);
    const { stream } = await streamOf();
    await redis.xadd(stream, '*', 'n', 1, 'v', 'a\tb\t\n');
    t.match(
      await peekBatch(redis, { stream }),
      { rows: 0, foreignEntries: [/a\\tb/] },
      'visits among events',
    );
  },
);

/** A stream of its own; every script finds the script cache empty. */
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
  const source = { stream: keys.events(0) };
  const group = new StreamGroup(forgetful, keys, 0, source);
  /** Reads what is new. @throws where nothing is */
  const read = async (from = group) => {
    const batch = await from.readNew(BOUNDS);
    if (batch === undefined) throw new Error('nothing waits');
    return batch;
  };
  return { keys, group, read, source };
}

t.test('an entry is read once as new, and again only if it was idle for so long', async (t) => {
  const { keys, group, read, source } = freshStream();
  t.equal(await group.readNew(BOUNDS), undefined, 'makes the group');
  await appendEvents(redis, keys, 0, eventRows(3), 1);
  const batch = await read();
  t.equal(batch.rows, 3);
  const other = new StreamGroup(redis, keys, 0, source);
  t.equal(await other.readNew(BOUNDS), undefined);
  t.equal(await other.readAbandoned(60_000, BOUNDS), undefined);
  await redis.call('XCLAIM', source.stream, 'flush', 'flush', 0, batch.entries[1]?.id ?? '', 'IDLE', 70_000);
  t.same((await other.readAbandoned(60_000, BOUNDS))?.entries, [batch.entries[1]]);
  t.equal(await group.keep(batch.entries), true, 'all are pending, whoever has read them');
  t.equal(await other.readAbandoned(60_000, BOUNDS), undefined, 'their idle time begins anew');
});

t.test('more abandoned entries than one command looks at are all found', async (t) => {
  const { keys, group, read, source } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(2_000), 1);
  const { entries } = await read();
  t.equal(entries.length, 2_000);
  const last = entries.at(-1)?.id ?? '';
  await redis.call('XCLAIM', source.stream, 'flush', 'flush', 0, last, 'IDLE', 70_000);
  t.same((await group.readAbandoned(60_000, BOUNDS))?.entries, [entries.at(-1)], 'behind 1,999 that are not');
  t.equal((await group.readAbandoned(0, BOUNDS))?.entries.length, 2_000);
});

t.test('a group that is lost begins with the first entry that is left', async (t) => {
  const { keys, group, read, source } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(5), 1);
  const { entries } = await read();
  await group.ack(entries.slice(0, 2), [], []);
  await redis.xgroup('DESTROY', source.stream, 'flush');
  t.same((await read()).entries, entries.slice(2));
});

t.test('ack removes exactly its entries and their part of the stats, once', async (t) => {
  const { keys, group, read, source } = freshStream();
  await appendEvents(redis, keys, 0, [eventRow({ payload: { note: '😀' } }), ...eventRows(1_200)], 1);
  const { entries } = await read();
  await appendEvents(redis, keys, 0, [eventRow({ type: 'remove' })]);
  const left = (await peekBatch(redis, source))?.entries.at(-1);
  await group.ack(entries.slice(0, 700), [], []);
  t.equal(await group.keep(entries), false, 'some are not pending any more');
  await new StreamGroup(redis, keys, 0, source).ack(entries, [], []);
  t.same(await pendingOf(redis, keys, 0), { events: 1, bytes: left?.bytes });
  t.same((await peekBatch(redis, source))?.entries, [left]);
  t.equal(((await redis.call('XPENDING', source.stream, 'flush')) as unknown[])[0], 0);
  await group.ack(entries, [], []);
  t.same(await pendingOf(redis, keys, 0), { events: 1, bytes: left?.bytes }, 'again: nothing');
});

t.test('entries that were removed by hand do not count as pending for ever', async (t) => {
  const { keys, group, read, source } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(3), 1);
  await redis.xtrim(source.stream, 'MAXLEN', 1);
  await group.ack((await read()).entries, [], []);
  t.same(await pendingOf(redis, keys, 0), { events: 0, bytes: 0 });
});

t.test('dead letters are listed in pages, retried with the figures right, and dropped', async (t) => {
  const { keys, group, read, source } = freshStream();
  const lines = ['{"a":"emoji 😀"}', '{"b":"\\n"}', '{"c":1}'];
  await appendLines(
    redis,
    keys,
    0,
    lines.map((line) => `${line}\n`),
  );
  const refused = lines.map((line) => ({ line: Buffer.from(line), code: 72, reason: 'why' }));
  await group.ack((await read()).entries, refused, []);
  t.equal(await redis.xlen(keys.eventsDead(0)), 3);

  const letters = await listDeadLetters(redis, keys, 0, 2);
  t.match(letters, [
    { line: lines[0], code: 72, reason: 'why' },
    { line: lines[1], code: 72, reason: 'why' },
  ]);
  t.ok(letters[0]?.time);
  t.match(await listDeadLetters(redis, keys, 0, 2, letters[1]?.id), [{ line: lines[2] }]);

  const ids = letters.map(({ id }) => id);
  t.equal(await retryDeadLetters(redis, keys, 0, [...ids, '1-1']), 2);
  t.equal(await retryDeadLetters(redis, keys, 0, ids), 0, 'a second time there is nothing to retry');
  const back = await peekBatch(redis, source);
  t.equal(back?.lines.toString(), `${lines[0]}\n${lines[1]}\n`);
  t.same(await pendingOf(redis, keys, 0), { events: 2, bytes: back?.lines.length });

  const rest = await listDeadLetters(redis, keys, 0);
  t.equal(await dropDeadLetters(redis, keys, 0, [rest[0]?.id ?? '']), 1);
  t.same(await listDeadLetters(redis, keys, 0), []);
});

t.test('a large batch of nothing but bad lines becomes as many dead letters', async (t) => {
  const { keys, group, read } = freshStream();
  const lines = Array.from({ length: 20_000 }, (_, i) => `{"a":${i}}\n`);
  await appendLines(redis, keys, 0, lines);
  const refused = lines.map((line) => ({ line: Buffer.from(line.trimEnd()), code: 27, reason: 'bad' }));
  await group.ack((await read()).entries, refused, []);
  t.equal(await redis.xlen(keys.eventsDead(0)), 20_000);
  t.equal((await listDeadLetters(redis, keys, 0, 1))[0]?.line, '{"a":0}');
});

t.test('at maxmemory the flusher can still make room', async (t) => {
  const { keys, group, read } = freshStream();
  await appendEvents(redis, keys, 0, [eventRow()]);
  await group.ack((await read()).entries, [], []);
  await appendEvents(redis, keys, 0, [eventRow()]);
  await redis.config('SET', 'maxmemory', '1');
  t.teardown(() => redis.config('SET', 'maxmemory', '0'));
  await t.rejects(redis.set('more', 'memory'), /OOM/);
  const { entries } = await read();
  t.ok(await group.keep(entries));
  t.equal((await group.readAbandoned(0, BOUNDS))?.rows, 1);
  await group.ack(entries, [{ line: Buffer.from('{}'), code: 6, reason: 'bad' }], []);
  t.same(await pendingOf(redis, keys, 0), { events: 0, bytes: 0 });
});
