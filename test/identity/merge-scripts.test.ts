// The steps of a merge, each script alone: lua/merge-take.lua, merge-give.lua, merge-record.lua, merge-done.lua.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

/** A merge moves these aside: profile, room, items, outbox, merged. */
const [PROFILE, ROOM, ITEMS, OUTBOX, MERGED] = ['p', 'r', 'i', 'o', 'g'].map(
  (kind) => `{a}:${kind}:from`,
) as Five;
const JOURNAL = ['jv', 'ji', 'jo', 'jp', 'jg'].map((kind) => `{a}:${kind}:from`) as Five;
const [JOURNAL_ROOM, JOURNAL_ITEMS, JOURNAL_OUTBOX, JOURNAL_PROFILE, JOURNAL_MERGED] = JOURNAL;
const MERGES = '{a}:merges';
const HEIR = {
  profile: '{b}:p:heir',
  room: '{b}:r:heir',
  items: '{b}:i:heir',
  outbox: '{b}:o:heir',
  merged: '{b}:g:heir',
  received: '{b}:x:heir:a.from',
};
type Five = [string, string, string, string, string];

t.test('the steps of a merge', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const keys = async () => (await client.keys('*')).sort();

  t.test('past its deadline no step does anything', async (t) => {
    const late = await clock(-1);
    await client.hset(ROOM, 'x', 3);
    const taken = [PROFILE, ROOM, ITEMS, OUTBOX, MERGED, ...JOURNAL, MERGES];
    t.equal(await call('merge-take', taken, [late, 'a.from', 'b.heir', 'n1', 60]), LUA.EXPIRED);
    const given = [HEIR.profile, HEIR.room, HEIR.received, HEIR.merged];
    t.equal(await call('merge-give', given, [late, 'v', 60, 'a.from', 'x', 3]), LUA.EXPIRED);
    const recorded = [HEIR.profile, HEIR.merged, HEIR.outbox];
    t.equal(await call('merge-record', recorded, [late, 'a.from', 'n1', 'e1', 'line']), LUA.EXPIRED);
    t.same(await keys(), [ROOM]);
    await client.hset(PROFILE, { heir: '!b.heir', nonce: 'n1' });
    t.equal(await call('merge-done', [PROFILE, ...JOURNAL], [late, 'b.heir', 'n1', 60]), LUA.EXPIRED);
    t.equal(await client.hget(PROFILE, 'heir'), '!b.heir');
  });

  t.test('take', async (t) => {
    const take = async (heir = 'b.heir', nonce = 'n1', from = 'a.from', keptS = 60) =>
      call(
        'merge-take',
        [PROFILE, ROOM, ITEMS, OUTBOX, MERGED, ...JOURNAL, MERGES],
        [await clock(10_000), from, heir, nonce, keptS],
      );
    t.beforeEach(async () => void (await client.hset(PROFILE, 'owner', 'c:1')));

    t.test('what is being erased, or is no room, is not taken', async (t) => {
      await client.hset(PROFILE, 'heir', '@');
      await client.hset(ROOM, 'x', 3);
      t.same(await take(), ['@', '']);
      await client.del(PROFILE);
      t.same(await take(), ['@', '']);
      t.same(await keys(), [ROOM]);
    });

    t.test('belongings go aside, a tombstone stays, and the bucket remembers the merge', async (t) => {
      await client.hset(PROFILE, { owner: 'c:1', email: 'a@b' });
      await client.hset(ROOM, 'x', 3);
      await client.hset(ITEMS, '1:', 'an item');
      await client.hset(OUTBOX, 'e1', 'an event');
      await client.hset(MERGED, 'a.older', 'n0');
      const before = await clock(0);
      t.same(await take(), ['!b.heir', 'n1']);
      t.same(await client.hgetall(PROFILE), { heir: '!b.heir', nonce: 'n1' });
      t.same(await client.hgetall(JOURNAL_ROOM), { x: '3' });
      t.same(await client.hgetall(JOURNAL_ITEMS), { '1:': 'an item' });
      t.same(await client.hgetall(JOURNAL_OUTBOX), { e1: 'an event' });
      t.same(await client.hgetall(JOURNAL_PROFILE), { owner: 'c:1', email: 'a@b' });
      t.same(await client.hgetall(JOURNAL_MERGED), { 'a.older': 'n0' });
      t.same(await keys(), [PROFILE, ...JOURNAL, MERGES].sort());
      const ms = await client.zscore(MERGES, 'a.from');
      t.ok(Number(ms) >= before && Number(ms) <= (await clock(0)), `${ms}`);
      const ttl = await client.ttl(MERGES);
      t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
      for (const key of [PROFILE, ...JOURNAL])
        t.equal(await client.ttl(key), -1, `${key} stays until it is given`);
    });

    t.test(
      "again, or with another heir: the first merge's heir and nonce, and nothing changes",
      async (t) => {
        await client.hset(ROOM, 'x', 3);
        await take();
        t.same(await take(), ['!b.heir', 'n1']);
        t.same(await take('c.third', 'n2'), ['!b.heir', 'n1']);
        t.same(await client.hgetall(JOURNAL_ROOM), { x: '3' }, 'the journal is as it was');
        t.same(await client.zrange(MERGES, '0', '-1'), ['a.from']);
        await client.hset(PROFILE, 'heir', 'b.heir');
        t.same(await take('c.third', 'n2'), ['b.heir', 'n1'], 'when it is done, too');
      },
    );

    t.test('a room that was never written to leaves a tombstone, and a journal of its owner', async (t) => {
      t.same(await take(), ['!b.heir', 'n1']);
      t.same(await keys(), [PROFILE, JOURNAL_PROFILE, MERGES].sort());
    });

    t.test('an old journal, of a merge that this side forgot, is not mixed with the new one', async (t) => {
      for (const key of JOURNAL) await client.hset(key, 'old', 1);
      await client.hset(ROOM, 'x', 3);
      t.same(await take('b.heir', 'n2'), ['!b.heir', 'n2']);
      t.same(await keys(), [PROFILE, JOURNAL_ROOM, JOURNAL_PROFILE, MERGES].sort());
      t.same(await client.hgetall(JOURNAL_ROOM), { x: '3' });
    });

    t.test('a bucket forgets merges after their time, also while others go on', async (t) => {
      const now = await clock(0);
      await client.zadd(MERGES, now - 61_000, 'old', now - 30_000, 'young');
      await take();
      t.same(await client.zrange(MERGES, '0', '-1'), ['young', 'a.from']);
    });
  });

  t.test('give', async (t) => {
    const give = async (kind: string, to: string, ...page: (string | number)[]) =>
      call(
        'merge-give',
        [HEIR.profile, to, HEIR.received, HEIR.merged],
        [await clock(10_000), kind, 60, 'a.from', ...page],
      );
    t.beforeEach(async () => void (await client.hset(HEIR.merged, 'a.from', '')));

    t.test('an heir that does not expect it, or is being erased, gets nothing', async (t) => {
      await client.hset(HEIR.profile, 'heir', '@');
      t.equal(await give('v', HEIR.room, 'x', 3), '@');
      await client.del(HEIR.profile, HEIR.merged);
      t.equal(await give('v', HEIR.room, 'x', 3), '@');
      await client.hset(HEIR.profile, 'owner', 'c:1');
      t.equal(await give('v', HEIR.room, 'x', 3), '@', 'it was made anew');
      t.same(await keys(), [HEIR.profile]);
    });

    t.test('counts are added, and the same page again adds nothing', async (t) => {
      await client.hset(HEIR.room, 'x', 2);
      for (let i = 0; i < 3; i++) {
        t.equal(await give('v', HEIR.room, 'x', 3, 'y', 1), 1);
        t.same(await client.hgetall(HEIR.room), { x: '5', y: '1' });
      }
      t.same(await client.hgetall(HEIR.received), { vx: '3', vy: '1' });
      t.same(await keys(), [HEIR.received, HEIR.room, HEIR.merged].sort());
      t.equal(await client.ttl(HEIR.room), -1);
    });

    t.test('what was received is remembered for its time', async (t) => {
      await give('v', HEIR.room, 'x', 3);
      const ttl = await client.ttl(HEIR.received);
      t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    });

    t.test('a page with higher counts adds only what was gained; one with lower ones nothing', async (t) => {
      await give('v', HEIR.room, 'x', 3, 'y', 1);
      t.equal(await give('v', HEIR.room, 'x', 5, 'y', 1, 'z', 2), 1);
      t.same(await client.hgetall(HEIR.room), { x: '5', y: '1', z: '2' });
      t.equal(await give('v', HEIR.room, 'x', 2), 1);
      t.equal(await client.hget(HEIR.room, 'x'), '5');
      t.equal(await give('v', HEIR.room, 'x', 6), 1);
      t.equal(await client.hget(HEIR.room, 'x'), '6', 'and a lower one was not taken for what it has');
    });

    t.test('what the heir counts or resets in between stays as it is', async (t) => {
      await give('v', HEIR.room, 'x', 3);
      await client.hincrby(HEIR.room, 'x', 1);
      await give('v', HEIR.room, 'x', 3);
      t.equal(await client.hget(HEIR.room, 'x'), '4');
      await client.hdel(HEIR.room, 'x');
      await give('v', HEIR.room, 'x', 3);
      t.equal(await client.exists(HEIR.room), 0, 'a reset is not undone by a page that comes again');
    });

    t.test('of two items the heir’s stays, and one that was removed does not come back', async (t) => {
      await client.hset(HEIR.items, '1:', 'mine');
      for (let i = 0; i < 2; i++) t.equal(await give('i', HEIR.items, '1:', 'theirs', '2:', 'theirs'), 1);
      t.same(await client.hgetall(HEIR.items), { '1:': 'mine', '2:': 'theirs' });
      await client.hdel(HEIR.items, '1:', '2:');
      t.equal(await give('i', HEIR.items, '1:', 'theirs', '2:', 'theirs'), 1);
      t.equal(await client.exists(HEIR.items), 0);
    });

    t.test('bytes of items that come in are counted where they are counted', async (t) => {
      await client.hset(HEIR.items, '1:', 'mine');
      await give('i', HEIR.items, '1:', 'theirs', '2:', '12345');
      t.equal(await client.exists(HEIR.profile), 0, 'not counted yet: commit.lua makes up for it');
      await client.hset(HEIR.profile, 'itemBytes', 9);
      for (let i = 0; i < 2; i++) await give('i', HEIR.items, '1:', 'theirs', '2:', '12345', '3:', '1234567');
      t.same(await client.hgetall(HEIR.profile), { itemBytes: '16' });
    });

    t.test('events, facts and earlier merges: what the heir does not have, once', async (t) => {
      await client.hset(HEIR.profile, 'email', 'mine@b');
      await client.hset(HEIR.merged, 'a.both', 'n8');
      for (let i = 0; i < 2; i++) {
        t.equal(await give('o', HEIR.outbox, 'e1', 'an event'), 1);
        t.equal(await give('p', HEIR.profile, 'email', 'a@b', 'locale', 'de'), 1);
        t.equal(await give('g', HEIR.merged, 'a.older', 'n0', 'a.both', 'n9'), 1);
      }
      t.same(await client.hgetall(HEIR.outbox), { e1: 'an event' });
      t.same(await client.hgetall(HEIR.profile), { email: 'mine@b', locale: 'de' });
      t.same(await client.hgetall(HEIR.merged), { 'a.from': '', 'a.older': 'n0', 'a.both': 'n8' });
      await client.hdel(HEIR.outbox, 'e1');
      await give('o', HEIR.outbox, 'e1', 'an event');
      t.equal(await client.exists(HEIR.outbox), 0, 'an event that was sent since does not come back');
    });

    t.test('kinds do not run into each other', async (t) => {
      await give('v', HEIR.room, 'x', 1);
      await give('i', HEIR.items, 'x', 'an item');
      t.same(await client.hgetall(HEIR.items), { x: 'an item' });
    });

    t.test(
      'an heir that was merged away answers its own heir and what is left, and nothing is done',
      async (t) => {
        await give('v', HEIR.room, 'x', 3, 'y', 1);
        await give('i', HEIR.items, '1:', 'theirs');
        const before = [await client.hgetall(HEIR.room), await client.hgetall(HEIR.received)];
        for (const heir of ['c.next', '!c.next']) {
          await client.hset(HEIR.profile, 'heir', heir);
          t.same(await give('v', HEIR.room, 'x', 5, 'y', 1, 'z', 4), [heir, 'x', '2', 'z', '4']);
          t.same(await give('i', HEIR.items, '1:', 'theirs', '2:', 'more'), [heir, '2:', 'more']);
          t.same(await give('v', HEIR.room, 'x', 3), [heir], 'nothing is left');
        }
        t.same([await client.hgetall(HEIR.room), await client.hgetall(HEIR.received)], before);
        t.same(await client.hgetall(HEIR.items), { '1:': 'theirs' });
      },
    );

    t.test('a large count keeps all of its digits', async (t) => {
      t.equal(await give('v', HEIR.room, 'x', '9007199254740991'), 1);
      t.equal(await client.hget(HEIR.room, 'x'), '9007199254740991');
    });
  });

  t.test('record', async (t) => {
    const record = async (nonce: string, ...events: string[]) =>
      call(
        'merge-record',
        [HEIR.profile, HEIR.merged, HEIR.outbox],
        [await clock(10_000), 'a.from', nonce, ...events],
      );
    t.beforeEach(async () => void (await client.hset(HEIR.merged, 'a.from', '')));

    t.test('an heir that does not expect it, or is being erased, records nothing', async (t) => {
      await client.hset(HEIR.profile, 'heir', '@');
      t.equal(await record('n1', 'e1', 'line'), '@');
      await client.del(HEIR.profile, HEIR.merged);
      t.equal(await record('n1', 'e1', 'line'), '@');
      t.same(await keys(), []);
    });

    t.test(
      'the heir knows the merge by its nonce, and what analysts are told waits in its outbox',
      async (t) => {
        const before = await clock(0);
        t.same(await record('n1', 'e1', 'line 1', 'e2', 'line 2'), ['e1', 'line 1', 'e2', 'line 2']);
        t.same(await client.hgetall(HEIR.merged), { 'a.from': 'n1' });
        const outbox = await client.hgetall(HEIR.outbox);
        t.match(outbox, { e1: /^\d+\nmerge a\.from\nline 1$/, e2: /^\d+\nmerge a\.from\nline 2$/ });
        const since = Number(outbox['e1']?.split('\n')[0]);
        t.ok(since >= before && since <= (await clock(0)), String(since));
        t.same(await keys(), [HEIR.merged, HEIR.outbox].sort());
      },
    );

    t.test('the same merge again gives out what is not out yet, under its first ids', async (t) => {
      await client.hset(HEIR.outbox, 'e0', '1\nmerge a.fro\nof another merge');
      await client.hset(HEIR.outbox, 'e9', '1\nadd merge a.from\nno merge');
      await record('n1', 'e1', 'line\n', 'e2', 'line\n');
      t.same(await record('n1', 'e3', 'line\n', 'e4', 'line\n'), ['e1', 'line\n', 'e2', 'line\n']);
      await client.hdel(HEIR.outbox, 'e1');
      t.same(await record('n1', 'e5', 'line\n'), ['e2', 'line\n']);
      await client.hdel(HEIR.outbox, 'e2');
      t.same(await record('n1', 'e6', 'line\n'), []);
      t.same((await client.hkeys(HEIR.outbox)).sort(), ['e0', 'e9']);
      t.same(await client.hgetall(HEIR.merged), { 'a.from': 'n1' });
    });

    t.test('another merge of the same profile, after a failover, tells again', async (t) => {
      await record('n1', 'e1', 'line');
      await client.hdel(HEIR.outbox, 'e1');
      t.same(await record('n2', 'e3', 'line'), ['e3', 'line']);
      t.same(await client.hgetall(HEIR.merged), { 'a.from': 'n2' });
      t.same(await client.hkeys(HEIR.outbox), ['e3']);
    });

    t.test('an heir that was merged away answers its own heir, and nothing is done', async (t) => {
      for (const heir of ['c.next', '!c.next']) {
        await client.hset(HEIR.profile, 'heir', heir);
        t.equal(await record('n1', 'e1', 'line'), heir);
      }
      t.same(await keys(), [HEIR.merged, HEIR.profile].sort());
    });
  });

  t.test('done', async (t) => {
    const done = async (heir = 'b.heir', nonce = 'n1') =>
      call('merge-done', [PROFILE, ...JOURNAL], [await clock(10_000), heir, nonce, 60]);
    const prepare = async () => {
      await client.hset(PROFILE, { heir: '!b.heir', nonce: 'n1' });
      for (const key of JOURNAL) await client.hset(key, 'a', 1);
    };

    t.test(
      'the tombstone says that the heir has everything, and the journal is kept for some time',
      async (t) => {
        await prepare();
        t.equal(await done(), 1);
        t.same(await client.hgetall(PROFILE), { heir: 'b.heir', nonce: 'n1' });
        t.equal(await client.ttl(PROFILE), -1, 'the old id goes on resolving');
        for (const key of JOURNAL) {
          t.same(await client.hgetall(key), { a: '1' }, 'a failover may make the heir forget');
          const ttl = await client.ttl(key);
          t.ok(ttl > 0 && ttl <= 60, `${key}: ${ttl} s`);
        }
        t.equal(await done(), 0, 'again');
      },
    );

    t.test('another heir, or another merge: 0, and nothing changes', async (t) => {
      await prepare();
      t.equal(await done('b.other'), 0);
      t.equal(await done('b.heir', 'n2'), 0);
      t.equal(await client.hget(PROFILE, 'heir'), '!b.heir');
      for (const key of JOURNAL) t.equal(await client.ttl(key), -1);
      await client.del(PROFILE);
      t.equal(await done(), 0);
      t.equal(await client.exists(PROFILE), 0);
    });
  });
});
