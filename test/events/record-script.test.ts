// lua/record.lua alone: every answer and error, and the same batch sent again.

import t from 'tap';
import { LUA } from '../../src/errors.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{e0}:lane';
const EVENTS = '{e0}:events';
const STATE = '{e0}:events:state';
const IDS = '{b}:ids';
const MOVED = '{b}:m:p';
const VISITS = '{b}:v:p';
const PROFILE = 'b.p';

t.test('record.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));

  type Event = [kind: 'r' | 'R', identity: string, line: string];
  const record = async (seq: number, events: Event[], { deadline = 0, highWater = 1_000_000 } = {}) =>
    call(
      'record',
      [LANE, EVENTS, STATE, ...events.flatMap(([kind]) => [kind === 'r' ? IDS : MOVED, VISITS])],
      [
        ...[seq, deadline || (await clock(10_000)), 60, highWater],
        events.map(([kind, identity]) => `${kind}${identity}\n${PROFILE}\n`).join(''),
        events.map(([, , line]) => `${line}\n`).join(''),
      ],
    );
  const entries = async () => (await client.xrange(EVENTS, '-', '+')).map(([, fields]) => fields);

  t.test('a batch is one entry, its figures are pending, and its visitors are known', async (t) => {
    t.same(
      await record(1, [
        ['r', 's:1', '{"a":1}'],
        ['R', 's:2', '{"a":"é"}'],
      ]),
      [],
    );
    t.same(await record(2, [['r', 's:1', '{"b":1}']]), []);
    t.same(await entries(), [
      ['n', '2', 'd', '{"a":1}\n{"a":"é"}\n'],
      ['n', '1', 'd', '{"b":1}\n'],
    ]);
    t.same(await client.hgetall(STATE), { events: '3', bytes: String(8 + 11 + 8) });
    t.same(await client.hgetall(IDS), { 's:1': PROFILE });
    t.equal(await client.exists(MOVED), 0, 'in capitals nothing is mapped');
  });

  t.test(
    'a visitor with another profile: its id is answered, its line left out, the others appended',
    async (t) => {
      await client.hset(IDS, 's:2', 'z.other');
      const events: Event[] = [
        ['r', 's:1', '1'],
        ['r', 's:2', '2'],
        ['r', 's:3', '3'],
      ];
      t.same(await record(1, events), [2, 'z.other']);
      t.same(await entries(), [['n', '2', 'd', '1\n3\n']]);
      t.same(await client.hgetall(STATE), { events: '2', bytes: '4' });
      t.same(await record(1, events), [2, 'z.other'], 'again');
      t.equal((await entries()).length, 1);
      t.same(await record(2, [['r', 's:2', '2']]), [1, 'z.other']);
      t.equal((await entries()).length, 1, 'no entry without events');
    },
  );

  t.test('who left a foreign profile is sent on', async (t) => {
    await client.hset(MOVED, 's:2', 'z.next');
    t.same(
      await record(1, [
        ['R', 's:2', '2'],
        ['R', 's:1', '1'],
      ]),
      [1, 'z.next'],
    );
    t.same(await entries(), [['n', '1', 'd', '1\n']]);
  });

  t.test('a profile that was merged away answers its heir, and nobody is mapped to it', async (t) => {
    await client.set(VISITS, '!z.heir');
    t.same(
      await record(1, [
        ['r', 's:1', '1'],
        ['R', 's:2', '2'],
      ]),
      [1, '!z.heir', 2, '!z.heir'],
    );
    t.same((await client.keys('*')).sort(), [LANE, VISITS].sort());
    await client.hset(IDS, 's:1', PROFILE);
    t.same(await record(2, [['r', 's:1', '1']]), [1, '!z.heir']);
  });

  t.test("a profile with visits stays the visitor's", async (t) => {
    await client.hset(VISITS, 'x', 1);
    t.same(await record(1, [['r', 's:1', '1']]), []);
    t.equal((await entries()).length, 1);
  });

  t.test('the same batch sent again appends nothing, an older one is refused', async (t) => {
    for (let i = 0; i < 3; i++) t.same(await record(5, [['r', 's:1', '1']]), []);
    t.equal(await record(4, [['r', 's:1', '1']]), LUA.SUPERSEDED);
    t.equal((await entries()).length, 1);
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 50 && ttl <= 60, 'its record goes away by itself');
  });

  t.test('past its deadline, or over the high-water mark: refused, and nothing is left', async (t) => {
    t.equal(await record(1, [['r', 's:1', '1']], { deadline: await clock(-1) }), LUA.EXPIRED);
    t.equal(await record(1, [['r', 's:1', '123456789']], { highWater: 9 }), LUA.FULL);
    t.same(await client.keys('*'), []);
    t.same(await record(1, [['r', 's:1', '123456789']], { highWater: 10 }), []);
    t.equal(await record(2, [['r', 's:1', '']], { highWater: 10 }), LUA.FULL);
    t.same(await client.hgetall(STATE), { events: '1', bytes: '10' });
  });
});
