// The scripts of identities and profiles alone: point, move-out, claim, profile.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const [DOOR, ROOM, PROFILE, MERGED] = ['{b}:v:own', '{b}:r:own', '{b}:p:own', '{b}:g:own'];

t.test('scripts of identities', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const keys = async () => (await client.keys('*')).sort();

  t.test('past its deadline no script does anything', async (t) => {
    await client.hset(DOOR, 'x', 1);
    const late = await clock(-1);
    t.equal(await call('point', [DOOR, PROFILE], [late, '.', 'a.1 1']), LUA.EXPIRED);
    t.equal(
      await call('move-out', [DOOR, ROOM, PROFILE, MERGED], [late, 's:1', 'b.own 1', 'c:1', 250]),
      LUA.EXPIRED,
    );
    t.equal(await call('claim', [PROFILE], [late, 'c:1']), LUA.EXPIRED);
    t.equal(await call('profile', [PROFILE, DOOR], [late, '', 'now', 0, 'email', 'a@b']), LUA.EXPIRED);
    t.same(await keys(), [DOOR]);
    t.same(await client.hgetall(DOOR), { x: '1' });
  });

  t.test('point', async (t) => {
    const point = async (from: string, to: string) =>
      call('point', [DOOR, PROFILE], [await clock(10_000), from, to]);
    const field = () => client.hget(DOOR, '');

    t.test('an unknown identity goes to a room, and the same once more changes nothing', async (t) => {
      for (let i = 0; i < 3; i++) t.equal(await point('', 'a.1 1'), 1);
      t.same(await client.hgetall(DOOR), { '': 'a.1 1' });
      t.same(await keys(), [DOOR]);
      await point('a.1 1', 'a.2 2');
      t.equal(await point('a.1 1', 'a.2 2'), 1);
      t.equal(await field(), 'a.2 2');
    });

    t.test('who believes something else is told so, and nothing is done', async (t) => {
      t.equal(await point('a.0 1', 'a.1 2'), 0, 'it has none');
      t.same(await keys(), []);
      await point('', 'a.1 1');
      for (const believed of ['', '.', 'a.1 2', 'a.1', 'a.2 1'])
        t.equal(await point(believed, 'a.3 9'), 0, believed);
      t.equal(await field(), 'a.1 1');
    });

    t.test('a session that came back to a room is another field: the move number tells', async (t) => {
      await point('', 'a.1 1');
      await point('a.1 1', 'a.2 2');
      await point('a.2 2', 'a.1 3');
      t.equal(await point('a.1 1', 'a.3 2'), 0, 'a late one that saw it here the first time');
      t.equal(await point('a.1 3', 'a.3 4'), 1);
      t.equal(await field(), 'a.3 4');
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
      call('move-out', [DOOR, ROOM, PROFILE, MERGED], [await clock(10_000), 's:1', 'b.own 1', owner, atOnce]);

    t.test("counts become the room's in one step, the room has an owner, the door one field", async (t) => {
      await client.hset(DOOR, { x: 3, y: 1 });
      t.equal(await moveOut(), 'b.own 1');
      t.same(await client.hgetall(ROOM), { x: '3', y: '1' });
      t.same(await client.hgetall(DOOR), { '': 'b.own 1' });
      t.same(await client.hgetall(PROFILE), { owner: 'c:1' });
      t.same(await client.hgetall(MERGED), { 's:1': '' }, 'the room knows who leads to it');
      t.same(await keys(), [DOOR, PROFILE, ROOM, MERGED].sort());
    });

    t.test('again, or for another owner: its field, and nothing changes', async (t) => {
      await client.hset(DOOR, 'x', 3);
      await moveOut();
      t.equal(await moveOut(), 'b.own 1');
      t.equal(await moveOut('c:2'), 'b.own 1');
      t.same(await client.hgetall(ROOM), { x: '3' });
      t.same(await client.hgetall(PROFILE), { owner: 'c:1' });
      await client.hset(DOOR, '', 'z.other 5');
      t.equal(await moveOut(), 'z.other 5', 'where it went since');
      t.same(await client.hgetall(DOOR), { '': 'z.other 5' });
    });

    t.test(
      'an unknown identity, and one known without counts, get an empty room with an owner',
      async (t) => {
        t.equal(await moveOut(), 'b.own 1');
        t.same(await keys(), [DOOR, PROFILE, MERGED].sort());
        await client.flushall();
        await client.hset(PROFILE, 'known', '1');
        t.equal(await moveOut(), 'b.own 1');
        t.same(await client.hgetall(PROFILE), { owner: 'c:1' });
      },
    );

    t.test('what the profile knows stays, and so does an owner that it has', async (t) => {
      await client.hset(PROFILE, { owner: 'c:0', email: 'a@b' });
      await moveOut();
      t.same(await client.hgetall(PROFILE), { owner: 'c:0', email: 'a@b' });
    });

    t.test('where the room is there already, counts are added to it, a page a call', async (t) => {
      const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`p${i}`, '2']));
      await client.hset(DOOR, many);
      await client.hset(ROOM, { p0: '5', other: '1' });
      let calls = 1;
      for (; (await moveOut('c:1', 100)) === 1; calls++) {
        if (calls > 100) throw new Error('it never ends');
        t.equal(await client.hget(DOOR, ''), null, 'at home until the last page');
        const [door, room] = await Promise.all([client.hlen(DOOR), client.hlen(ROOM)]);
        // p0 may have gone over or not.
        t.ok([2_001, 2_002].includes(door + room), `${door} + ${room}`);
      }
      t.ok(calls >= 5, `${calls} calls`);
      t.same(await client.hgetall(DOOR), { '': 'b.own 1' });
      t.equal(await client.hlen(ROOM), 2_001);
      t.match(await client.hgetall(ROOM), { p0: '7', p1999: '2', other: '1' });
    });

    t.test(
      'a door that is half empty is emptied, though a look at where it begins finds nothing',
      async (t) => {
        const [products, atOnce] = [1_000, 5];
        await client.hset(
          DOOR,
          Object.fromEntries(Array.from({ length: products }, (_, i) => [`p${i}`, '2'])),
        );
        await client.hset(ROOM, { other: '1' });
        // A scan for 5 looks at 50 places of its table at most: after some pages the first 50 are empty.
        for (let calls = 1; (await moveOut('c:1', atOnce)) === 1; calls++)
          if (calls > products) throw new Error(`${await client.hlen(DOOR)} products stay behind`);
        t.same(await client.hgetall(DOOR), { '': 'b.own 1' });
        t.equal(await client.hlen(ROOM), products + 1);
      },
    );
  });

  t.test('claim: a room without an owner gets one, once; a tombstone gets none', async (t) => {
    const claim = async (customer: string) => call('claim', [PROFILE], [await clock(10_000), customer]);
    t.equal(await claim('c:1'), 1);
    t.equal(await claim('c:1'), 1, 'again');
    t.equal(await claim('c:2'), 1, 'it has one');
    t.same(await client.hgetall(PROFILE), { owner: 'c:1' });
    await client.del(PROFILE);
    await client.hset(PROFILE, 'heir', 'z.heir');
    t.equal(await claim('c:1'), 1);
    t.same(await client.hgetall(PROFILE), { heir: 'z.heir' });
  });

  t.test('profile: what is told is kept, the rest stays, and so does the day it was made', async (t) => {
    const learn = async (now: string, ...facts: string[]) =>
      call('profile', [PROFILE, DOOR], [await clock(10_000), '', now, 0, ...facts]);
    await client.hset(PROFILE, 'owner', 'c:1');
    t.equal(await learn('day 1', 'email', 'a@b', 'device', 'desktop'), 1);
    const first = { owner: 'c:1', createdAt: 'day 1', updatedAt: 'day 1', email: 'a@b', device: 'desktop' };
    t.same(await client.hgetall(PROFILE), first);
    t.equal(await learn('day 2', 'email', 'c@d'), 1);
    t.same(await client.hgetall(PROFILE), { ...first, updatedAt: 'day 2', email: 'c@d' });
    t.same(await keys(), [PROFILE]);
  });

  t.test('profile: nothing is kept of a visitor who is not there (any more)', async (t) => {
    const learn = async (maker: string) =>
      call('profile', [PROFILE, DOOR], [await clock(10_000), maker, 'now', 0, 'email', 'a@b']);
    t.equal(await learn(''), 0, 'no room');
    t.equal(await learn('s:1'), 0, 'not at home: unknown');
    await client.hset(DOOR, '', 'a.1 1');
    t.equal(await learn('s:1'), 0, 'elsewhere');
    t.same(await keys(), [DOOR]);
    await client.hset(PROFILE, 'heir', '@');
    t.equal(await learn('s:1'), '@', 'being erased');
    await client.del(PROFILE, DOOR);
    await client.hset(PROFILE, 'known', '1');
    t.equal(await learn('s:1'), 1);
    await client.del(PROFILE);
    await client.hset(DOOR, 'x', 1);
    t.equal(await learn('s:1'), 1);
  });

  t.test('profile: one that was merged away answers its heir, and nothing is done', async (t) => {
    for (const heir of ['b.heir', '!b.heir']) {
      await client.hset(PROFILE, 'heir', heir);
      t.equal(
        await call('profile', [PROFILE, DOOR], [await clock(10_000), '', 'now', 0, 'email', 'a@b']),
        heir,
      );
      t.same(await client.hgetall(PROFILE), { heir });
    }
  });
});
