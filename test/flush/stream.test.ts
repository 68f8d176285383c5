// One stream in Redis: how its entries become a batch, and what its consumer group keeps, gives again and removes.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { StreamGroup } from '../../src/flush/group.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';
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
  /** As a flusher that dies with the batch. @throws where nothing waits */
  const read = async (from = group) => {
    const batch = await from.read();
    if (batch === undefined) throw new Error('nothing waits');
    batch.release();
    return batch;
  };
  return { keys, group, flusher, read, stream: keys.events(0) };
}
const consumersOf = async (stream: string) =>
  ((await redis.xinfo('CONSUMERS', stream, 'flush')) as unknown[]).length;

t.test('an entry is read once as new, and again only if its consumer was idle for so long', async (t) => {
  const { keys, group, flusher, read, stream } = freshStream();
  t.equal(await group.read(), undefined);
  t.equal(await redis.exists(stream), 0, 'a Redis without the stream is not written to');
  await appendEvents(redis, keys, 0, eventRows(3), 1);
  const batch = await read();
  t.equal(batch.rows, 3);
  t.equal(await flusher().read(), undefined);
  t.ok(await group.holds(batch));
  await sleep(5);
  const claimed = await read(flusher(1));
  t.same(claimed.entries, batch.entries);
  t.notOk(await group.holds(batch), 'it is told that they are claimed');
  t.ok(await group.holds(claimed), 'whoever asks');
});

t.test('entries of several dead flushers are claimed in pages, and their consumers go', async (t) => {
  const { keys, flusher, read, stream } = freshStream();
  const all: string[] = [];
  for (let i = 0; i < 3; i++) {
    await appendEvents(redis, keys, 0, eventRows(700), 1);
    all.push(...(await read(flusher())).entries.map(({ id }) => id));
  }
  await sleep(5);
  const last = flusher(1);
  const found: string[] = [];
  for (let batch = await last.read(); batch !== undefined; batch = await last.read()) {
    found.push(...batch.entries.map(({ id }) => id));
    await last.ack(batch, []);
    batch.release();
  }
  t.same(found.toSorted(), all.toSorted());
  await sleep(5);
  t.equal(await last.read(), undefined);
  t.ok((await consumersOf(stream)) <= 1, 'the reader that found nothing');
});

t.test('visits have other names after a clock was set back, and a wrong count is foreign', async (t) => {
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
});

t.test('a claim that has passed by the entries of a dead flusher leaves them to the next one', async (t) => {
  const { keys, flusher, read, stream } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(3), 1);
  const { entries } = await read(flusher());
  await sleep(5);
  const args = ['flush', 'another', 1, 10, entries.at(-1)?.id ?? ''];
  t.equal(await runScript(redis, loadScript('flush/claimEntries'), [stream], args), 0);
  t.same((await read(flusher(1))).entries, entries);
});

t.test('a held batch is kept by one command, whatever its entries, until it is released', async (t) => {
  const { keys, flusher, stream } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(1_500), 1);
  await redis.config('RESETSTAT');
  const group = flusher(400);
  const batch = await group.read();
  if (batch === undefined) throw new Error('nothing waits');
  const stats = await until('it was kept for longer than an entry may be idle', async () => {
    t.equal(await flusher(400).read(), undefined);
    const text = await redis.info('commandstats');
    const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(text)?.[1] ?? 0);
    return Date.now() - Number.parseInt(batch.entries.at(-1)?.id ?? '', 10) > 1_200 && calls;
  });
  t.equal(stats('xclaim'), 0);
  batch.release();
  const next = flusher(400);
  await until('it is claimed', async () => (await next.read())?.rows === 1_500);
  t.notOk(await group.holds(batch));
  t.ok((await consumersOf(stream)) > 0);
});

t.test('a reply that was lost is claimed later, and spoils no other batch', async (t) => {
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
  t.ok(await group.holds(batch));
  await sleep(5);
  const rest = flusher(1);
  const claimed: number[] = [];
  for (let batch = await rest.read(); batch !== undefined; batch = await rest.read()) {
    claimed.push(batch.rows);
    await rest.ack(batch, []);
    batch.release();
  }
  t.same(claimed.toSorted(), [20, 4]);
});

t.test('a group that is lost begins with the first entry that is left', async (t) => {
  const { keys, group, read, stream } = freshStream();
  await appendEvents(redis, keys, 0, eventRows(5), 1);
  const { entries, ...batch } = await read();
  await group.ack({ ...batch, entries: entries.slice(0, 2) }, []);
  await redis.xgroup('DESTROY', stream, 'flush');
  t.notOk(await group.holds({ ...batch, entries }));
  t.same((await read()).entries, entries.slice(2));
});

t.test('ack removes exactly its entries and their part of the stats, once', async (t) => {
  const { keys, group, flusher, read, stream } = freshStream();
  await appendEvents(redis, keys, 0, [eventRow({ payload: { note: '😀' } }), ...eventRows(1_200)], 1);
  const batch = await read();
  await appendEvents(redis, keys, 0, [eventRow({ type: 'remove' })]);
  const left = (await peekBatch(redis, { stream }))?.entries.at(-1);
  await group.ack({ ...batch, entries: batch.entries.slice(0, 700) }, []);
  t.equal(await group.holds(batch), false, 'some are not pending any more');
  await flusher().ack(batch, [{ line: Buffer.from('{}'), code: 6, reason: 'bad' }]);
  t.equal(await redis.xlen(keys.eventsDead(0)), 1, 'however many entries');
  t.same(await pendingOf(redis, keys, 0), { events: 1, bytes: left?.bytes });
  t.same((await peekBatch(redis, { stream }))?.entries, [left]);
  t.equal(((await redis.call('XPENDING', stream, 'flush')) as unknown[])[0], 0);
  await group.ack(batch, []);
  t.same(await pendingOf(redis, keys, 0), { events: 1, bytes: left?.bytes }, 'again: nothing');
});

t.test('dead letters are listed in pages, retried with the figures right, and dropped', async (t) => {
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

t.test('a retry that ends half way leaves the letter, and its bytes are what they were', async (t) => {
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

t.test('a large batch of nothing but bad lines becomes as many dead letters', async (t) => {
  const { keys, group, read } = freshStream();
  const lines = Array.from({ length: 20_000 }, (_, i) => `{"a":${i}}\n`);
  await appendLines(redis, keys, 0, lines);
  const refused = lines.map((line) => ({ line: Buffer.from(line.trimEnd()), code: 27, reason: 'bad' }));
  await group.ack(await read(), refused);
  t.equal(await redis.xlen(keys.eventsDead(0)), 20_000);
  t.equal((await listDeadLetters(redis, keys, 0, { count: 1 }))[0]?.line, '{"a":0}');
});

t.test('at maxmemory the flusher can still make room', async (t) => {
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
  t.ok(await group.holds(batch));
  await sleep(5);
  const last = flusher(1);
  const claimed = await read(last);
  t.equal(claimed.rows, 1);
  await last.ack(claimed, [{ line: Buffer.from('{}'), code: 6, reason: 'bad' }]);
  t.same(await pendingOf(redis, keys, 0), { events: 0, bytes: 0 });
  t.equal((await unread.read()).rows, 1, 'also if no flusher has read the stream before');
});
