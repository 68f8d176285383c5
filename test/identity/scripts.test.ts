// The scripts of identities alone: point, move-out, claim, profile, and the four steps of a merge (take, give, record, done).
// What is asked for again changes nothing more, and at a profile that is gone, or another's by now, nothing is done.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

type Four = [string, string, string, string];

const DOOR = '{a}:v:from';
/** A merge moves these aside. */
const BELONGINGS = ['p', 'r', 'i', 'g'].map((kind) => `{a}:${kind}:from`) as Four;
const [PROFILE, ROOM, ITEMS, MERGED] = BELONGINGS;
const JOURNAL = ['jv', 'ji', 'jp', 'jg'].map((kind) => `{a}:${kind}:from`) as Four;
const [JOURNAL_ROOM, JOURNAL_ITEMS, JOURNAL_PROFILE, JOURNAL_MERGED] = JOURNAL;
const MERGES = '{a}:merges';
const HEIR = {
  profile: '{b}:p:heir',
  room: '{b}:r:heir',
  items: '{b}:i:heir',
  merged: '{b}:g:heir',
  received: '{b}:x:heir:a.from',
};

t.test('scripts of identities', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const keys = async () => (await client.keys('*')).sort();
  const soon = () => clock(10_000);
  const lives = async (key: string) => {
    const ttl = await client.ttl(key);
    t.ok(ttl > 0 && ttl <= 60, `${key}: ${ttl} s`);
  };
  const countsOf = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`p${i}`, '2']));

  t.test('past its deadline no script does anything', async (t) => {
    const cases: readonly [name: string, keys: readonly string[], args: readonly (string | number)[]][] = [
      ['point', [DOOR, PROFILE], ['.', 'a.1 1']],
      ['move-out', [DOOR, ROOM, PROFILE, MERGED], ['s:1', 'a.from 1', 'c:1', 250]],
      ['claim', [PROFILE], ['c:1']],
      ['profile', [PROFILE, DOOR], ['', 'now', 0, 'email', 'a@b']],
      ['merge-take', [...BELONGINGS, ...JOURNAL, MERGES], ['a.from', 'b.heir', 'n1', 60]],
      ['merge-give', [HEIR.profile, HEIR.room, HEIR.received, HEIR.merged], ['v', 60, 'a.from', 'x', 3]],
      ['merge-record', [HEIR.profile, HEIR.merged], ['a.from', 'n1']],
      ['merge-done', [PROFILE, ...JOURNAL], ['b.heir', 'n1', 60]],
    ];
    const there = { [DOOR]: { x: '1' }, [ROOM]: { x: '3' }, [HEIR.merged]: { 'a.from': '' } };
    for (const [key, fields] of Object.entries(there)) await client.hset(key, fields);
    for (const [name, keys, args] of cases)
      t.equal(await call(name, keys, [await clock(-1), ...args]), LUA.EXPIRED, name);
    t.same(await keys(), Object.keys(there).sort());
    for (const [key, fields] of Object.entries(there)) t.same(await client.hgetall(key), fields);
  });

  t.test('point', async (t) => {
    const point = async (from: string, to: string) =>
      call('point', [DOOR, PROFILE], [await soon(), from, to]);

    t.test('moves an identity from where its sender believes it to be, also when sent again', async (t) => {
      t.equal(await point('a.0 1', 'a.1 2'), 0, 'it is nowhere yet');
      for (let i = 0; i < 2; i++) t.equal(await point('', 'a.1 1'), 1);
      for (const believed of ['', '.', 'a.1 2', 'a.1', 'a.2 1'])
        t.equal(await point(believed, 'a.3 9'), 0, believed);
      for (let i = 0; i < 2; i++) t.equal(await point('a.1 1', 'a.2 2'), 1);
      await point('a.2 2', 'a.1 3');
      t.equal(await point('a.1 1', 'a.3 2'), 0, 'it came back since: its number of moves tells');
      t.same(await client.hgetall(DOOR), { '': 'a.1 3' });
      t.same(await keys(), [DOOR]);
    });

    t.test('who has counts, or a profile that is no room, is at home: it is not unknown', async (t) => {
      await client.hset(DOOR, 'x', 1);
      t.equal(await point('', 'a.1 1'), 0);
      t.same(await client.hgetall(DOOR), { x: '1' });
      await client.del(DOOR);
      await client.hset(PROFILE, 'email', 'a@b');
      t.equal(await point('', 'a.1 1'), 0);
      t.same(await keys(), [PROFILE]);
      await client.hset(PROFILE, 'owner', 'c:1');
      t.equal(await point('', 'a.1 1'), 1);
    });
  });

  t.test('move-out', async (t) => {
    const moveOut = async (owner = 'c:1', atOnce = 250) =>
      call('move-out', [DOOR, ROOM, PROFILE, MERGED], [await soon(), 's:1', 'a.from 1', owner, atOnce]);
    /** Called until it is over. */
    const moveAll = async (atOnce: number) => {
      for (let calls = 1; ; calls++) {
        if ((await moveOut('c:1', atOnce)) !== 1) return calls;
        if (calls > 1_000) throw new Error(`${await client.hlen(DOOR)} products stay behind`);
        t.equal(await client.hget(DOOR, ''), null, 'at home until the last page');
      }
    };

    t.test("counts become the room's in one step, the room has an owner, the door one field", async (t) => {
      await client.hset(DOOR, { x: 3, y: 1 });
      for (const owner of ['c:1', 'c:1', 'c:2']) t.equal(await moveOut(owner), 'a.from 1');
      t.same(await client.hgetall(ROOM), { x: '3', y: '1' });
      t.same(await client.hgetall(DOOR), { '': 'a.from 1' });
      t.same(await client.hgetall(PROFILE), { owner: 'c:1' });
      t.same(await client.hgetall(MERGED), { 's:1': '' }, 'the room knows who leads to it');
      await client.hset(DOOR, '', 'z.other 5');
      t.equal(await moveOut(), 'z.other 5', 'where it went since');
      t.same(await client.hgetall(DOOR), { '': 'z.other 5' });
    });

    t.test('an unknown identity gets an empty room; what a profile knows stays, and its owner', async (t) => {
      t.equal(await moveOut(), 'a.from 1');
      t.same(await keys(), [DOOR, PROFILE, MERGED].sort());
      for (const [before, after] of [
        [{ known: '1' }, { owner: 'c:1' }],
        [
          { owner: 'c:0', email: 'a@b' },
          { owner: 'c:0', email: 'a@b' },
        ],
      ] as const) {
        await client.flushall();
        await client.hset(PROFILE, before);
        await moveOut();
        t.same(await client.hgetall(PROFILE), after);
      }
    });

    t.test('where the room is there already, counts are added to it, a page a call', async (t) => {
      await client.hset(DOOR, countsOf(2_000));
      await client.hset(ROOM, { p0: '5', other: '1' });
      const calls = await moveAll(100);
      t.ok(calls >= 5, `${calls} calls`);
      t.same(await client.hgetall(DOOR), { '': 'a.from 1' });
      t.same(await client.hgetall(ROOM), { ...countsOf(2_000), p0: '7', other: '1' });
    });

    t.test('a door that is half empty is emptied, though the first look finds nothing', async (t) => {
      await client.hset(DOOR, countsOf(1_000));
      await client.hset(ROOM, { other: '1' });
      // A scan for 5 looks at 50 places of its table at most: after some pages the first 50 are empty.
      await moveAll(5);
      t.equal(await client.hlen(ROOM), 1_001);
    });
  });

  t.test('claim: a room without an owner gets one, once; a tombstone gets none', async (t) => {
    const claim = async (customer: string) => call('claim', [PROFILE], [await soon(), customer]);
    for (const customer of ['c:1', 'c:1', 'c:2']) t.equal(await claim(customer), 1);
    t.same(await client.hgetall(PROFILE), { owner: 'c:1' });
    await client.del(PROFILE);
    await client.hset(PROFILE, 'heir', 'z.heir');
    t.equal(await claim('c:1'), 1);
    t.same(await client.hgetall(PROFILE), { heir: 'z.heir' });
  });

  t.test('profile', async (t) => {
    const learn = async (maker: string, now: string, ...facts: string[]) =>
      call('profile', [PROFILE, DOOR], [await soon(), maker, now, 0, ...facts]);

    t.test('what is told is kept, the rest stays, and so does the day it was made', async (t) => {
      await client.hset(PROFILE, 'owner', 'c:1');
      t.equal(await learn('', 'day 1', 'email', 'a@b', 'device', 'desktop'), 1);
      const first = { owner: 'c:1', createdAt: 'day 1', updatedAt: 'day 1', email: 'a@b', device: 'desktop' };
      t.same(await client.hgetall(PROFILE), first);
      t.equal(await learn('', 'day 2', 'email', 'c@d'), 1);
      t.same(await client.hgetall(PROFILE), { ...first, updatedAt: 'day 2', email: 'c@d' });
      t.same(await keys(), [PROFILE]);
    });

    t.test('nothing is kept of a visitor who is not there, or not any more', async (t) => {
      const cases: readonly [maker: string, answer: unknown, profile: object, door: object, why: string][] = [
        ['', 0, {}, {}, 'no room'],
        ['s:1', 0, {}, {}, 'unknown'],
        ['s:1', 0, {}, { '': 'a.1 1' }, 'elsewhere'],
        ['s:1', '@', { heir: '@' }, {}, 'being erased'],
        ['', 'b.heir', { heir: 'b.heir' }, {}, 'merged away'],
        ['', '!b.heir', { heir: '!b.heir' }, {}, 'on its way to an heir'],
      ];
      for (const [maker, answer, profile, door, why] of cases) {
        await client.flushall();
        for (const [key, fields] of [
          [PROFILE, profile],
          [DOOR, door],
        ] as const)
          if (Object.keys(fields).length > 0) await client.hset(key, fields);
        t.equal(await learn(maker, 'now', 'email', 'a@b'), answer, why);
        t.same(await client.hgetall(PROFILE), profile, why);
      }
      for (const [key, field] of [
        [PROFILE, 'known'],
        [DOOR, 'x'],
      ] as const) {
        await client.flushall();
        await client.hset(key, field, '1');
        t.equal(await learn('s:1', 'now', 'email', 'a@b'), 1, `known by ${field}`);
      }
    });
  });

  t.test('take', async (t) => {
    const take = async (heir = 'b.heir', nonce = 'n1') =>
      call('merge-take', [...BELONGINGS, ...JOURNAL, MERGES], [await soon(), 'a.from', heir, nonce, 60]);
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
      const belongings = [
        [ROOM, JOURNAL_ROOM, { x: '3' }],
        [ITEMS, JOURNAL_ITEMS, { '1:': 'an item' }],
        [PROFILE, JOURNAL_PROFILE, { owner: 'c:1', email: 'a@b' }],
        [MERGED, JOURNAL_MERGED, { 'a.older': 'n0' }],
      ] as const;
      for (const [key, , fields] of belongings) await client.hset(key, fields);
      const before = await clock(0);
      t.same(await take(), ['!b.heir', 'n1']);
      t.same(await take(), ['!b.heir', 'n1'], 'again');
      t.same(await take('c.third', 'n2'), ['!b.heir', 'n1'], 'the first heir stays');
      t.same(await client.hgetall(PROFILE), { heir: '!b.heir', nonce: 'n1' });
      for (const [, journal, fields] of belongings) t.same(await client.hgetall(journal), fields);
      t.same(await keys(), [PROFILE, ...JOURNAL, MERGES].sort());
      const ms = Number(await client.zscore(MERGES, 'a.from'));
      t.ok(ms >= before && ms <= (await clock(0)), `${ms}`);
      await lives(MERGES);
      for (const key of [PROFILE, ...JOURNAL]) t.equal(await client.ttl(key), -1, `${key} stays`);
      await client.hset(PROFILE, 'heir', 'b.heir');
      t.same(await take('c.third', 'n2'), ['b.heir', 'n1'], 'when it is done, too');
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
        [await soon(), kind, 60, 'a.from', ...page],
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

    t.test('counts are added once: a page given again adds only what was gained since', async (t) => {
      await client.hset(HEIR.room, 'x', 2);
      for (const [page, room] of [
        [['x', 3, 'y', 1], { x: '5', y: '1' }],
        [['x', 3, 'y', 1], { x: '5', y: '1' }],
        [['x', 5, 'y', 1, 'z', 2], { x: '7', y: '1', z: '2' }],
        [['x', 2], { x: '7', y: '1', z: '2' }],
        [['x', 6], { x: '8', y: '1', z: '2' }],
        [['big', '9007199254740991'], { x: '8', y: '1', z: '2', big: '9007199254740991' }],
      ] as const) {
        t.equal(await give('v', HEIR.room, ...page), 1);
        t.same(await client.hgetall(HEIR.room), room);
      }
      await lives(HEIR.received);
      t.equal(await client.ttl(HEIR.room), -1);
      await client.hincrby(HEIR.room, 'x', 1);
      await client.hdel(HEIR.room, 'y');
      await give('v', HEIR.room, 'x', 6, 'y', 1);
      t.same(await client.hmget(HEIR.room, 'x', 'y'), ['9', null], 'what the heir counts or resets stays');
    });

    t.test('items, facts, earlier merges: what the heir does not have, once', async (t) => {
      const kinds = [
        ['i', HEIR.items, '1:', 'mine', '2:'],
        ['p', HEIR.profile, 'email', 'mine', 'locale'],
        ['g', HEIR.merged, 'a.both', 'mine', 'a.older'],
      ] as const;
      for (const [kind, key, field, mine, other] of kinds) {
        await client.hset(key, field, mine);
        for (let i = 0; i < 2; i++) t.equal(await give(kind, key, field, 'theirs', other, 'theirs'), 1, kind);
        t.match(await client.hgetall(key), { [field]: mine, [other]: 'theirs' }, kind);
        await client.hdel(key, field, other);
        await give(kind, key, field, 'theirs', other, 'theirs');
        t.same(await client.hmget(key, field, other), [null, null], `${kind}: what went does not come back`);
      }
      await give('v', HEIR.room, 'same', 1);
      await give('i', HEIR.items, 'same', 'an item');
      t.same(await client.hgetall(HEIR.items), { same: 'an item' }, 'kinds do not run into each other');
    });

    t.test('bytes of items that come in are counted where they are counted', async (t) => {
      await client.hset(HEIR.items, '1:', 'mine');
      await give('i', HEIR.items, '1:', 'theirs', '2:', '12345');
      t.equal(await client.exists(HEIR.profile), 0, 'the next change makes up for it');
      await client.hset(HEIR.profile, 'itemBytes', 9);
      for (let i = 0; i < 2; i++) await give('i', HEIR.items, '1:', 'theirs', '2:', '12345', '3:', '1234567');
      t.same(await client.hgetall(HEIR.profile), { itemBytes: '16' });
    });

    t.test('an heir that was merged away answers its own heir and what is left', async (t) => {
      await give('v', HEIR.room, 'x', 3, 'y', 1);
      await give('i', HEIR.items, '1:', 'theirs');
      const seen = () =>
        Promise.all([HEIR.room, HEIR.received, HEIR.items].map((key) => client.hgetall(key)));
      const before = await seen();
      for (const heir of ['c.next', '!c.next']) {
        await client.hset(HEIR.profile, 'heir', heir);
        t.same(await give('v', HEIR.room, 'x', 5, 'y', 1, 'z', 4), [heir, 'x', '2', 'z', '4']);
        t.same(await give('i', HEIR.items, '1:', 'theirs', '2:', 'more'), [heir, '2:', 'more']);
        t.same(await give('v', HEIR.room, 'x', 3), [heir], 'nothing is left');
      }
      t.same(await seen(), before);
    });
  });

  t.test('record', async (t) => {
    const record = async (nonce: string) =>
      call('merge-record', [HEIR.profile, HEIR.merged], [await soon(), 'a.from', nonce]);
    t.beforeEach(async () => void (await client.hset(HEIR.merged, 'a.from', '')));

    t.test('an heir that does not expect it, is being erased, or merged away records nothing', async (t) => {
      for (const heir of ['@', 'c.next', '!c.next']) {
        await client.hset(HEIR.profile, 'heir', heir);
        t.equal(await record('n1'), heir);
      }
      await client.del(HEIR.profile, HEIR.merged);
      t.equal(await record('n1'), '@');
      t.same(await keys(), []);
    });

    t.test('the heir knows the merge by its nonce, and another one of the same profile', async (t) => {
      for (const nonce of ['n1', 'n1', 'n2']) {
        t.equal(await record(nonce), 1);
        t.same(await client.hgetall(HEIR.merged), { 'a.from': nonce });
      }
    });
  });

  t.test('done: the heir has everything, and the journal is kept for some time', async (t) => {
    const done = async (heir = 'b.heir', nonce = 'n1') =>
      call('merge-done', [PROFILE, ...JOURNAL], [await soon(), heir, nonce, 60]);
    t.equal(await done(), 0, 'nothing is there');
    t.same(await keys(), []);
    await client.hset(PROFILE, { heir: '!b.heir', nonce: 'n1' });
    for (const key of JOURNAL) await client.hset(key, 'a', 1);
    t.equal(await done('b.other'), 0);
    t.equal(await done('b.heir', 'n2'), 0);
    t.equal(await client.hget(PROFILE, 'heir'), '!b.heir');
    for (const key of JOURNAL) t.equal(await client.ttl(key), -1);

    t.equal(await done(), 1);
    t.same(await client.hgetall(PROFILE), { heir: 'b.heir', nonce: 'n1' });
    t.equal(await client.ttl(PROFILE), -1, 'the old id goes on resolving');
    for (const key of JOURNAL) {
      t.same(await client.hgetall(key), { a: '1' }, 'a failover may make the heir forget');
      await lives(key);
    }
    t.equal(await done(), 0, 'again');
  });
});
