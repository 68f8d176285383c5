// A visit is logged as it is counted, and counted once: lua/visits.lua with a log, and lua/visit-once.lua, alone.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{b}:lane';
const DOOR = '{b}:v:s1';
const ROOM = '{a}:r:room';
const PROFILE = '{a}:p:room';

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
  const visit = async (record = RECORD, { handle = 'x', deadline = 0, max = 100, isRoom = true } = {}) => {
    const args = [deadline || (await clock(10_000)), handle, 60, max, isRoom ? 1 : 0, 1, 0];
    return call('visit-once', [ROOM, PROFILE, record], args);
  };

  t.test('counts once under its id, and answers alike', async (t) => {
    for (let i = 0; i < 3; i++) t.equal(await visit(), 1);
    t.equal(await visit('{a}:k:2'), 2, 'another id is another visit');
    t.equal(await visit(), 1, 'the first goes on answering as it did');
    t.same(await client.hgetall(ROOM), { x: '2' });
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    t.equal(await client.ttl(ROOM), -1);
  });

  t.test('where the identity left its door: told so, and nothing is done', async (t) => {
    await client.del(ROOM);
    await client.hset(ROOM, '', 'z.other 1');
    t.equal(await visit(), '@');
    t.same((await client.keys('*')).sort(), [ROOM, PROFILE].sort());
  });

  t.test(
    'a room that is being erased, or is none any more, counts nothing; a door has no owner',
    async (t) => {
      await client.hset(PROFILE, 'heir', '@');
      t.equal(await visit(), '@');
      await client.del(PROFILE);
      t.equal(await visit(), '@');
      t.same(await client.keys('*'), []);
      t.equal(await visit(RECORD, { isRoom: false }), 1);
    },
  );

  t.test('where a retry took the operation elsewhere: told so, and nothing is done', async (t) => {
    await client.set(RECORD, '-');
    t.equal(await visit(), '@');
    await client.hset(PROFILE, 'heir', 'z.heir');
    t.equal(await visit(), '@', 'also where the room was merged away since');
    t.same((await client.keys('*')).sort(), [PROFILE, RECORD].sort());
  });

  t.test('a room that was merged away answers its heir, and nothing is done', async (t) => {
    for (const heir of ['z.heir', '!z.heir']) {
      await client.hset(PROFILE, 'heir', heir);
      t.equal(await visit(), heir);
    }
    t.same(await client.keys('*'), [PROFILE]);
  });

  t.test('what was counted here stays counted here, also when it is merged away or left later', async (t) => {
    await visit();
    await client.hset(PROFILE, 'heir', 'z.heir');
    t.equal(await visit(), 1);
    await client.del(PROFILE);
    await client.del(ROOM);
    await client.hset(ROOM, '', 'z.other 1');
    t.equal(await visit(), 1);
  });

  t.test('one product too many is refused, leaves nothing, and may be asked for again', async (t) => {
    t.equal(await visit(RECORD, { max: 1 }), 1);
    t.equal(await visit('{a}:k:2', { handle: 'y', max: 1 }), LUA.TOO_MANY);
    t.same((await client.keys('*')).sort(), [PROFILE, RECORD, ROOM].sort());
    t.same(await client.hgetall(ROOM), { x: '1' });
    t.equal(await visit('{a}:k:3', { max: 1 }), 2, 'a known product counts');
    await client.hdel(ROOM, 'x');
    t.equal(await visit('{a}:k:2', { handle: 'y', max: 1 }), 1, 'when there is room');
  });

  t.test('past its deadline nothing is done', async (t) => {
    t.equal(await visit(RECORD, { deadline: await clock(-1) }), LUA.EXPIRED);
    t.same(await client.keys('*'), [PROFILE]);
  });
});
