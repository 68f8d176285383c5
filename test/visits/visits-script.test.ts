// lua/visits/countVisits.lua alone, for cases that no request shows: repeated batches, a log that takes no
// entry, expiry of guests.

import { createHash } from 'node:crypto';
import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { KeptGuests } from '../../src/visits/kept-guests.js';
import { startLuaRedis } from '../harness/lua.js';

const CHANNEL = '{b}:channel';
const IDENTITY = '{b}:v:s1';
const LINK = 'a.linked 1.a led';
const [LOG, STATE] = ['{v}:visits', '{v}:visits:state'];

t.test('a batch of visits', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));

  interface Batch {
    readonly deadlineMs?: number;
    readonly channel?: string;
    readonly retention?: number;
    readonly log?: string;
    readonly record?: string;
  }
  /** @param visits kind and product of each visit; all are of one guest */
  const batch = async (
    seq: number,
    visits: readonly [kind: string, handle: string][],
    options: Batch = {},
  ) => {
    const { deadlineMs = 10_000, channel = CHANNEL, retention = 0, log = '', record } = options;
    const lines = visits.map(([, handle]) => `p\t${handle}\t\n`).join('');
    const once = record === undefined ? [] : ['once', record, 60];
    const words = visits.flatMap(([kind, handle]) => [...once, kind, IDENTITY, handle]);
    const state = log === '' ? '' : STATE;
    const args = [seq, await clock(deadlineMs), 60, 2, retention, log, state, 1_000, lines, ...words];
    return call('visits/countVisits', [channel], args);
  };

  t.test('a repeated batch of visits gets its first answer, however late, and is logged once', async (t) => {
    const visits: [string, string][] = [
      ['count', 'x'],
      ['visit', 'y'],
      ['visit', 'one too many'],
    ];
    for (const deadlineMs of [10_000, 10_000, -1])
      t.same(await batch(7, visits, { deadlineMs, log: LOG }), [1, 1, 3, LUA.TOO_MANY]);
    t.same(await client.hgetall(IDENTITY), { x: '1', y: '1' });
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
    t.equal(await client.xlen(LOG), 1);
    const ttl = await client.ttl(CHANNEL);
    t.ok(ttl > 0 && ttl <= 60, 'what was answered goes away by itself');
  });

  t.test('a repeated visit under a key is counted and logged once', async (t) => {
    for (const seq of [1, 2])
      t.same(await batch(seq, [['count', 'x']], { log: LOG, record: '{b}:k:1' }), [1, 1]);
    t.same(await client.hgetall(STATE), { events: '1', bytes: '5' });
  });

  t.test("a batch of visits that is late, or older than its channel's last one, does nothing", async (t) => {
    t.equal(await batch(1, [['visit', 'x']], { deadlineMs: -1 }), LUA.EXPIRED);
    t.same(await client.keys('*'), []);
    t.same(await batch(1, [['count', 'x']]), [1, 1], 'its number is free');
    await batch(5, [['visit', 'x']]);
    t.equal(await batch(4, [['visit', 'x']]), LUA.SUPERSEDED);
    t.same(await batch(1, [['count', 'x']], { channel: '{b}:channel:2' }), [1, 3], 'of another channel');
  });

  t.test(
    "countVisits checks a guest's expiry; if the guest is remembered, only at the first visit of a product",
    async (t) => {
      const [DAY_S, HOUR_S] = [86_400, 3_600];
      const days = async () => Math.round(((await client.ttl(IDENTITY)) / DAY_S) * 10) / 10;
      const visit = (kind: string, handle: string, seq: number) =>
        batch(seq, [[kind, handle]], { retention: 10 * DAY_S });
      await visit('kept', 'x', 1);
      t.equal(await days(), 11, 'a new one has an end');
      await client.expire(IDENTITY, 3 * DAY_S);
      await visit('kept', 'x', 2);
      t.equal(await days(), 3);
      await visit('kept', 'y', 3);
      t.equal(await days(), 11);
      await client.expire(IDENTITY, 10 * DAY_S + 2 * HOUR_S);
      await visit('visit', 'x', 4);
      t.equal(await days(), 10.1, 'in time');
      // The process that sent it will not check for an hour.
      await client.expire(IDENTITY, 10 * DAY_S + HOUR_S - 10);
      await visit('visit', 'x', 5);
      t.equal(await days(), 11);
      t.same(await client.hgetall(IDENTITY), { x: '4', y: '1' });
      await client.del(IDENTITY);
      await client.hset(IDENTITY, '', LINK);
      t.same(await visit('kept', 'x', 6), [1, `@${LINK}`]);
    },
  );

  t.test(
    "a visit after Redis's clock was set back is logged with the time at which it was counted",
    async (t) => {
      await client.xadd(LOG, `${Date.now() + 3_600_000}-0`, 'ahead', '1');
      await batch(1, [['visit', 'x']], { log: LOG });
      const [, [id, fields]] = (await client.xrange(LOG, '-', '+')) as [unknown, [string, string[]]];
      t.ok(Number(id.split('-')[0]) > Number(fields[3]) + 3_000_000, `${id} ${fields}`);
    },
  );

  t.test('a visit is counted even if its stream takes no entry, and the answer says so', async (t) => {
    for (const [i, [key, other]] of [
      [LOG, STATE],
      [STATE, LOG],
    ].entries()) {
      await client.set(key as string, 'in the way');
      t.same(await batch(i + 1, [['count', 'x']], { log: LOG }), [1, i + 1, 0, 1]);
      t.equal(await client.exists(other as string), 0);
      await client.del(key as string);
    }
  });
});

t.test("a process remembers for less than an hour that a guest's expiry was set", async (t) => {
  const kept = new KeptGuests();
  const ids = Array.from(
    { length: 1_000 },
    (_, i) => `1a.s${createHash('sha1').update(`${i}`).digest('base64url').slice(0, 16)}`,
  );
  const remembered = () => ids.filter((id) => kept.has(id)).length;
  const HOUR_MS = 3_600_000;
  kept.forgetOld(1);
  t.equal(remembered(), 0);
  for (const id of ids.slice(0, 500)) kept.add(id);
  t.ok(remembered() > 490 && remembered() <= 500, `${remembered()}: one of two in a slot is forgotten`);
  kept.forgetOld(HOUR_MS / 2);
  t.ok(remembered() > 490);
  kept.forgetOld(HOUR_MS - 60_000);
  t.equal(remembered(), 0);
});
