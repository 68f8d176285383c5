// lua/record.lua alone: every answer and error, the same batch sent again, and what is left in Redis afterwards. And the
// mark of lua/append.lua.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{e0}:lane';
const EVENTS = '{e0}:events';
const STATE = '{e0}:events:state';
/** Of sessions. */
const identityOf = (who: string) => `{b}:v:${who}`;
const ownOf = (who: string) => `{b}:p:${who}`;
const PROFILE = '{a}:p:linked';
/** A link to PROFILE. */
const LINK = 'a.linked g1';

t.test('record.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'generation', 'g1');
  });

  interface Event {
    readonly who: string;
    /** The link that it is expected to have; empty: none. */
    readonly link: string;
    readonly line: string;
  }
  const guest = (who: string, line: string): Event => ({ who, link: '', line });
  const linked = (who: string, line: string): Event => ({ who, link: LINK, line });
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
        events
          .map(({ who, link }) => {
            const [profile, generation] = link === '' ? [ownOf(who), ''] : [PROFILE, 'g1'];
            return `${who && identityOf(who)}\n${link}\n${profile}\n${generation}\n`;
          })
          .join(''),
        events.map(({ line }) => `${line}\n`).join(''),
      ],
    );
  const entries = async () => (await client.xrange(EVENTS, '-', '+')).map(([, fields]) => fields);

  t.test('a batch is one entry, its figures are pending, and its visitors are known', async (t) => {
    await client.hset(identityOf('s2'), '', LINK);
    t.same(await record(1, [guest('s1', '{"a":1}'), linked('s2', '{"a":"é"}')]), []);
    t.same(await record(2, [guest('s1', '{"b":1}')]), []);
    t.same(await entries(), [
      ['n', '2', 'd', '{"a":1}\n{"a":"é"}\n'],
      ['n', '1', 'd', '{"b":1}\n'],
    ]);
    t.same(await client.hgetall(STATE), { events: '3', bytes: String(8 + 11 + 8) });
    t.same(await client.hgetall(ownOf('s1')), { known: '1' });
    t.equal(await client.exists(ownOf('s2')), 0);
  });

  t.test('who has counts is known by them: nothing is written', async (t) => {
    await client.hset(identityOf('s1'), 'x', 1);
    t.same(await record(1, [guest('s1', '1')]), []);
    t.equal(await client.exists(ownOf('s1')), 0);
  });

  t.test('a visitor who is elsewhere: a redirect, its line left out, the others appended', async (t) => {
    await client.hset(identityOf('s2'), '', 'z.other g3');
    await client.hset(identityOf('s4'), 'x', 1);
    await client.hset(identityOf('s5'), '', 'a.linked g2');
    const events = [
      ...[guest('s1', '1'), guest('s2', '22'), guest('s3', '333')],
      ...[linked('s2', '4444'), linked('s4', '5'), linked('s5', '6'), linked('unknown', '7')],
    ];
    const elsewhere = [2, '@z.other g3', 4, '@z.other g3', 5, '@', 6, '@a.linked g2', 7, '@'];
    for (const again of [false, true]) t.same(await record(1, events), elsewhere, again ? 'again' : 'first');
    t.same(await entries(), [['n', '2', 'd', '1\n333\n']]);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '6' });
    t.same(
      (await client.keys(ownOf('*'))).sort(),
      [ownOf('s1'), ownOf('s3')],
      'no other identity became known',
    );
  });

  t.test('where no identity is as expected there is no entry, and no figure', async (t) => {
    await client.hset(identityOf('s2'), '', 'z.other g3');
    t.same(await record(1, [guest('s2', '2')]), [1, '@z.other g3']);
    t.same((await client.keys('*')).sort(), [identityOf('s2'), LANE, PROFILE].sort());
  });

  t.test('nothing is appended for a profile that is gone, or another one by now', async (t) => {
    await client.hset(identityOf('s1'), '', LINK);
    for (const [seq, generation] of [
      [1, 'g2'],
      [2, undefined],
    ] as const) {
      await client.del(PROFILE);
      if (generation !== undefined) await client.hset(PROFILE, 'generation', generation);
      t.same(await record(seq, [linked('s1', '1'), linked('', '2')]), [1, '!', 2, '!']);
    }
    t.same(await entries(), []);
  });

  t.test('where the link was read before only the profile is looked at', async (t) => {
    t.same(await record(1, [linked('', '1')]), []);
    t.equal((await entries()).length, 1);
  });

  t.test('the same batch sent again appends nothing, an older one is refused', async (t) => {
    for (let i = 0; i < 3; i++) t.same(await record(5, [guest('s1', '1')]), []);
    t.equal(await record(4, [guest('s1', '1')]), LUA.SUPERSEDED);
    t.equal((await entries()).length, 1);
    t.same(await client.hgetall(STATE), { events: '1', bytes: '2' });
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 0 && ttl <= 60, 'its record goes away by itself');
  });

  t.test('past its deadline, or over the high-water mark: refused, and nothing is left', async (t) => {
    t.equal(await record(1, [guest('s1', '1')], { deadline: await clock(-1) }), LUA.EXPIRED);
    t.equal(await record(1, [guest('s1', '123456789')], { highWater: 9 }), LUA.FULL);
    t.same(await client.keys('*'), [PROFILE]);
    t.same(await record(1, [guest('s1', '123456789')], { highWater: 10 }), []);
    t.equal(await record(2, [guest('s2', '')], { highWater: 10 }), LUA.FULL);
    t.same(await client.hgetall(STATE), { events: '1', bytes: '10' });
    t.same(await client.keys(ownOf('*')), [ownOf('s1')]);
    t.same(
      await record(1, [guest('s1', '123456789')], { highWater: 0 }),
      [],
      'what was done before, was done',
    );
  });
});

t.test('append.lua takes lines up to the high-water mark, and not a byte beyond it', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  const append = async (seq: number, line: string, highWater: number) =>
    call('append', [LANE, EVENTS, STATE], [seq, await clock(10_000), 60, highWater, 1, line]);
  t.equal(await append(1, '{"a":123}\n', 9), LUA.FULL);
  t.same(await client.keys('*'), []);
  t.equal(await append(1, '{"a":123}\n', 10), 1, 'what was refused may be sent again under its number');
  t.equal(await append(2, '{}\n', 12), LUA.FULL);
  t.equal(await append(2, '{}\n', 13), 1);
  t.equal(await append(2, '{}\n', 1), 1, 'what was done stays done at the mark, too');
  t.same(await client.hgetall(STATE), { events: '2', bytes: '13' });
});
