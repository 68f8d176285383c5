// One stream in Redis: how its entries become a batch, and what its consumer group keeps, gives again and removes.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { StreamGroup } from '../../src/flush/group.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { startTestRedis } from '../harness/redis.js';
import { appendEvents, appendLines, eventRow, eventRows, peekBatch, pendingOf, until } from './fixtures.js';

const server = await startTestRedis(t);
const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
t.teardown(() => redis.disconnect());

const BOUNDS = { rows: 1e6, bytes: 1e6 };
let prefixes = 0;

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
  const flusher = (abandonedMs = 60_000, client = redis) =>
    new StreamGroup({ redis: client, keys, number: 0, isOfVisits: false, bounds: BOUNDS, abandonedMs });
  const group = flusher(60_000, forgetful);
  /** As a flusher that dies with the batch. @throws if nothing waits */
  const read = async (from = group) => {
    const batch = await from.read();
    if (batch === undefined) throw new Error('nothing waits');
    batch.release();
    return batch;
  };
  return { keys, group, flusher, read, stream: keys.events(0) };
}
/** `abandonedMs` of a flusher that takes entries over quickly. */
const SOON = 20;
const takeOver = (flusher: StreamGroup) => until('entries are taken over', () => flusher.read());
async function takeOverAll(flusher: StreamGroup, count: number): Promise<string[]> {
  const ids: string[] = [];
  while (ids.length < count) {
    const batch = await takeOver(flusher);
    ids.push(...batch.entries.map(({ id }) => id));
    await flusher.ack(batch, []);
    batch.release();
  }
  return ids;
}

t.test('an entry goes to one flusher, and to another only if the first no longer holds it', async (t) => {
  const { keys, group, flusher, read, stream } = freshStream();
  t.equal(await group.read(), undefined);
  t.equal(await redis.exists(stream), 0, 'a Redis without the stream is not written to');
  await appendEvents(redis, keys, 0, eventRows(3), 1);
  const batch = await read();
  t.equal(batch.rows, 3);
  t.equal(await flusher().read(), undefined);
  const other = flusher(SOON);
  const taken = await takeOver(other);
  t.same(taken.entries, batch.entries);
  t.ok(taken.wasAbandoned);
  taken.release();
});

t.test('a flusher takes over the entries of several dead flushers, each once', async (t) => {
  const { keys, flusher, read } = freshStream();
  const all: string[] = [];
  for (let i = 0; i < 3; i++) {
    await appendEvents(redis, keys, 0, eventRows(700), 1);
    all.push(...(await read(flusher())).entries.map(({ id }) => id));
  }
  const last = flusher(SOON);
  t.same((await takeOverAll(last, 2_100)).toSorted(), all.toSorted());
  t.equal(await last.read(), undefined);
});

t.test(
  'visits get other row names after a clock was set back, and an entry with a wrong count is foreign',
  async (t) => {
    const { visits } = createKeys(`t${++prefixes}`);
    const stream = visits.events(0);
    const at = 1_767_225_600_007;
    const add = (id: string, count: number) =>
      redis.xadd(stream, id, 'n', count, 't', at, 'v', '7.a\that\ttv\n');
    await add(`${at}-5`, 1);
    await add(`${at}-6`, 2);
    await add(`${at + 3_600_000}-5`, 1);
    const batch = await peekBatch(redis, { stream, visits: 3 });
    const names = String(batch?.lines).split('7.a\that\ttv\n');
    t.same(names, ['1767225600.007\t3\t5\t0\t', `1767225600.007\t3\t${2 ** 31 + 5}\t0\t`, '']);
    t.match(batch, { rows: 2, foreignEntries: [new RegExp(`${at}-6`)] });
  },
);

t.test('a batch stays with its flusher from its first page until it is released', async (t) => {
  const { keys, flusher, stream } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(8), 1); // a page
  await redis.xgroup('CREATE', stream, 'flush', '0');
  const other = flusher(200);
  /** Waits longer than another flusher needs to take over abandoned entries. */
  const watch = async () => {
    for (const began = performance.now(); performance.now() - began < 1_000; await sleep(20))
      t.equal(await other.read(), undefined);
  };
  let pages = 0;
  const slow = Object.create(redis, {
    xreadgroupBuffer: {
      async value(...args: never[]) {
        if (++pages === 2) await watch();
        return await (redis.xreadgroupBuffer as (...args: never[]) => Promise<unknown>)(...args);
      },
    },
  });
  const group = flusher(200, slow);
  const batch = await group.read();
  t.equal(batch?.rows, 8);
  t.ok(pages > 1, `another flusher watched before page 2 of ${pages}`);
  await appendEvents(redis, keys, 0, eventRows(1_500), 1);
  const next = await group.read();
  t.equal(next?.rows, 1_500);
  await watch();
  for (const held of [batch, next]) held?.release();
  t.equal((await takeOverAll(other, 1_508)).length, 1_508);
});

