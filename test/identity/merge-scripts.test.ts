// The three steps of a merge, each script alone: lua/merge-take.lua, merge-give.lua, merge-done.lua.

import t from 'tap';
import { startLuaRedis } from '../harness/lua.js';

const KINDS = ['v', 'i', 'o', 'p', 'g'];
const FROM = KINDS.map((kind) => `{a}:${kind}:from`);
const JOURNAL = KINDS.map((kind) => `{a}:j${kind}:from`);
const HEIR = KINDS.map((kind) => `{b}:${kind}:heir`);
const [VISITS, ITEMS, , PROFILE, MERGED] = HEIR as [string, string, string, string, string];

t.test('the steps of a merge', async (t) => {
  const { client, call } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const take = (heir = 'b.heir') => call('merge-take', [...FROM, ...JOURNAL], [heir]);
  const give = (...parts: string[][]) => {
    const all = KINDS.map((_, i) => parts[i] ?? []);
    return call('merge-give', HEIR, ['a.from', ...all.map((part) => part.length), ...all.flat()]);
  };
  const done = (heir = 'b.heir') => call('merge-done', [FROM[0] as string, ...JOURNAL], [heir]);

  t.test('take: belongings go aside, a tombstone stays, and again it says the same', async (t) => {
    await client.hset(FROM[0] as string, 'x', 3);
    await client.hset(FROM[3] as string, 'email', 'a@b');
    const taken = ['!b.heir', ['x', '3'], [], [], ['email', 'a@b'], []];
    t.same(await take(), taken);
    t.equal(await client.get(FROM[0] as string), '!b.heir');
    t.same((await client.keys('*')).sort(), [FROM[0], JOURNAL[0], JOURNAL[3]].sort());
    t.same(await take(), taken, 'after a crash');
    t.same(await take('b.third'), taken, 'the heir is the one of the first merge');
  });

  t.test('take: a profile that nobody has written to has nothing to move', async (t) => {
    t.same(await take(), ['!b.heir', [], [], [], [], []]);
  });

  t.test('give: counts are added, what the heir has stays its own, and again nothing is added', async (t) => {
    await client.hset(VISITS, 'x', 2);
    await client.hset(ITEMS, 'item', 'mine');
    await client.hset(PROFILE, 'email', 'mine@b');
    for (let i = 0; i < 3; i++) {
      const given = await give(
        ['x', '3', 'y', '1'],
        ['item', 'theirs', 'other', 'theirs'],
        [],
        ['email', 'a@b', 'locale', 'de'],
        ['a.older', '1'],
      );
      t.equal(given, 1);
      t.same(await client.hgetall(VISITS), { x: '5', y: '1' });
      t.same(await client.hgetall(ITEMS), { item: 'mine', other: 'theirs' });
      t.same(await client.hgetall(PROFILE), { email: 'mine@b', locale: 'de' });
      t.same(
        await client.hgetall(MERGED),
        { 'a.from': '1', 'a.older': '1' },
        'the record, and the records it brings',
      );
    }
  });

  t.test('give: an heir that was merged away answers its own heir, and nothing is done', async (t) => {
    await client.set(VISITS, '!c.next');
    t.equal(await give(['x', '3']), '!c.next');
    t.same(await client.keys('*'), [VISITS]);
  });

  t.test('done: what was moved is forgotten, the tombstone stays', async (t) => {
    await client.hset(FROM[0] as string, 'x', 3);
    await take();
    t.equal(await done('b.other'), 0, 'not the heir');
    t.equal(await client.exists(JOURNAL[0] as string), 1);
    t.equal(await done(), 1);
    t.same(await client.keys('*'), [FROM[0]]);
    t.equal(await client.get(FROM[0] as string), 'b.heir');
    t.equal(await done(), 0, 'again');
    t.same(await take('b.third'), ['b.heir'], 'the merge is complete');
  });
});
