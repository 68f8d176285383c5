// Each of the flusher's scripts alone, on a real Redis, with a script cache that is emptied before every call.

import t from 'tap';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { FencedError, FencedStream } from '../../src/flush/fenced-stream.js';
import { manifestOf } from '../../src/flush/manifest.js';
import { cutBatch } from '../../src/flush/reader.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys, type Keys } from '../../src/redis/keys.js';
import { LUA } from '../../src/redis/lua-codes.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';
import { startTestRedis } from '../harness/redis.js';
import { appendEvents, appendLines, eventRow, eventRows, pendingOf, until } from './fixtures.js';

const server = await startTestRedis(t);
const redis = await connectRedis({ urls: server.urls, name: 'test', timeoutMs: 5_000 }, () => {});
t.teardown(() => redis.disconnect());

const SILENT = 60_000;
let prefixes = 0;

/** A shard of its own; every command finds the script cache empty. */
function freshShard() {
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
  return { keys, redis: forgetful, shard: new FencedStream(forgetful, keys, 0), state: keys.eventsState(0) };
}

/** Claims the shard, and prepares the next batch of its stream. */
async function prepared(shard: FencedStream, keys: Keys) {
  const epoch = await claimed(shard);
  const batch = await cut(keys);
  const manifest = manifestOf(batch);
  await shard.prepare(epoch, manifest);
  return { epoch, manifest };
}

async function cut(keys: Keys) {
  const batch = await cutBatch(redis, keys.events(0));
  if (batch === undefined) throw new Error('nothing to cut');
  return batch;
}

async function claimed(shard: FencedStream, owner = 'a') {
  const claim = await shard.claim(owner, undefined, SILENT);
  if (claim === undefined) throw new Error('not claimed');
  return claim.epoch;
}

t.test('a free shard is granted, and a living owner keeps it', async (t) => {
  const { shard } = freshShard();
  t.match(await shard.claim('a', undefined, SILENT), { epoch: /^\d+$/, manifest: undefined });
  t.equal(await shard.claim('b', undefined, SILENT), undefined);
});

t.test(
  'every claim raises the epoch, also twice in a millisecond and after the clock fell behind it',
  async (t) => {
    const { shard, state } = freshShard();
    // One that a failover lost is not handed out again.
    let last = BigInt(Date.now() - 1_000);
    for (let i = 0; i < 50; i++) {
      const epoch = BigInt(await claimed(shard));
      t.ok(epoch > last);
      last = epoch;
    }
    await redis.hset(state, 'epoch', '9000000000000000');
    t.equal(await claimed(shard), '9000000000000001');
  },
);

t.test(
  'an owner has its shard back at once after a restart, and two of one name do not take it from each other for ever',
  async (t) => {
    const { shard } = freshShard();
    const first = await claimed(shard);
    const second = await claimed(shard);
    t.not(second, first);
    t.equal(await shard.claim('a', first, SILENT), undefined, 'the first waits');
    t.ok(await shard.claim('a', second, SILENT), 'the second has it back after a fault');
  },
);

t.test('an owner that has been silent for too long loses the shard', async (t) => {
  const { shard } = freshShard();
  const first = await claimed(shard);
  t.equal(await shard.claim('b', undefined, SILENT), undefined);
  await until('it has been silent for 50 ms', () => shard.claim('b', undefined, 50));
  await t.rejects(shard.beat(first), FencedError);
});

t.test('a heartbeat keeps the shard', async (t) => {
  const { shard, state } = freshShard();
  const epoch = await claimed(shard);
  // As if it had been silent for longer than an owner may be.
  await redis.hset(state, 'beat', Date.now() - 31_000);
  await shard.beat(epoch);
  t.equal(await shard.claim('b', undefined, 30_000), undefined, 'the heartbeat was just now');
});

t.test(
  "Redis's clock is set back an hour: a living owner keeps the shard, a dead one is not waited for",
  async (t) => {
    const { shard, state } = freshShard();
    const epoch = await claimed(shard);
    const ahead = Date.now() + 3_600_000;
    await redis.hset(state, { beat: ahead, epoch: ahead });
    t.equal(await shard.claim('b', undefined, 1), undefined);
    t.ok(Number(await redis.hget(state, 'beat')) < ahead, 'the beat is now, and silence counts from here');
    const next = await until('b has it', () => shard.claim('b', undefined, 1));
    t.ok(Number(next.epoch) > ahead, 'the epoch rises all the same');
    await t.rejects(shard.beat(epoch), FencedError);
  },
);

t.test('every script of an older epoch is refused and changes nothing', async (t) => {
  const { shard, keys, redis: client, state } = freshShard();
  await appendEvents(client, keys, 0, [eventRow()]);
  const { epoch: old, manifest } = await prepared(shard, keys);
  await claimed(shard, 'a');
  const before = await redis.hgetall(state);
  await t.rejects(shard.beat(old), FencedError);
  await t.rejects(shard.prepare(old, manifest), FencedError);
  await t.rejects(shard.finalize(old, manifest, []), FencedError);
  await t.rejects(shard.release(old), FencedError);
  t.same(await redis.hgetall(state), before);
  t.equal(await redis.xlen(keys.events(0)), 1);
});