t.test('a flusher notices that another one has acknowledged an entry of its batch', async (t) => {
  const { keys, flusher } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(3), 1);
  const group = flusher(SOON);
  const batch = await takeOver(group);
  t.ok(await group.isPending(batch));
  await flusher().ack({ ...batch, entries: batch.entries.slice(0, 1) }, []);
  await until('it knows', async () => !(await group.isPending(batch)));
  batch.release();
});

t.test('entries of a dead flusher are taken over even if the clock of Redis was an hour ahead', async (t) => {
  const { keys, flusher, read, stream } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(3), 1);
  const { entries } = await read();
  await deliverLater(stream, 3_600_000);
  const [[, , idleMs] = []] = (await redis.xpending(stream, 'flush', '-', '+', 1)) as unknown[][];
  t.equal(idleMs, 0, 'Redis says that they were delivered just now');
  t.same(
    await takeOverAll(flusher(SOON), 3),
    entries.map(({ id }) => id),
  );
});

/** Moves the delivery times of a consumer group forward, as if the clock of Redis had been ahead. */
async function deliverLater(stream: string, byMs: number): Promise<void> {
  const dump = (await redis.dumpBuffer(stream)) as Buffer;
  const now = Date.now();
  for (let at = 0; at + 8 <= dump.length - 10; at++) {
    const time = Number(dump.readBigUInt64LE(at));
    if (Math.abs(now - time) < 60_000) dump.writeBigUInt64LE(BigInt(time + byMs), at);
  }
  dump.writeBigUInt64LE(crc64(dump.subarray(0, -8)), dump.length - 8);
  await redis.restore(stream, 0, dump, 'REPLACE');
}

/** As Redis computes it for DUMP (crc64.c). */
function crc64(bytes: Buffer): bigint {
  let crc = 0n;
  for (const byte of bytes) {
    crc ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ 0x95ac9329ac4bc9b5n : crc >> 1n;
  }
  return crc;
}

t.test('entries of a lost reply are claimed later, and disturb no other batch', async (t) => {
  const { keys, flusher, read } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(20), 1);
  let reads = 0;
  const losing = Object.create(redis, {
    xreadgroupBuffer: {
      async value(...args: never[]) {
        const reply = await (redis.xreadgroupBuffer as (...args: never[]) => Promise<unknown>)(...args);
        if (++reads === 2) throw new Error('the reply is lost');
        return reply;
      },
    },
  });
  const group = flusher(60_000, losing);
  await t.rejects(group.read(), /lost/);
  await appendEvents(redis, keys, 0, eventRows(4), 1);
  const batch = await read(group);
  t.equal(batch.rows, 4);
  t.equal((await takeOverAll(flusher(SOON), 24)).length, 24);
});

t.test('a lost consumer group starts again at the first entry that is left', async (t) => {
  const { keys, group, read, stream } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(5), 1);
  const { entries, ...batch } = await read();
  await group.ack({ ...batch, entries: entries.slice(0, 2) }, []);
  await redis.xgroup('DESTROY', stream, 'flush');
  t.same((await read()).entries, entries.slice(2));
});

t.test('an acknowledgement removes exactly its entries and their part of the stats, once', async (t) => {
  const { keys, group, flusher, read, stream } = freshStream();
  await appendEvents(redis, keys, 0, [eventRow({ payload: { note: '😀' } }), ...eventRows(1_200)], 1);
  const batch = await read();
  await appendEvents(redis, keys, 0, [eventRow({ type: 'remove' })]);
  const left = (await peekBatch(redis, { stream }))?.entries.at(-1);
  await group.ack({ ...batch, entries: batch.entries.slice(0, 700) }, []);
  await flusher().ack(batch, [{ line: Buffer.from('{}'), code: 6, reason: 'bad' }]);
  t.equal(await redis.xlen(keys.eventsDead(0)), 1, 'however many entries');
  t.same(await pendingOf(redis, keys, 0), { events: 1, bytes: left?.bytes });
  t.same((await peekBatch(redis, { stream }))?.entries, [left]);
  t.equal(((await redis.call('XPENDING', stream, 'flush')) as unknown[])[0], 0);
  await group.ack(batch, []);
  t.same(await pendingOf(redis, keys, 0), { events: 1, bytes: left?.bytes }, 'again: nothing');
});

