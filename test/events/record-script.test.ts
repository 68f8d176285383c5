// lua/record.lua alone: every answer and error, the same batch sent again, and what is left in Redis afterwards. And the
// mark of lua/append.lua.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{e0}:lane';
const EVENTS = '{e0}:events';
const STATE = '{e0}:events:state';
/** Of sessions. */
const doorOf = (who: string) => `{b}:v:${who}`;
const ownOf = (who: string) => `{b}:p:${who}`;
const PROFILE = '{a}:p:room';
/** The profile that PROFILE is. */
const ROOM = 'a.room';

t.test('record.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'owner', 'c:1');
  });

  interface Event {
    readonly who: string;
    /** What its door is expected to say; empty: it is at home. */
    readonly field: string;
    readonly line: string;
  }
  const atHome = (who: string, line: string): Event => ({ who, field: '', line });
  const atRoom = (who: string, line: string, field = `${ROOM} 1`): Event => ({ who, field, line });
  const record = async (
    seq: number,
    events: readonly Event[],
    { deadline = 0, highWater = 1_000_000 } = {},
  ) =>
    call(
      'record',
      [LANE],
      [
        ...[seq, deadline || (await clock(10_000)), 60, EVENTS, STATE, highWater, 0],
        events.map(({ who, field }) => `${who && doorOf(who)}\n${field}\n${field && PROFILE}\n`).join(''),
        events.map(({ line }) => `${line}\n`).join(''),
      ],
    );
  const entries = async () => (await client.xrange(EVENTS, '-', '+')).map(([, fields]) => fields);

  t.test('a batch is one entry, its figures are pending, and its visitors are known', async (t) => {
    await client.hset(doorOf('s2'), '', `${ROOM} 1`);
    t.same(await record(1, [atHome('s1', '{"a":1}'), atRoom('s2', '{"a":"é"}')]), []);
    t.same(await record(2, [atHome('s1', '{"b":1}')]), []);
    t.same(await entries(), [
      ['n', '2', 'd', '{"a":1}\n{"a":"é"}\n'],
      ['n', '1', 'd', '{"b":1}\n'],
    ]);
    t.same(await client.hgetall(STATE), { events: '3', bytes: String(8 + 11 + 8) });
    t.same(await client.hgetall(ownOf('s1')), { known: '1' });
    t.equal(await client.exists(ownOf('s2')), 0);
  });

  t.test('who has counts at its door is known by them: nothing is written', async (t) => {
    await client.hset(doorOf('s1'), 'x', 1);
    t.same(await record(1, [atHome('s1', '1')]), []);
    t.equal(await client.exists(ownOf('s1')), 0);
  });

  t.test('a visitor who is elsewhere: told where, its line left out, the others appended', async (t) => {
    await client.hset(doorOf('s2'), '', 'z.other 3');
    await client.hset(doorOf('s4'), 'x', 1);
    await client.hset(doorOf('s5'), '', `${ROOM}2 1`);
    const events = [
      ...[atHome('s1', '1'), atHome('s2', '22'), atHome('s3', '333')],
      ...[atRoom('s2', '4444'), atRoom('s4', '5'), atRoom('s5', '6'), atRoom('unknown', '7')],
    ];
    const elsewhere = [2, '@z.other 3', 4, '@z.other 3', 5, '@', 6, `@${ROOM}2 1`, 7, '@'];
    for (const again of [false, true]) t.same(await record(1, events), elsewhere, again ? 'again' : 'first');
    t.same(await entries(), [['n', '2', 'd', '1\n333\n']]);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '6' });
    t.same(
      (await client.keys(ownOf('*'))).sort(),
      [ownOf('s1'), ownOf('s3')],
      'no other identity became known',
    );
  });

  t.test('where no identity is where it was expected there is no entry, and no figure', async (t) => {
    await client.hset(doorOf('s2'), '', 'z.other 3');
    t.same(await record(1, [atHome('s2', '2')]), [1, '@z.other 3']);
    t.same((await client.keys('*')).sort(), [doorOf('s2'), LANE, PROFILE].sort());
  });

  t.test('a room that was merged away answers its heir, and nothing is appended for it', async (t) => {
    await client.hset(doorOf('s1'), '', `${ROOM} 1`);
    await client.hset(doorOf('s2'), '', 'z.other 7');
    for (const [seq, heir] of [
      [1, 'z.heir'],
      [2, '!z.heir'],
    ] as const) {
      await client.hset(PROFILE, 'heir', heir);
      t.same(await record(seq, [atRoom('s1', '1'), atRoom('s2', '2')]), [1, heir, 2, '@z.other 7']);
    }
    t.same(await entries(), []);
  });

  t.test('where the door was asked before only the room is looked at', async (t) => {
    t.same(await record(1, [atRoom('', '1')]), []);
    await client.hset(PROFILE, 'heir', 'z.heir');
    t.same(await record(2, [atRoom('', '2')]), [1, 'z.heir']);
    await client.del(PROFILE);
    t.same(await record(3, [atRoom('', '3')]), [1, '@']);
    t.equal((await entries()).length, 1);
  });

  t.test('the same batch sent again appends nothing, an older one is refused', async (t) => {
    for (let i = 0; i < 3; i++) t.same(await record(5, [atHome('s1', '1')]), []);
    t.equal(await record(4, [atHome('s1', '1')]), LUA.SUPERSEDED);
    t.equal((await entries()).length, 1);
    t.same(await client.hgetall(STATE), { events: '1', bytes: '2' });
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 0 && ttl <= 60, 'its record goes away by itself');
  });

  t.test('past its deadline, or over the high-water mark: refused, and nothing is left', async (t) => {
    t.equal(await record(1, [atHome('s1', '1')], { deadline: await clock(-1) }), LUA.EXPIRED);
    t.equal(await record(1, [atHome('s1', '123456789')], { highWater: 9 }), LUA.FULL);
    t.same(await client.keys('*'), [PROFILE]);
    t.same(await record(1, [atHome('s1', '123456789')], { highWater: 10 }), []);
    t.equal(await record(2, [atHome('s2', '')], { highWater: 10 }), LUA.FULL);
    t.same(await client.hgetall(STATE), { events: '1', bytes: '10' });
    t.same(await client.keys(ownOf('*')), [ownOf('s1')]);
    t.same(
      await record(1, [atHome('s1', '123456789')], { highWater: 0 }),
      [],
      'what was done before, was done',
    );
  });
});

t.test('append.lua takes lines up to the high-water mark, and not a byte beyond it', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  const append = async (seq: number, line: string, highWater: number) =>
    call('append', [LANE, EVENTS, STATE], [seq, await clock(10_000), 60, highWater, 'd', 1, line]);
  t.equal(await append(1, '{"a":123}\n', 9), LUA.FULL);
  t.same(await client.keys('*'), []);
  t.equal(await append(1, '{"a":123}\n', 10), 1, 'what was refused may be sent again under its number');
  t.equal(await append(2, '{}\n', 12), LUA.FULL);
  t.equal(await append(2, '{}\n', 13), 1);
  t.equal(await append(2, '{}\n', 1), 1, 'what was done stays done at the mark, too');
  t.same(await client.hgetall(STATE), { events: '2', bytes: '13' });
});