t.test('a manifest stays until its own batch is finalized, and comes with the next claim', async (t) => {
  const { shard, keys, redis: client } = freshShard();
  await appendEvents(client, keys, 0, [eventRow()]);
  const epoch = await claimed(shard);
  const batch = await cut(keys);
  const manifest = manifestOf(batch);
  await t.rejects(shard.finalize(epoch, manifest, []), /another batch/, 'nothing was prepared');
  await shard.prepare(epoch, manifest);
  await shard.prepare(epoch, manifest); // a lost reply
  await t.rejects(shard.prepare(epoch, manifestOf(batch)), /another batch/);
  await t.rejects(shard.finalize(epoch, manifestOf(batch), []), /another batch/);
  t.equal(await redis.xlen(keys.events(0)), 1);
  t.same((await shard.claim('a', epoch, SILENT))?.manifest, manifest);
});

t.test('finalize removes exactly its range and its figures', async (t) => {
  const { shard, keys, redis: client } = freshShard();
  const first = [eventRow({ payload: { note: '😀' } }), eventRow()];
  await appendEvents(client, keys, 0, first, 1);
  const { epoch, manifest } = await prepared(shard, keys);
  const later = `${JSON.stringify(eventRow({ type: 'remove' }))}\n`;
  await appendLines(client, keys, 0, [later]);
  await shard.finalize(epoch, manifest, []);
  t.same(await pendingOf(client, keys, 0), { events: 1, bytes: Buffer.byteLength(later) });
  t.equal((await cutBatch(client, keys.events(0)))?.lines.toString(), later);
  t.equal((await shard.claim('a', epoch, SILENT))?.manifest, undefined);
});

t.test('what was removed from the stream by hand does not count as pending for ever', async (t) => {
  const { shard, keys, redis: client } = freshShard();
  await appendEvents(client, keys, 0, eventRows(3), 1);
  await redis.xtrim(keys.events(0), 'MAXLEN', 1);
  const finalizeNext = async () => {
    const { epoch, manifest } = await prepared(shard, keys);
    await shard.finalize(epoch, manifest, []);
  };
  await finalizeNext();
  t.same(await pendingOf(client, keys, 0), { events: 0, bytes: 0 });
  await appendEvents(client, keys, 0, [eventRow()]);
  await finalizeNext();
  t.same(await pendingOf(client, keys, 0), { events: 0, bytes: 0 });
});

t.test('release frees the shard at once and keeps the batch in flight', async (t) => {
  const { shard, keys, redis: client } = freshShard();
  await appendEvents(client, keys, 0, [eventRow()]);
  const { epoch, manifest } = await prepared(shard, keys);
  await shard.release(epoch);
  t.same((await shard.claim('b', undefined, SILENT))?.manifest, manifest);
});

t.test('dead letters are listed in pages, retried with the figures right, and dropped', async (t) => {
  const { shard, keys, redis: client } = freshShard();
  const lines = ['{"a":"emoji 😀"}', '{"b":"\\n"}', '{"c":1}'];
  const whole = lines.map((line) => `${line}\n`);
  await appendLines(client, keys, 0, whole);
  const { epoch, manifest } = await prepared(shard, keys);
  const refused = lines.map((line) => ({ line: Buffer.from(line), code: 72, reason: 'why' }));
  await shard.finalize(epoch, manifest, refused);
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
  const { shard, keys, redis: client } = freshShard();
  const lines = Array.from({ length: 20_000 }, (_, i) => `{"a":${i}}\n`);
  await appendLines(client, keys, 0, lines);
  const { epoch, manifest } = await prepared(shard, keys);
  const refused = lines.map((line) => ({ line: Buffer.from(line.trimEnd()), code: 27, reason: 'bad' }));
  await shard.finalize(epoch, manifest, refused);
  t.equal(await redis.xlen(keys.eventsDead(0)), 20_000);
  t.equal((await listDeadLetters(client, keys, 0, 1))[0]?.line, '{"a":0}');
});

t.test('at maxmemory the flusher can still make room', async (t) => {
  const { shard, keys, redis: client } = freshShard();
  await appendEvents(client, keys, 0, [eventRow()]);
  await redis.config('SET', 'maxmemory', '1');
  t.teardown(() => redis.config('SET', 'maxmemory', '0'));
  await t.rejects(appendEvents(client, keys, 0, [eventRow()]), /OOM/);
  const { epoch, manifest } = await prepared(shard, keys);
  await shard.beat(epoch);
  await shard.finalize(epoch, manifest, [{ line: Buffer.from('{}'), code: 6, reason: 'bad' }]);
  await shard.release(epoch);
  t.same(await pendingOf(client, keys, 0), { events: 0, bytes: 0 });
});

t.test('the codes that the scripts answer are those of src/errors.ts', async (t) => {
  const { shard, state } = freshShard();
  await claimed(shard);
  t.equal(await runScript(redis, loadScript('flush-release'), [state], ['0']), LUA.FENCED);
  t.equal(await runScript(redis, loadScript('flush-claim'), [state], ['b', '', SILENT]), LUA.FENCED);
});
