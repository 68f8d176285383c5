// lua/visits.lua and lua/meet.lua alone: every answer, every error, the same batch sent again, and what is left in Redis
// afterwards.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{b}:lane';
const IDS = '{b}:ids';
const DOOR = '{b}:v:own';
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
  /** At a door; `who` matters to d only. */
  const door = (kind: string, handle: string, who = 's:1', at = DOOR) =>
    `${kind}${at}\n${handle}\n${kind === 'd' ? `${IDS}\n${who}\n` : ''}`;
  /** On a door itself. */
  const ask = (kind: 'p' | 'r', who = 's:1', at = DOOR) => `${kind}${IDS}\n${who}\n${at}\n\n`;
  /** At a room; with a name its door is checked. */
  const room = (kind: string, handle: string, who = '', expected = AT) =>
    `${kind}${ROOM}\n${handle}\n${PROFILE}\n${who}\n${who === '' ? '' : `${IDS}\n${expected}\n`}`;

  const batch = async (operations: readonly string[], options: Batch = {}) => {
    const { seq = 0, deadline = await clock(10_000), lane = LANE, max = 100 } = options;
    return call('visits', [lane], [seq, deadline, 60, max, operations.join('')]);
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

  t.test(
    'a reset that takes the last count keeps its identity known; others write nothing more',
    async (t) => {
      await batch([door('d', 'x')], { seq: 1 });
      t.same(await left(), [], 'an unknown one does not become known by it');
      await batch([door('v', 'x'), door('v', 'y')], { seq: 2 });
      await batch([door('d', 'x')], { seq: 3 });
      t.same(await left(), [DOOR], 'a count is left');
      await batch([door('d', 'y')], { seq: 4 });
      t.same(await left(), [IDS]);
      t.same(await client.hgetall(IDS), { 's:1': '.' });
      t.same(await batch([ask('p')]), [1, '.']);
    },
  );

  t.test('p says where an identity is and writes nothing; r makes an unknown one known', async (t) => {
    t.same(await batch([ask('p')]), [1, '']);
    t.same(await left(), []);
    t.same(await batch([ask('r')], { seq: 1 }), [1, '.']);
    t.same(await batch([ask('r'), ask('p')], { seq: 2 }), [1, '.', 2, '.'], 'again');
    t.same(await client.hgetall(IDS), { 's:1': '.' });
    await client.hset(IDS, 's:2', `${AT} 3`);
    for (const kind of ['p', 'r'] as const) t.same(await batch([ask(kind, 's:2')]), [1, `${AT} 3`], kind);
    t.equal(await client.hget(IDS, 's:2'), `${AT} 3`);
  });

  t.test('r notes the day of one who is at home, and makes an unknown one known by it', async (t) => {
    const resolve = (day = '100', who = 's:1') => `r${IDS}\n${who}\n${DOOR}\n${day}\n`;
    t.same(await batch([resolve(), resolve()], { seq: 1 }), [1, '.', 2, '.']);
    t.same(await left(), [DOOR], 'and by no field');
    const [seconds] = await client.time();
    const day = await client.hget(DOOR, '');
    t.ok(Math.abs(Number(day) - Number(seconds) / 100) <= 1, String(day));
    await client.del(DOOR);
    await client.hset(IDS, 's:1', '.');
    t.same(await batch([resolve()], { seq: 2 }), [1, '.']);
    t.same(await left(), [DOOR], 'with a day it needs no field');
    await client.del(DOOR);
    await client.set(DOOR, '');
    await client.hset(IDS, 's:1', `${AT} 1`);
    t.same(await batch([resolve()], { seq: 3 }), [1, `${AT} 1`]);
    t.equal(await client.get(DOOR), '', 'who is away has no day');
  });

  t.test('n counts a visit of one who may be unknown and notes the day', async (t) => {
    const meet = (handle: string) => `n${DOOR}\n${handle}\n${IDS}\ns:1\n100\n`;
    t.same(await batch([meet('x'), meet('x'), meet('y')], { seq: 2 }), [1, 1, 2, 2, 3, 1]);
    t.same(await batch([meet('x')], { seq: 3 }), [1, 3]);
    const { '': day, ...counts } = await client.hgetall(DOOR);
    t.same(counts, { x: '3', y: '1' });
    const [seconds] = await client.time();
    t.ok(Math.abs(Number(day) - Number(seconds) / 100) <= 1, String(day));
    t.same(await batch([meet('z')], { seq: 4, max: 2 }), [1, LUA.TOO_MANY], 'the day is no product');
    t.same(await batch([meet('z')], { seq: 5, max: 3 }), [1, 1]);
    await client.del(DOOR);
    await client.hset(IDS, 's:1', '.');
    t.same(await batch([meet('x')], { seq: 6 }), [1, 1]);
    t.same(await left(), [DOOR], 'with a day it needs no field');
    await client.del(DOOR);
    await client.set(DOOR, '');
    await client.hset(IDS, 's:1', `${AT} 1`);
    t.same(await batch([meet('x')], { seq: 7 }), [1, `@${AT} 1`]);
    t.equal(await client.get(DOOR), '');
    await client.del(DOOR);
    t.same(await batch([meet('x')], { seq: 8 }), [1, `@${AT} 1`], 'who is away is not counted at home');
    t.same(await left(), [IDS]);
    await client.del(IDS);
    await client.hset(DOOR, 'x', 5);
    await client.hset(IDS, 's:1', '.');
    t.same(await batch([meet('x')], { seq: 9 }), [1, 6]);
    t.same(await left(), [DOOR], 'counts without a day get one, and need no field');
  });

  t.test('n writes the day once', async (t) => {
    const meet = (day: string) => `n${DOOR}\nx\n${IDS}\ns:1\n${day}\n`;
    const days = async () =>
      Number(/^cmdstat_hset:calls=(\d+)/m.exec(await client.info('commandstats'))?.[1] ?? 0);
    const before = await days();
    t.same(await batch([meet('9999999999'), meet('9999999999')], { seq: 1 }), [1, 1, 2, 2]);
    t.same(await batch([meet('9999999999')], { seq: 2 }), [1, 3]);
    t.equal(await days(), before + 1);
    t.same(await client.hgetall(DOOR), { '': '0', x: '3' });
  });

  /** Meets identities. */
  const meet = async (seq: number, ...whom: readonly { who?: string; at?: string }[]) => {
    const keys = whom.flatMap(({ at = DOOR }) => [IDS, at]);
    const lines = whom.map(({ who = 's:1' }) => `${who}\n100\n`);
    return call('meet', [LANE, ...keys], [seq, await clock(1_000), 60, lines.join('')]);
  };

  t.test('meet.lua notes that one who is at home was seen, and makes none known', async (t) => {
    t.same(await meet(0, {}), [0]);
    t.same(await left(), []);
    await batch([door('v', 'x')], { seq: 2 });
    t.same(await meet(0, {}), [1]);
    t.same((await client.hkeys(DOOR)).sort(), ['', 'x']);
    await client.del(DOOR);
    await client.hset(IDS, 's:1', '.');
    t.same(await meet(0, {}), [1]);
    t.same(await left(), [DOOR]);
    t.same(await batch([ask('p'), ask('r')], { seq: 6 }), [1, '.', 2, '.'], 'known by its day alone');
    await client.del(DOOR);
    await client.set(DOOR, '');
    await client.hset(IDS, 's:1', `${AT} 1`);
    t.same(await meet(0, {}), [2]);
    t.equal(await client.get(DOOR), '', 'who is away has no day');
  });

  t.test('meet.lua answers for each of many, and a batch that is sent again as the first time', async (t) => {
    const many = [{}, { who: 's:2', at: '{b}:v:2' }, { who: 's:3', at: '{b}:v:3' }];
    await client.hset('{b}:v:3', 'x', 1);
    await client.hset(IDS, 's:2', '.');
    t.same(await meet(1, ...many), [0, 1, 1]);
    t.same(await client.hkeys('{b}:v:2'), ['']);
    t.same((await client.hkeys('{b}:v:3')).sort(), ['', 'x']);
    t.equal(await client.hexists(IDS, 's:2'), 0, 'known by its day');
    await client.hset(DOOR, 'x', 1);
    t.same(await meet(1, ...many), [0, 1, 1]);
    t.same(await client.hkeys(DOOR), ['x']);
    t.equal(await meet(0, ...many).then(() => client.hexists(DOOR, '')), 1);
    await meet(2, {});
    t.equal(await meet(1, ...many), LUA.SUPERSEDED);
  });

  t.test('who has counts at its door is at home, and needs no field for it', async (t) => {
    await client.hset(DOOR, 'x', 1);
    t.same(await batch([ask('p'), ask('r')], { seq: 1 }), [1, '.', 2, '.']);
    t.same(await left(), [DOOR]);
  });

  t.test('operations of a batch are done in their order', async (t) => {
    const operations = [door('v', 'x'), door('c', 'x'), door('d', 'x'), door('g', 'x')];
    operations.push(ask('p', 's:2', '{b}:v:2'), ask('r', 's:2', '{b}:v:2'), ask('p', 's:2', '{b}:v:2'));
    operations.push(room('C', 'y'));
    t.same(await batch(operations, { seq: 1 }), [2, 2, 4, 0, 5, '', 6, '.', 7, '.', 8, 1]);
  });

  t.test(
    'at the marker of a door that was left nothing is done, and the sender is told to ask',
    async (t) => {
      await client.set(DOOR, '');
      await client.hset(IDS, 's:1', `${AT} 1`);
      for (const [i, kind] of ['v', 'c', 'g', 'd'].entries()) {
        t.same(
          await batch([door(kind, 'x'), room('C', kind)], { seq: i + 1 }),
          [1, '@', 2, 1],
          `${kind}, and its neighbour is done`,
        );
      }
      t.equal(await client.get(DOOR), '');
      t.same(await client.hgetall(IDS), { 's:1': `${AT} 1` });
      t.same(await left(), [DOOR, IDS, ROOM].sort());
    },
  );

  t.test('at a room: as at a door, and nobody is mapped', async (t) => {
    t.same(await batch([room('V', 'x'), room('C', 'x'), room('G', 'x')], { seq: 1 }), [2, 2, 3, 2]);
    t.same(await left(), [ROOM]);
    t.same(await batch([room('D', 'x'), room('D', 'x'), room('G', 'x')], { seq: 2 }), [3, 0]);
    t.same(await left(), [], 'the last count is gone, and who came here is known by its own field');
  });

  t.test('at a room with a name: done only where the door of that name leads here', async (t) => {
    await client.hset(IDS, { 's:1': `${AT} 1`, 's:2': 'z.other 7', 's:3': `${AT}2 1`, 's:4': '.' });
    t.same(await batch([room('C', 'x', 's:1'), room('G', 'x', 's:1')], { seq: 1 }), [1, 1, 2, 1]);
    for (const [who, field] of [
      ['s:2', 'z.other 7'],
      ['s:3', `${AT}2 1`],
      ['s:4', '.'],
      ['s:5', ''],
    ] as const) {
      for (const kind of ['V', 'C', 'G', 'D']) {
        t.same(
          await batch([room(kind, 'x', who), room('G', 'x', 's:1')]),
          [1, `@${field}`, 2, 1],
          `${kind} ${who}`,
        );
      }
    }
    t.same(await client.hgetall(ROOM), { x: '1' });
    t.equal(await client.hlen(IDS), 4);
  });

  t.test('a room that was merged away answers its heir before anything is done', async (t) => {
    await client.hset(IDS, { 's:1': `${AT} 1`, 's:2': 'z.other 7' });
    for (const heir of ['z.heir', '!z.heir']) {
      await client.hset(PROFILE, 'heir', heir);
      for (const kind of ['V', 'C', 'G', 'D']) {
        t.same(await batch([room(kind, 'x'), room(kind, 'x', 's:1')]), [1, heir, 2, heir], kind);
        t.same(await batch([room(kind, 'x', 's:2')]), [1, '@z.other 7'], 'its door comes first');
      }
    }
    t.same(await left(), [IDS]);
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
    t.same(await batch([door('c', 'first', 's:9', '{b}:v:9')], { seq: 20, max: 1 }), [1, 1]);
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
    await client.hset(IDS, 's:1', 'z.other 2');
    const operations = [
      ...[door('c', 'x'), door('v', 'x'), door('d', 'y'), ask('r', 's:2', '{b}:v:2')],
      ...[room('C', 'x'), room('V', 'x', 's:1'), door('c', 'one more')],
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
      await client.hset(IDS, 's:1', `${AT} 1`);
      const operations = [room('V', 'x'), room('C', 'x', 's:1'), room('G', 'x'), room('D', 'x', 's:1')];
      const refused = [1, '@', 2, '@', 3, '@', 4, '@'];
      await client.hset(PROFILE, 'heir', '@');
      t.same(await batch(operations, { seq: 1 }), refused);
      await client.del(PROFILE);
      t.same(await batch(operations, { seq: 2 }), refused);
      t.same(await left(), [IDS]);
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
    const operations = Array.from({ length: 512 }, (_, i) => door('c', `p${i % 7}`, `s:${i}`, `{b}:v:${i}`));
    const first = (await batch(operations, { seq: 1 })) as number[];
    t.same(first, Array.from({ length: 512 }, (_, i) => [i + 1, 1]).flat());
    t.same(await batch(operations, { seq: 1 }), first);
  });
});
