// One stream in Redis: how its entries become a batch, and what its consumer group keeps, gives again and removes.

import t from 'tap';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { StreamGroup } from '../../src/flush/group.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { startTestRedis } from '../harness/redis.js';
import { appendEvents, appendLines, eventRow, eventRows, peekBatch, pendingOf } from './fixtures.js';

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

  const letters = await listDeadLetters(redis, keys, 0, { count: 2 });
  t.match(letters, [
    { line: lines[0], code: 72, reason: 'why' },
    { line: lines[1], code: 72, reason: 'why' },
  ]);
  t.ok(letters[0]?.time);
  t.match(await listDeadLetters(redis, keys, 0, { count: 2, after: letters[1]?.id }), [{ line: lines[2] }]);

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
  t.equal((await listDeadLetters(redis, keys, 0, { count: 1 }))[0]?.line, '{"a":0}');
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
