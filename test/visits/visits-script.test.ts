// lua/visits.lua and lua/visit-once.lua alone: a visit is counted where its visitor is, once, and logged as it is counted; every
// answer and error, and what is left in Redis afterwards.

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
    t.same(
      await batch([door('w', 'x', '{b}:v:c1'), door('x', 'x', '{b}:v:c1')], { seq: 4 }),
      [2, 2],
      'a customer',
    );
    t.equal(await client.ttl('{b}:v:c1'), -1);
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

  t.test('an older batch of the lane is refused, one of another lane is not', async (t) => {
    await batch([door('v', 'x')], { seq: 5 });
    t.equal(await batch([door('v', 'x')], { seq: 4 }), LUA.SUPERSEDED);
    t.equal(await client.hget(DOOR, 'x'), '1');
    t.same(await batch([door('c', 'x')], { seq: 1, lane: '{b}:lane:2' }), [1, 2]);
  });

  t.test(
    'a room that is merged away, being erased, or none any more answers so, and nothing is done',
    async (t) => {
      await client.hset(DOOR, '', `${AT} 1`);
      await client.hset('{b}:v:s2', '', 'z.other 7');
      let seq = 0;
      for (const [heir, answer] of [
        ['z.heir', 'z.heir'],
        ['!z.heir', '!z.heir'],
        ['@', '@'],
        [undefined, '@'],
      ] as const) {
        await client.del(PROFILE);
        if (heir !== undefined) await client.hset(PROFILE, 'heir', heir);
        for (const kind of ['V', 'C', 'G', 'D']) {
          const operations = [room(kind, 'x'), room(kind, 'x', DOOR), room(kind, 'x', '{b}:v:s2')];
          const refused = [1, answer, 2, answer, 3, '@z.other 7'];
          t.same(await batch(operations, { seq: ++seq }), refused, `${kind} ${heir}: its door comes first`);
        }
      }
      t.same(await left(), [DOOR, '{b}:v:s2'].sort());
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

t.test('visits.lua, with a log', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const LOG = '{v}:visits';
  const STATE = '{v}:visits:state';
  let seq = 0;
  const batch = async (kinds: readonly [kind: string, handle: string][], max = 100, mark = 1_000) => {
    const operations = kinds.map(([kind, handle]) => `${kind}${DOOR}\n${handle}\n`).join('');
    const lines = kinds.filter(([kind]) => kind !== 'g').map(([, handle]) => `p\t${handle}\t\n`);
    const args = [++seq, await clock(10_000), 60, max, 0, operations, LOG, STATE, mark, lines.join('')];
    return () => call('visits', [LANE], args);
  };
  const logged = async () => (await client.xrange(LOG, '-', '+')).map(([, fields]) => fields);

  t.test('what was counted is one entry, and the batch sent again adds none', async (t) => {
    const send = await batch([
      ['v', 'x'],
      ['g', 'x'],
      ['c', 'y'],
    ]);
    for (let i = 0; i < 3; i++) t.same(await send(), [2, 1, 3, 1]);
    t.same(await logged(), [['n', '2', 'v', 'p\tx\t\np\ty\t\n']]);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
  });

  t.test('what was not counted is left out; where nothing was, there is no entry', async (t) => {
    const answers = await (
      await batch(
        [
          ['v', 'x'],
          ['v', 'too many'],
          ['c', 'x'],
          ['c', 'too many'],
        ],
        1,
      )
    )();
    t.same(answers, [2, LUA.TOO_MANY, 3, 2, 4, LUA.TOO_MANY]);
    t.same(await logged(), [['n', '2', 'v', 'p\tx\t\np\tx\t\n']]);
    await (await batch([['v', 'too many']], 1))();
    await client.del(DOOR);
    await client.hset(DOOR, '', 'z.other 1');
    t.same(await (await batch([['v', 'x']]))(), [1, '@z.other 1'], 'at an identity that left its door');
    t.equal((await logged()).length, 1);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
  });

  t.test('at the mark: what fits exactly is logged, one byte more is counted only, and told', async (t) => {
    t.same(await (await batch([['v', 'x']], 100, 5))(), []);
    t.same(await (await batch([['v', 'x']], 100, 9))(), [0, 1]);
    t.same(await (await batch([['v', 'x']], 100, 10))(), []);
    t.same(await client.hgetall(DOOR), { x: '3' });
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
    t.equal((await logged()).length, 2);
  });

  t.test('a stream that takes no entry keeps nobody from being counted', async (t) => {
    for (const [key, other] of [
      [LOG, STATE],
      [STATE, LOG],
    ] as const) {
      await client.set(key, 'in the way');
      t.same(await (await batch([['c', 'x']]))(), [1, await client.hget(DOOR, 'x').then(Number), 0, -1]);
      t.equal(await client.exists(other), 0);
      await client.del(key);
    }
    t.same(await client.hgetall(DOOR), { x: '2' });
  });

  t.test('visit-once.lua: as in a batch', async (t) => {
    const once = async (record: string, mark = 1_000) => {
      const args = [await clock(10_000), 'x', 60, 100, 0, 1, 0, LOG, STATE, mark, 'p\tx\t\n'];
      return call('visit-once', [ROOM, PROFILE, record], args);
    };
    for (let i = 0; i < 2; i++) t.equal(await once('{a}:k:1'), 1);
    t.same(await logged(), [['n', '1', 'v', 'p\tx\t\n']]);
    t.same(await once('{a}:k:2', 9), [2, 1], 'at the mark');
    t.equal(await once('{a}:k:2', 9), 2, 'again');
    t.equal(await once('{a}:k:3', 10), 3);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
    await client.del(LOG);
    await client.set(LOG, 'in the way');
    t.same(await once('{a}:k:4'), [4, -1]);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
  });
});

t.test('visit-once.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'owner', 'c:1');
  });
  const RECORD = '{a}:k:1';
  /** Of a room, or a door where it is none. */
  const COUNTS = ROOM;
  const visit = async (record = RECORD, { handle = 'x', deadline = 0, max = 100, isRoom = true } = {}) => {
    const args = [deadline || (await clock(10_000)), handle, 60, max, isRoom ? 1 : 0, 1, 0];
    return call('visit-once', [COUNTS, PROFILE, record], args);
  };

  t.test('counts once under its id, and answers alike', async (t) => {
    for (let i = 0; i < 3; i++) t.equal(await visit(), 1);
    t.equal(await visit('{a}:k:2'), 2, 'another id is another visit');
    t.equal(await visit(), 1, 'the first goes on answering as it did');
    t.same(await client.hgetall(COUNTS), { x: '2' });
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    t.equal(await client.ttl(COUNTS), -1);
  });

  t.test(
    'where its visitor is not, or a retry took it elsewhere: told so, and nothing is done',
    async (t) => {
      const cases: readonly [key: string, field: string, value: string, answer: string, why: string][] = [
        [COUNTS, '', 'z.other 1', '@', 'the identity left its door'],
        [PROFILE, 'heir', 'z.heir', 'z.heir', 'merged away'],
        [PROFILE, 'heir', '!z.heir', '!z.heir', 'on its way to an heir'],
        [PROFILE, 'heir', '@', '@', 'being erased'],
      ];
      for (const [key, field, value, answer, why] of cases) {
        await client.del(COUNTS);
        await client.hset(key, field, value);
        t.equal(await visit(), answer, why);
        t.equal(await client.exists(RECORD), 0, why);
        t.equal(await client.hget(COUNTS, 'x'), null, why);
      }
      await client.del(COUNTS, PROFILE);
      t.equal(await visit(), '@', 'no room any more');
      t.same(await client.keys('*'), []);
      t.equal(await visit(RECORD, { isRoom: false }), 1, 'a door has no owner');
      await client.hset(PROFILE, 'heir', 'z.heir');
      await client.set(RECORD, '-');
      t.equal(await visit(), '@', 'fenced, also where the room was merged away since');
      t.same(await client.hgetall(COUNTS), { x: '1' });
    },
  );

  t.test('what was counted here stays counted here, also when it is merged away or left later', async (t) => {
    await visit();
    await client.hset(PROFILE, 'heir', 'z.heir');
    t.equal(await visit(), 1);
    await client.del(PROFILE);
    await client.del(COUNTS);
    await client.hset(COUNTS, '', 'z.other 1');
    t.equal(await visit(), 1);
  });

  t.test('one product too many is refused, leaves nothing, and may be asked for again', async (t) => {
    t.equal(await visit(RECORD, { max: 1 }), 1);
    t.equal(await visit('{a}:k:2', { handle: 'y', max: 1 }), LUA.TOO_MANY);
    t.same((await client.keys('*')).sort(), [PROFILE, RECORD, COUNTS].sort());
    t.same(await client.hgetall(COUNTS), { x: '1' });
    t.equal(await visit('{a}:k:3', { max: 1 }), 2, 'a known product counts');
    await client.hdel(COUNTS, 'x');
    t.equal(await visit('{a}:k:2', { handle: 'y', max: 1 }), 1, 'when there is room');
  });

  t.test('past its deadline nothing is done', async (t) => {
    t.equal(await visit(RECORD, { deadline: await clock(-1) }), LUA.EXPIRED);
    t.same(await client.keys('*'), [PROFILE]);
  });
});
