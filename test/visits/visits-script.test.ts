// lua/visits.lua alone: every answer, every error, the same batch sent again, and what is left in Redis afterwards.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{b}:lane';
/** Of a session, and its own profile. */
const [DOOR, OWN] = ['{b}:v:s1', '{b}:p:s1'];
const ROOM = '{a}:r:room';
const PROFILE = '{a}:p:room';
/** The profile whose room ROOM is. */
const AT = 'a.room';

t.test('visits.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'owner', 'c:1');
  });

  interface Batch {
    readonly seq?: number;
    readonly deadline?: number;
    readonly lane?: string;
    readonly max?: number;
  }
  const door = (kind: string, handle: string, at = DOOR) => `${kind}${at}\n${handle}\n`;
  /** On a door itself. */
  const ask = (kind: 'p' | 'r', at = DOOR) => `${kind}${at}\n\n`;
  /** At a room; with a door that is checked. */
  const room = (kind: string, handle: string, at = '', expected = `${AT} 1`) =>
    `${kind}${ROOM}\n${handle}\n${PROFILE}\n${at}\n${at === '' ? '' : `${expected}\n`}`;

  const batch = async (operations: readonly string[], options: Batch = {}) => {
    const { seq = 0, deadline = await clock(10_000), lane = LANE, max = 100 } = options;
    return call('visits', [lane], [seq, deadline, 60, max, 0, operations.join('')]);
  };
  /** All keys but the lane, and what makes ROOM a room. */
  const left = async () => (await client.keys('*')).filter((key) => key !== LANE && key !== PROFILE).sort();

  t.test('at a door: v counts, c counts and answers, g reads, d resets', async (t) => {
    t.same(await batch([door('v', 'x')], { seq: 1 }), [], 'done, and nothing to say');
    t.same(await left(), [DOOR], 'a guest who looks around is one key');
    t.same(await batch([door('c', 'x')], { seq: 2 }), [1, 2]);
    t.same(await batch([door('g', 'x'), door('g', 'unseen')]), [1, 2, 2, 0]);
    t.same(await batch([door('d', 'x'), door('d', 'unseen')], { seq: 3 }), []);
    t.same(await batch([door('g', 'x')]), [1, 0]);
  });

  t.test('a reset that takes the last count keeps its identity known', async (t) => {
    await batch([door('d', 'x')], { seq: 1 });
    t.same(await left(), [], 'an unknown one does not become known by it');
    await batch([door('v', 'x'), door('v', 'y')], { seq: 2 });
    await batch([door('d', 'x')], { seq: 3 });
    t.same(await left(), [DOOR], 'a count is left');
    await batch([door('d', 'unseen')], { seq: 4 });
    t.same(await left(), [DOOR], 'it is left by a reset of nothing');
    await batch([door('d', 'y')], { seq: 5 });
    t.same(await client.hgetall(OWN), { known: '1' });
    t.same(await batch([ask('p')]), [1, '.']);
  });

  t.test('p says where an identity is and writes nothing; r makes an unknown one known', async (t) => {
    t.same(await batch([ask('p')]), [1, '']);
    t.same(await left(), []);
    t.same(await batch([ask('r')], { seq: 1 }), [1, '.']);
    t.same(await batch([ask('r'), ask('p')], { seq: 2 }), [1, '.', 2, '.'], 'again');
    t.same(await left(), [OWN]);
    await client.hset('{b}:v:s2', '', `${AT} 3`);
    for (const kind of ['p', 'r'] as const)
      t.same(await batch([ask(kind, '{b}:v:s2')]), [1, `${AT} 3`], kind);
    t.same(await client.hgetall('{b}:v:s2'), { '': `${AT} 3` });
    await client.hset('{b}:v:s3', 'x', 1);
    t.same(await batch([ask('p', '{b}:v:s3'), ask('r', '{b}:v:s3')], { seq: 3 }), [1, '.', 2, '.']);
    t.equal(await client.exists('{b}:p:s3'), 0, 'who has counts is known by them');
    await client.hset('{b}:p:s4', 'owner', 'c:1');
    t.same(await batch([ask('p', '{b}:v:s4')]), [1, ''], 'a room of others makes no identity known');
  });

  t.test('a customer at home counts as a guest does', async (t) => {
    t.same(await batch([door('w', 'x', '{b}:v:c1'), door('x', 'x', '{b}:v:c1')], { seq: 1 }), [2, 2]);
    t.equal(await client.ttl('{b}:v:c1'), -1);
  });

  t.test('operations of a batch are done in their order', async (t) => {
    const operations = [door('v', 'x'), door('c', 'x'), door('d', 'x'), door('g', 'x')];
    operations.push(ask('p', '{b}:v:2'), ask('r', '{b}:v:2'), ask('p', '{b}:v:2'));
    operations.push(room('C', 'y'));
    t.same(await batch(operations, { seq: 1 }), [2, 2, 4, 0, 5, '', 6, '.', 7, '.', 8, 1]);
  });

  t.test('at a door that was left nothing is done, and the sender is told where to ask', async (t) => {
    await client.hset(DOOR, '', `${AT} 1`);
    for (const [i, kind] of ['v', 'c', 'g', 'd', 'w', 'x'].entries())
      t.same(
        await batch([door(kind, 'x'), room('C', kind)], { seq: i + 1 }),
        [1, `@${AT} 1`, 2, 1],
        `${kind}, and its neighbour is done`,
      );
    t.same(await client.hgetall(DOOR), { '': `${AT} 1` });
    t.same(await left(), [DOOR, ROOM].sort());
  });

  t.test('at a room: as at a door, and nobody is mapped', async (t) => {
    t.same(await batch([room('V', 'x'), room('C', 'x'), room('G', 'x')], { seq: 1 }), [2, 2, 3, 2]);
    t.same(await left(), [ROOM]);
    t.same(await batch([room('D', 'x'), room('D', 'x'), room('G', 'x')], { seq: 2 }), [3, 0]);
    t.same(await left(), [], 'the last count is gone, and who came here is known by its own door');
  });

  t.test('at a room with a door: done only where that leads here', async (t) => {
    const fields = { s1: `${AT} 1`, s2: 'z.other 7', s3: `${AT}2 1`, s4: '', s5: `${AT} 2`, s6: `${AT} 11` };
    for (const [who, field] of Object.entries(fields))
      if (field !== '') await client.hset(`{b}:v:${who}`, '', field);
    await client.hset('{b}:v:s4', 'x', 1);
    t.same(await batch([room('C', 'x', DOOR), room('G', 'x', DOOR)], { seq: 1 }), [1, 1, 2, 1]);
    for (const [who, field] of Object.entries(fields).slice(1))
      for (const kind of ['V', 'C', 'G', 'D'])
        t.same(
          await batch([room(kind, 'x', `{b}:v:${who}`), room('G', 'x', DOOR)]),
          [1, `@${field}`, 2, 1],
          `${kind} ${who}`,
        );
    t.same(await client.hgetall(ROOM), { x: '1' });
  });

  t.test('a room that was merged away answers its heir before anything is done', async (t) => {
    await client.hset(DOOR, '', `${AT} 1`);
    await client.hset('{b}:v:s2', '', 'z.other 7');
    for (const heir of ['z.heir', '!z.heir']) {
      await client.hset(PROFILE, 'heir', heir);
      for (const kind of ['V', 'C', 'G', 'D']) {
        t.same(await batch([room(kind, 'x'), room(kind, 'x', DOOR)]), [1, heir, 2, heir], kind);
        t.same(await batch([room(kind, 'x', '{b}:v:s2')]), [1, '@z.other 7'], 'its door comes first');
      }
    }
    t.same(await left(), [DOOR, '{b}:v:s2'].sort());
  });

  t.test('one product too many is refused, and leaves nothing; known ones go on counting', async (t) => {
    for (const [where, at, key] of [
      ['door', door, DOOR],
      ['room', room, ROOM],
    ] as const) {
      const kind = (letter: string) => (where === 'door' ? letter : letter.toUpperCase());
      const max = 3;
      const seq = where === 'door' ? 1 : 10;
      t.same(
        await batch([at(kind('v'), '1'), at(kind('v'), '2'), at(kind('c'), '3')], { seq, max }),
        [3, 1],
        where,
      );
      const refused = [at(kind('v'), '4'), at(kind('c'), '5'), at(kind('c'), '3'), at(kind('v'), '1')];
      t.same(await batch(refused, { seq: seq + 1, max }), [1, LUA.TOO_MANY, 2, LUA.TOO_MANY, 3, 2]);
      t.same(await client.hgetall(key), { 1: '2', 2: '1', 3: '2' });
      t.same(await batch([at(kind('g'), '4'), at(kind('d'), '4')], { seq: seq + 2, max }), [1, 0]);
      await batch([at(kind('d'), '2')], { seq: seq + 3, max });
      t.same(await batch([at(kind('c'), '4')], { seq: seq + 4, max }), [1, 1], 'a reset makes room');
    }
    t.same(await batch([door('c', 'first', '{b}:v:9')], { seq: 20, max: 1 }), [1, 1]);
  });

  t.test('the 10,000th product counts, and the next one does not', async (t) => {
    const max = 10_000;
    const there = Array.from({ length: max - 1 }, (_, i) => [`p${i}`, '1']).flat();
    await client.hset(DOOR, ...there);
    t.same(await batch([door('c', 'last')], { seq: 1, max }), [1, 1]);
    t.same(await batch([door('c', 'more'), door('c', 'p0')], { seq: 2, max }), [1, LUA.TOO_MANY, 2, 2]);
    t.equal(await client.hlen(DOOR), max);
  });

  t.test('a profile from before the cap has more: what it has counts on, and no more comes in', async (t) => {
    await client.hset(DOOR, { 1: '5', 2: '5', 3: '5' });
    t.same(await batch([door('c', '1'), door('c', 'new')], { seq: 1, max: 2 }), [1, 6, 2, LUA.TOO_MANY]);
    t.same(await client.hgetall(DOOR), { 1: '6', 2: '5', 3: '5' });
  });

  t.test('one operation that fails is its own answer, and its neighbours are done', async (t) => {
    await client.hset(DOOR, { text: 'none', full: '9223372036854775807' });
    const operations = [door('v', 'x'), door('v', 'text'), door('c', 'full'), door('c', 'x')];
    for (const again of [false, true]) {
      t.match(
        await batch(operations, { seq: 1 }),
        [2, { message: /not an integer/ }, 3, { message: /overflow/ }, 4, 2],
        again ? 'again' : 'first',
      );
    }
    t.equal(await client.hget(DOOR, 'x'), '2');
  });

  t.test('the same batch sent again answers as the first time and changes nothing', async (t) => {
    await client.hset('{b}:v:s3', '', 'z.other 2');
    const operations = [
      ...[door('c', 'x'), door('v', 'x'), door('d', 'y'), ask('r', '{b}:v:2')],
      ...[room('C', 'x'), room('V', 'x', '{b}:v:s3'), door('c', 'one more')],
    ];
    const first = await batch(operations, { seq: 7, max: 1 });
    t.same(first, [1, 1, 4, '.', 5, 1, 6, '@z.other 2', 7, LUA.TOO_MANY]);
    const after = await client.hgetall(DOOR);
    for (let i = 0; i < 3; i++) t.same(await batch(operations, { seq: 7, max: 1 }), first);
    t.same(await client.hgetall(DOOR), after);
    t.same(await client.hgetall(ROOM), { x: '1' });
    t.same(await batch([door('c', 'x')], { seq: 8 }), [1, 3], 'the next one counts on');
  });

  t.test('a batch without answers is remembered, too', async (t) => {
    for (let i = 0; i < 2; i++) t.same(await batch([door('v', 'x')], { seq: 1 }), []);
    t.equal(await client.hget(DOOR, 'x'), '1');
  });

  t.test('an older batch of the lane is refused, one of another lane is not', async (t) => {
    await batch([door('v', 'x')], { seq: 5 });
    t.equal(await batch([door('v', 'x')], { seq: 4 }), LUA.SUPERSEDED);
    t.equal(await client.hget(DOOR, 'x'), '1');
    t.same(await batch([door('c', 'x')], { seq: 1, lane: '{b}:lane:2' }), [1, 2]);
  });

  t.test(
    'a room that is being erased, or is none any more, answers so before anything is done',
    async (t) => {
      await client.hset(DOOR, '', `${AT} 1`);
      const operations = [room('V', 'x'), room('C', 'x', DOOR), room('G', 'x'), room('D', 'x', DOOR)];
      const refused = [1, '@', 2, '@', 3, '@', 4, '@'];
      await client.hset(PROFILE, 'heir', '@');
      t.same(await batch(operations, { seq: 1 }), refused);
      await client.del(PROFILE);
      t.same(await batch(operations, { seq: 2 }), refused);
      t.same(await left(), [DOOR]);
    },
  );

  t.test('a batch past its deadline is refused and leaves nothing', async (t) => {
    t.equal(await batch([door('v', 'x')], { seq: 1, deadline: await clock(-1) }), LUA.EXPIRED);
    t.equal(await batch([door('g', 'x')], { deadline: await clock(-1_000_000) }), LUA.EXPIRED);
    t.same(await client.keys('*'), [PROFILE]);
    t.same(await batch([door('c', 'x')], { seq: 1 }), [1, 1], 'its number is free');
    t.same(await batch([door('c', 'x')], { seq: 1, deadline: await clock(-1) }), [1, 1], 'however late');
  });

  t.test('reads leave no record; records go away by themselves', async (t) => {
    await batch([door('g', 'x'), ask('p'), room('G', 'x')]);
    t.same(await client.keys('*'), [PROFILE]);
    await batch([door('v', 'x')], { seq: 1 });
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    t.same((await client.keys('*')).sort(), [LANE, DOOR, PROFILE].sort());
    t.equal(await client.ttl(DOOR), -1, 'counts stay');
  });

  t.test('512 operations of as many identities are one batch', async (t) => {
    const operations = Array.from({ length: 512 }, (_, i) => door('c', `p${i % 7}`, `{b}:v:${i}`));
    const first = (await batch(operations, { seq: 1 })) as number[];
    t.same(first, Array.from({ length: 512 }, (_, i) => [i + 1, 1]).flat());
    t.same(await batch(operations, { seq: 1 }), first);
  });
});