t.test('dead letters are listed in pages, retried with correct stats, and dropped', async (t) => {
  const { keys, group, read, stream } = freshStream();
  const lines = ['{"a":"emoji 😀"}', '{"b":"\\n"}', '{"c":1}'];
  const given = lines.map((line) => `${line}\n`);
  await appendLines(redis, keys, 0, given);
  const refused = lines.map((line) => ({ line: Buffer.from(line), code: 72, reason: 'why' }));
  await group.ack(await read(), refused);
  t.equal(await redis.xlen(keys.eventsDead(0)), 3);

  const letters = await listDeadLetters(redis, keys, 0, { count: 2 });
  for (const [i, letter] of letters.entries()) t.match(letter, { line: lines[i], code: 72, reason: 'why' });
  t.ok(letters.length === 2 && letters[0]?.time);
  t.match(await listDeadLetters(redis, keys, 0, { count: 2, after: letters[1]?.id }), [{ line: lines[2] }]);

  const ids = letters.map(({ id }) => id);
  await redis.hset(keys.eventsState(0), 'bytes', 1e12); // as a stream that is full
  t.equal(await retryDeadLetters(redis, keys, 0, [...ids, '1-1']), 2);
  await redis.hincrby(keys.eventsState(0), 'bytes', -1e12);
  t.equal(await retryDeadLetters(redis, keys, 0, ids), 0, 'a second time there is nothing to retry');
  const back = await peekBatch(redis, { stream });
  t.equal(back?.lines.toString(), `${lines[0]}\n${lines[1]}\n`);
  t.same(await pendingOf(redis, keys, 0), { events: 2, bytes: back?.lines.length });

  const rest = await listDeadLetters(redis, keys, 0);
  t.equal(await dropDeadLetters(redis, keys, 0, [rest[0]?.id ?? '']), 1);
  t.same(await listDeadLetters(redis, keys, 0), []);
});

t.test('a retry of a dead letter that ends half-way keeps the letter, byte for byte', async (t) => {
  const { keys, group, read, stream } = freshStream();
  const line = Buffer.from('{"a":"\xff\xfe"}', 'latin1'); // no UTF-8
  await appendLines(redis, keys, 0, ['{}\n']);
  await group.ack(await read(), [{ line, code: 26, reason: 'bad' }]);
  const [letter] = await listDeadLetters(redis, keys, 0);
  const dying = Object.create(redis, { xdel: { value: () => Promise.reject(new Error('killed')) } });
  const ids = [letter?.id ?? ''];
  await t.rejects(retryDeadLetters(dying, keys, 0, ids), /killed/);
  t.equal(await redis.xlen(keys.eventsDead(0)), 1);
  t.equal(await retryDeadLetters(redis, keys, 0, ids), 1);
  const twice = Buffer.concat([line, Buffer.from('\n'), line, Buffer.from('\n')]);
  t.ok((await peekBatch(redis, { stream }))?.lines.equals(twice));
});

t.test('a large batch of bad lines becomes as many dead letters', async (t) => {
  const { keys, group, read } = freshStream();
  const lines = Array.from({ length: 20_000 }, (_, i) => `{"a":${i}}\n`);
  await appendLines(redis, keys, 0, lines);
  const refused = lines.map((line) => ({ line: Buffer.from(line.trimEnd()), code: 27, reason: 'bad' }));
  await group.ack(await read(), refused);
  t.equal(await redis.xlen(keys.eventsDead(0)), 20_000);
  t.equal((await listDeadLetters(redis, keys, 0, { count: 1 }))[0]?.line, '{"a":0}');
});

t.test('a flusher can read and acknowledge entries while Redis is at maxmemory', async (t) => {
  const { keys, group, flusher, read } = freshStream();
  await appendEvents(redis, keys, 0, [eventRow()]);
  await group.ack(await read(), []);
  await appendEvents(redis, keys, 0, [eventRow()]);
  const unread = freshStream();
  await appendEvents(redis, unread.keys, 0, [eventRow()]);
  await redis.config('SET', 'maxmemory', '1');
  t.teardown(() => redis.config('SET', 'maxmemory', '0'));
  await t.rejects(redis.set('more', 'memory'), /OOM/);
  const batch = await read();
  t.equal(batch.rows, 1);
  const last = flusher(SOON);
  const claimed = await takeOver(last);
  claimed.release();
  t.equal(claimed.rows, 1);
  await last.ack(claimed, [{ line: Buffer.from('{}'), code: 6, reason: 'bad' }]);
  t.same(await pendingOf(redis, keys, 0), { events: 0, bytes: 0 });
  t.equal((await unread.read()).rows, 1, 'also if no flusher has read the stream before');
});
