// lua/append.lua alone: every answer and error, and the same batch sent again.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const keys = createKeys('t');
const LANE = keys.lane('e0', '1');
const EVENTS = keys.events(0);
const STATE = keys.eventsState(0);

t.test('append.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));

  const append = async (
    seq: number,
    lines: string,
    { deadline = 0, highWater = 1_000_000, lane = LANE } = {},
  ) =>
    call(
      'append',
      [lane, EVENTS, STATE],
      [seq, deadline || (await clock(10_000)), 60, highWater, lines.split('\n').length - 1, lines],
    );
  const entries = async () => (await client.xrange(EVENTS, '-', '+')).map(([, fields]) => fields);

  t.test('a batch is one entry, and its figures are pending', async (t) => {
    t.equal(await append(1, '{"a":1}\n{"a":"é"}\n'), 1);
    t.equal(await append(2, '{"b":1}\n'), 1);
    t.same(await entries(), [
      ['n', '2', 'd', '{"a":1}\n{"a":"é"}\n'],
      ['n', '1', 'd', '{"b":1}\n'],
    ]);
    t.same(await client.hgetall(STATE), { events: '3', bytes: String(8 + 11 + 8) });
  });

  t.test('the same batch sent again answers 1 and appends nothing', async (t) => {
    for (let i = 0; i < 3; i++) t.equal(await append(1, '{}\n'), 1);
    t.equal((await entries()).length, 1);
    t.same(await client.hgetall(STATE), { events: '1', bytes: '3' });
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 50 && ttl <= 60, 'its record goes away by itself');
  });

  t.test('it answers so past its deadline, too: the sender may not know that it was applied', async (t) => {
    t.equal(await append(1, '{}\n'), 1);
    t.equal(await append(1, '{}\n', { deadline: await clock(-1) }), 1);
    t.equal((await entries()).length, 1);
  });

  t.test('an older batch of the lane is refused, one of another lane is not', async (t) => {
    await append(5, '{}\n');
    t.equal(await append(4, '{}\n'), LUA.SUPERSEDED);
    t.equal((await entries()).length, 1);
    t.equal(await append(4, '{}\n', { lane: keys.lane('e0', '2') }), 1);
  });

  t.test('a batch past its deadline is refused and leaves nothing', async (t) => {
    t.equal(await append(1, '{}\n', { deadline: await clock(-1) }), LUA.EXPIRED);
    t.same(await client.keys('*'), []);
    t.equal(await append(1, '{}\n'), 1, 'its number is free');
  });

  t.test('up to the high-water mark, and not a byte beyond it', async (t) => {
    t.equal(await append(1, '{"a":123}\n', { highWater: 9 }), LUA.FULL);
    t.same(await client.keys('*'), []);
    t.equal(await append(1, '{"a":123}\n', { highWater: 10 }), 1);
    t.equal(await append(2, '{}\n', { highWater: 12 }), LUA.FULL);
    t.equal((await entries()).length, 1);
    t.equal(
      await append(2, '{}\n', { highWater: 13 }),
      1,
      'what was refused may be sent again under its number',
    );
    t.same(await client.hgetall(STATE), { events: '2', bytes: '13' });
    t.equal(await append(2, '{}\n', { highWater: 1 }), 1, 'what was done stays done at the mark, too');
  });

  t.test('figures that the flusher took away make room', async (t) => {
    await append(1, '{"a":123}\n', { highWater: 10 });
    await client.hincrby(STATE, 'bytes', -10);
    t.equal(await append(2, '{}\n', { highWater: 10 }), 1);
  });

  t.test('a state that holds more than figures is left as it is', async (t) => {
    await client.hset(STATE, { epoch: '3', manifest: '{}' });
    await append(1, '{}\n');
    t.same(await client.hgetall(STATE), { epoch: '3', manifest: '{}', events: '1', bytes: '3' });
  });
});
