// lua/visits.lua alone: a visit is counted where its visitor is, once, and logged as it is counted; every
// answer and error, and what is left in Redis afterwards.

import { createHash } from 'node:crypto';
import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { LUA } from '../../src/redis/lua-codes.js';
import { guestPlace } from '../../src/redis/place.js';
import { ScriptCall } from '../../src/redis/script-call.js';
import { KeptGuests } from '../../src/visits/kept-guests.js';
import { type VisitEntry, visitFormat } from '../../src/visits/visit-batch.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{b}:lane';
/** Of a session, and its default profile. */
const [IDENTITY, OWN] = ['{b}:v:s1', '{b}:p:s1'];
const COUNTS = '{a}:r:linked';
const PROFILE = '{a}:p:linked';
/** A link to PROFILE. */
const LINK = 'a.linked g1';

type Operation = readonly (string | number)[];
const guest = (kind: string, handle: string, at = IDENTITY): Operation => [kind, at, handle];
const ask = (kind: 'peek' | 'resolve', at = IDENTITY): Operation => [kind, at, ''];
/** Of a linked profile; with an identity whose link is checked. */
const linked = (kind: string, handle: string, at = ''): Operation => [
  ...['at', at, at === '' ? '' : LINK, PROFILE, 'g1'],
  ...[kind, COUNTS, handle],
];
/** Under a record. */
const once = (record: string, operation: Operation): Operation => ['once', record, 60, ...operation];

t.test('visits.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'generation', 'g1');
  });

  interface Batch {
    readonly seq?: number;
    readonly deadline?: number;
    readonly lane?: string;
    readonly max?: number;
    readonly retention?: number;
  }
  const batch = async (operations: readonly Operation[], options: Batch = {}) => {
    const { seq = 0, deadline = await clock(10_000), lane = LANE, max = 100, retention = 0 } = options;
    return call('visits', [lane], [seq, deadline, 60, max, retention, '', '', 0, '', ...operations.flat()]);
  };
  /** All keys but the lane, and the linked profile. */
  const left = async () => (await client.keys('*')).filter((key) => key !== LANE && key !== PROFILE).sort();

  t.test('of a guest: visit counts, count counts and answers, read reads, reset resets', async (t) => {
    t.same(await batch([guest('visit', 'x')], { seq: 1 }), [], 'done, and nothing to say');
    t.same(await left(), [IDENTITY], 'a guest who looks around is one key');
    t.same(await batch([guest('count', 'x')], { seq: 2 }), [1, 2]);
    t.same(await batch([guest('read', 'x'), guest('read', 'unseen')]), [1, 2, 2, 0]);
    t.same(await batch([guest('reset', 'x'), guest('reset', 'unseen')], { seq: 3 }), [1, 0, 2, 0]);
    t.same(await batch([guest('read', 'x')]), [1, 0]);
  });

  t.test('a reset that takes the last count keeps its identity known', async (t) => {
    await batch([guest('reset', 'x')], { seq: 1 });
    t.same(await left(), [], 'an unknown one does not become known by it');
    await batch([guest('visit', 'x'), guest('visit', 'y')], { seq: 2 });
    await batch([guest('reset', 'x')], { seq: 3 });
    t.same(await left(), [IDENTITY], 'a count is left');
    await batch([guest('reset', 'unseen')], { seq: 4 });
    t.same(await left(), [IDENTITY], 'it is left by a reset of nothing');
    await batch([guest('reset', 'y')], { seq: 5 });
    t.same(await client.hgetall(OWN), { known: '1' });
    t.same(await batch([ask('peek')]), [1, '.']);
  });

  t.test('peek reads the link and writes nothing; resolve makes an unknown identity known', async (t) => {
    t.same(await batch([ask('peek')]), [1, '']);
    t.same(await left(), []);
    t.same(await batch([ask('resolve')], { seq: 1 }), [1, '.']);
    t.same(await batch([ask('resolve'), ask('peek')], { seq: 2 }), [1, '.', 2, '.'], 'again');
    t.same(await left(), [OWN]);
    await client.hset('{b}:v:s2', '', LINK);
    for (const kind of ['peek', 'resolve'] as const)
      t.same(await batch([ask(kind, '{b}:v:s2')]), [1, LINK], kind);
    t.same(await client.hgetall('{b}:v:s2'), { '': LINK });
    await client.hset('{b}:v:s3', 'x', 1);
    t.same(await batch([ask('peek', '{b}:v:s3'), ask('resolve', '{b}:v:s3')], { seq: 3 }), [1, '.', 2, '.']);
    t.equal(await client.exists('{b}:p:s3'), 0, 'who has counts is known by them');
  });

  t.test('at an identity that has a link nothing is done, and the answer is a redirect', async (t) => {
    await client.hset(IDENTITY, '', LINK);
    for (const [i, kind] of ['visit', 'count', 'read', 'reset'].entries())
      t.same(
        await batch([guest(kind, 'x'), linked('count', kind)], { seq: i + 1 }),
        [1, `@${LINK}`, 2, 1],
        `${kind}, and its neighbour is done`,
      );
    t.same(await client.hgetall(IDENTITY), { '': LINK });
    t.same(await left(), [IDENTITY, COUNTS].sort());
  });

  t.test('of a linked profile: as of a guest, and no identity is written', async (t) => {
    t.same(
      await batch([linked('visit', 'x'), linked('count', 'x'), linked('read', 'x')], { seq: 1 }),
      [2, 2, 3, 2],
    );
    t.same(await left(), [COUNTS]);
    t.same(
      await batch([linked('reset', 'x'), linked('reset', 'x'), linked('read', 'x')], { seq: 2 }),
      [1, 0, 2, 0, 3, 0],
    );
    t.same(await left(), [], 'the last count is gone');
  });

  t.test('with an identity that is checked: done only where it leads here', async (t) => {
    const fields = {
      s1: LINK,
      s2: 'z.other g7',
      s3: 'a.linked2 g1',
      s4: '',
      s5: 'a.linked g2',
      s6: 'a.linked g11',
    };
    for (const [who, field] of Object.entries(fields))
      if (field !== '') await client.hset(`{b}:v:${who}`, '', field);
    await client.hset('{b}:v:s4', 'x', 1);
    t.same(
      await batch([linked('count', 'x', IDENTITY), linked('read', 'x', IDENTITY)], { seq: 1 }),
      [1, 1, 2, 1],
    );
    for (const [who, field] of Object.entries(fields).slice(1))
      for (const kind of ['visit', 'count', 'read', 'reset'])
        t.same(
          await batch([linked(kind, 'x', `{b}:v:${who}`), linked('read', 'x', IDENTITY)]),
          [1, `@${field}`, 2, 1],
          `${kind} ${who}`,
        );
    t.same(await client.hgetall(COUNTS), { x: '1' });
  });

  t.test('one product too many is refused, and leaves nothing; known ones go on counting', async (t) => {
    for (const [where, at, key] of [
      ['guest', guest, IDENTITY],
      ['linked', linked, COUNTS],
    ] as const) {
      const max = 3;
      const seq = where === 'guest' ? 1 : 10;
      t.same(
        await batch([at('visit', '1'), at('visit', '2'), at('count', '3')], { seq, max }),
        [3, 1],
        where,
      );
      const refused = [at('visit', '4'), at('count', '5'), at('count', '3'), at('visit', '1')];
      t.same(await batch(refused, { seq: seq + 1, max }), [1, LUA.TOO_MANY, 2, LUA.TOO_MANY, 3, 2]);
      t.same(await client.hgetall(key), { 1: '2', 2: '1', 3: '2' });
      t.same(await batch([at('read', '4'), at('reset', '4')], { seq: seq + 2, max }), [1, 0, 2, 0]);
      await batch([at('reset', '2')], { seq: seq + 3, max });
      t.same(await batch([at('count', '4')], { seq: seq + 4, max }), [1, 1], 'a reset makes space');
    }
    t.same(await batch([guest('count', 'first', '{b}:v:9')], { seq: 20, max: 1 }), [1, 1]);
  });

  t.test('one operation that fails is its own answer, and its neighbours are done', async (t) => {
    await client.hset(IDENTITY, { text: 'none', full: '9223372036854775807' });
    const operations = [
      guest('visit', 'x'),
      guest('visit', 'text'),
      guest('count', 'full'),
      guest('count', 'x'),
    ];
    for (const again of [false, true]) {
      t.match(
        await batch(operations, { seq: 1 }),
        [2, { message: /not an integer/ }, 3, { message: /overflow/ }, 4, 2],
        again ? 'again' : 'first',
      );
    }
    t.equal(await client.hget(IDENTITY, 'x'), '2');
  });

  t.test('the same batch sent again answers as the first time and changes nothing', async (t) => {
    await client.hset('{b}:v:s3', '', 'z.other g2');
    const operations = [
      ...[guest('count', 'x'), guest('visit', 'x'), guest('reset', 'y'), ask('resolve', '{b}:v:2')],
      ...[linked('count', 'x'), linked('visit', 'x', '{b}:v:s3'), guest('count', 'one more')],
    ];
    const first = await batch(operations, { seq: 7, max: 1 });
    t.same(first, [1, 1, 3, 0, 4, '.', 5, 1, 6, '@z.other g2', 7, LUA.TOO_MANY]);
    const after = await client.hgetall(IDENTITY);
    for (let i = 0; i < 3; i++) t.same(await batch(operations, { seq: 7, max: 1 }), first);
    t.same(await client.hgetall(IDENTITY), after);
    t.same(await client.hgetall(COUNTS), { x: '1' });
    t.same(await batch([guest('count', 'x')], { seq: 8 }), [1, 3], 'the next one counts on');
  });

  t.test('an older batch of the lane is refused, one of another lane is not', async (t) => {
    await batch([guest('visit', 'x')], { seq: 5 });
    t.equal(await batch([guest('visit', 'x')], { seq: 4 }), LUA.SUPERSEDED);
    t.equal(await client.hget(IDENTITY, 'x'), '1');
    t.same(await batch([guest('count', 'x')], { seq: 1, lane: '{b}:lane:2' }), [1, 2]);
  });

  t.test(
    'a visit gives a guest its end; one that is kept looks at it only if it is the first of its product',
    async (t) => {
      const [DAY_S, HOUR_S] = [86_400, 3_600];
      const days = async () => Math.round(((await client.ttl(IDENTITY)) / DAY_S) * 10) / 10;
      const visit = (kind: string, handle: string, seq: number) =>
        batch([guest(kind, handle)], { seq, retention: 10 * DAY_S });
      await visit('kept', 'x', 1);
      t.equal(await days(), 11, 'a new one has an end');
      await client.expire(IDENTITY, 3 * DAY_S);
      await visit('kept', 'x', 2);
      t.equal(await days(), 3);
      await visit('kept', 'y', 3);
      t.equal(await days(), 11);
      await client.expire(IDENTITY, 10 * DAY_S + 2 * HOUR_S);
      await visit('visit', 'x', 4);
      t.equal(await days(), 10.1, 'in time');
      // Its sender will not look for an hour.
      await client.expire(IDENTITY, 10 * DAY_S + HOUR_S - 10);
      await visit('visit', 'x', 5);
      t.equal(await days(), 11);
      t.same(await client.hgetall(IDENTITY), { x: '4', y: '1' });
      await client.del(IDENTITY);
      await client.hset(IDENTITY, '', LINK);
      t.same(await visit('kept', 'x', 6), [1, `@${LINK}`]);
    },
  );

  t.test('a profile that is gone, or another one by now: nothing is done', async (t) => {
    await client.hset(IDENTITY, '', LINK);
    await client.hset('{b}:v:s2', '', 'z.other g7');
    let seq = 0;
    for (const generation of ['g2', undefined]) {
      await client.del(PROFILE);
      if (generation !== undefined) await client.hset(PROFILE, 'generation', generation);
      for (const kind of ['visit', 'count', 'read', 'reset']) {
        const operations = [linked(kind, 'x'), linked(kind, 'x', IDENTITY), linked(kind, 'x', '{b}:v:s2')];
        const refused = [1, '!', 2, '!', 3, '@z.other g7'];
        t.same(await batch(operations, { seq: ++seq }), refused, `${kind}: the link comes first`);
      }
    }
    t.same(await left(), [IDENTITY, '{b}:v:s2'].sort());
  });

  t.test('a batch past its deadline is refused and leaves nothing', async (t) => {
    t.equal(await batch([guest('visit', 'x')], { seq: 1, deadline: await clock(-1) }), LUA.EXPIRED);
    t.equal(await batch([guest('read', 'x')], { deadline: await clock(-1_000_000) }), LUA.EXPIRED);
    t.same(await client.keys('*'), [PROFILE]);
    t.same(await batch([guest('count', 'x')], { seq: 1 }), [1, 1], 'its number is free');
    t.same(await batch([guest('count', 'x')], { seq: 1, deadline: await clock(-1) }), [1, 1], 'however late');
  });

  t.test('reads leave no record; records go away by themselves', async (t) => {
    await batch([guest('read', 'x'), ask('peek'), linked('read', 'x')]);
    t.same(await client.keys('*'), [PROFILE]);
    await batch([guest('visit', 'x')], { seq: 1 });
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    t.same((await client.keys('*')).sort(), [LANE, IDENTITY, PROFILE].sort());
    t.equal(await client.ttl(IDENTITY), -1, 'counts stay');
  });

  t.test('512 operations of as many identities are one batch', async (t) => {
    const operations = Array.from({ length: 512 }, (_, i) => guest('count', `p${i % 7}`, `{b}:v:${i}`));
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
  const batch = async (
    operations: readonly (Operation | readonly [kind: string, handle: string])[],
    max = 100,
    mark = 1_000,
  ) => {
    const whole = operations.map((one) =>
      one.length === 2 ? guest(one[0] as string, one[1] as string) : one,
    );
    const handles = whole.filter(([kind]) => kind !== 'read').map((one) => one.at(-1));
    const lines = handles.map((handle) => `p\t${handle}\t\n`).join('');
    const args = [++seq, await clock(10_000), 60, max, 0, LOG, STATE, mark, lines, ...whole.flat()];
    return () => call('visits', [LANE], args);
  };
  /** Number of lines, and lines; each entry has the time at which Redis counted them. */
  const logged = async () =>
    (await client.xrange(LOG, '-', '+')).map(([id, [n, rows, t, time, v, lines]]) => {
      const [at, counted] = [id.split('-')[0], time].map(Number) as [number, number];
      if (`${n}${t}${v}` !== 'ntv' || Math.abs(at - counted) > 10)
        throw new Error(`not an entry: ${id} ${time}`);
      return [rows, lines];
    });

  t.test('what was counted is one entry, and the batch sent again adds none', async (t) => {
    const send = await batch([
      ['visit', 'x'],
      ['read', 'x'],
      ['count', 'y'],
    ]);
    for (let i = 0; i < 3; i++) t.same(await send(), [2, 1, 3, 1]);
    t.same(await logged(), [['2', 'p\tx\t\np\ty\t\n']]);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
  });

  t.test('what was not counted is left out; where nothing was, there is no entry', async (t) => {
    const answers = await (
      await batch(
        [
          ['visit', 'x'],
          ['visit', 'too many'],
          ['count', 'x'],
          ['count', 'too many'],
        ],
        1,
      )
    )();
    t.same(answers, [2, LUA.TOO_MANY, 3, 2, 4, LUA.TOO_MANY]);
    t.same(await logged(), [['2', 'p\tx\t\np\tx\t\n']]);
    await (await batch([['visit', 'too many']], 1))();
    await client.del(IDENTITY);
    await client.hset(IDENTITY, '', 'z.other g1');
    t.same(await (await batch([['visit', 'x']]))(), [1, '@z.other g1'], 'an identity that has a link');
    t.equal((await logged()).length, 1);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
  });

  t.test('at the mark: what fits exactly is logged, one byte more is counted only, and told', async (t) => {
    t.same(await (await batch([['visit', 'x']], 100, 5))(), []);
    t.same(await (await batch([['visit', 'x']], 100, 9))(), [0, 1]);
    t.same(await (await batch([['visit', 'x']], 100, 10))(), []);
    t.same(await client.hgetall(IDENTITY), { x: '3' });
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
    t.equal((await logged()).length, 2);
  });

  t.test(
    "after Redis's clock was set back an entry has the time at which its visits were counted",
    async (t) => {
      await client.xadd(LOG, `${Date.now() + 3_600_000}-0`, 'ahead', '1');
      await (await batch([['visit', 'x']]))();
      const [, [id, fields]] = (await client.xrange(LOG, '-', '+')) as [unknown, [string, string[]]];
      t.ok(Number(id.split('-')[0]) > Number(fields[3]) + 3_000_000, `${id} ${fields}`);
    },
  );

  t.test('a stream that takes no entry keeps nobody from being counted', async (t) => {
    for (const [key, other] of [
      [LOG, STATE],
      [STATE, LOG],
    ] as const) {
      await client.set(key, 'in the way');
      t.same(await (await batch([['count', 'x']]))(), [
        1,
        await client.hget(IDENTITY, 'x').then(Number),
        0,
        1,
      ]);
      t.equal(await client.exists(other), 0);
      await client.del(key);
    }
    t.same(await client.hgetall(IDENTITY), { x: '2' });
  });

  t.test(
    'a visit under a record is logged when it is counted, and not when it is answered again',
    async (t) => {
      await client.hset(PROFILE, 'generation', 'g1');
      const visit = async (id: number, mark = 1_000) =>
        (await batch([once(`{a}:k:${id}`, linked('count', 'x'))], 100, mark))();
      for (let i = 0; i < 2; i++) t.same(await visit(1), [1, 1]);
      t.same(await logged(), [['1', 'p\tx\t\n']]);
      t.same(await visit(2, 9), [1, 2, 0, 1], 'at the mark');
      t.same(await visit(2, 9), [1, 2], 'again');
      t.same(await visit(3, 10), [1, 3]);
      t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
    },
  );
});

t.test('visits.lua, under a record', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'generation', 'g1');
  });
  let seq = 0;
  /** Its answer. */
  const run = async (operation: Operation, max = 100) => {
    const args = [++seq, await clock(10_000), 60, max, 0, '', '', 0, '', ...once(RECORD, operation)];
    const [, answer] = (await call('visits', [LANE], args)) as unknown[];
    return answer;
  };
  const RECORD = '{a}:k:1';
  const visit = linked('count', 'x');

  t.test('counts once, and answers alike', async (t) => {
    for (let i = 0; i < 3; i++) t.equal(await run(visit), 1);
    t.same(await client.hgetall(COUNTS), { x: '1' });
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    t.equal(await client.ttl(COUNTS), -1);
    await client.del(RECORD);
    t.equal(await run(visit), 2, 'another record is another visit');
    await client.del(RECORD);
    t.equal(await run(linked('reset', 'x')), 0);
    await client.hset(COUNTS, 'x', 7);
    t.equal(await run(linked('reset', 'x')), 0, 'and resets once');
    t.same(await client.hgetall(COUNTS), { x: '7' });
  });

  t.test('where its visitor is not, or a retry took it elsewhere: nothing is done', async (t) => {
    for (const generation of ['g2', undefined]) {
      await client.del(PROFILE);
      if (generation !== undefined) await client.hset(PROFILE, 'generation', generation);
      t.equal(await run(visit), '!');
    }
    await client.hset(IDENTITY, '', LINK);
    for (const kind of ['count', 'reset']) t.equal(await run(guest(kind, 'x')), `@${LINK}`);
    t.same((await client.keys('*')).sort(), [LANE, IDENTITY].sort());
    await client.del(IDENTITY);
    t.equal(await run(guest('count', 'x')), 1);
    await client.set(RECORD, '-');
    t.equal(await run(visit), '-', 'fenced, also where the profile is gone');
    t.equal(await client.exists(COUNTS), 0);
  });

  t.test('what was counted here stays counted here, also when the profile is gone later', async (t) => {
    await run(visit);
    await client.del(PROFILE, COUNTS);
    t.equal(await run(visit), 1);
    t.equal(await client.exists(COUNTS), 0);
  });

  t.test('one product too many is refused, leaves no record, and may be asked for again', async (t) => {
    await client.hset(COUNTS, 'y', 1);
    t.equal(await run(visit, 1), LUA.TOO_MANY);
    t.equal(await client.exists(RECORD), 0);
    t.same(await client.hgetall(COUNTS), { y: '1' });
    await client.hdel(COUNTS, 'y');
    t.equal(await run(visit, 1), 1, 'when there is space');
  });
});

t.test('a process remembers each guest whose end was in time for less than an hour', async (t) => {
  const kept = new KeptGuests();
  const ids = Array.from(
    { length: 1_000 },
    (_, i) => `1a.s${createHash('sha1').update(`${i}`).digest('base64url').slice(0, 16)}`,
  );
  const remembered = () => ids.filter((id) => kept.has(id)).length;
  const HOUR_MS = 3_600_000;
  kept.forgetOld(1);
  t.equal(remembered(), 0);
  for (const id of ids.slice(0, 500)) kept.add(id);
  t.ok(remembered() > 490 && remembered() <= 500, `${remembered()}: one of two in a slot is forgotten`);
  kept.forgetOld(HOUR_MS / 2);
  t.ok(remembered() > 490);
  kept.forgetOld(HOUR_MS - 60_000);
  t.equal(remembered(), 0);
});

t.test('a visit in flight when the hour ends does not keep its guest unchecked for another hour', (t) => {
  let now = performance.now();
  t.capture(performance, 'now', () => now);
  const format = visitFormat(createKeys('test'), 100, 86_400);
  const words: (string | number)[] = [];
  const call = new ScriptCall(format.script);
  t.capture(call, 'arg', (word: string | number) => void words.push(word));
  const visit = (): VisitEntry => ({
    ...{ kind: 'visit', handle: 'x', device: null, ...guestPlace('1a.s0123456789abcdef') },
    ...{ deadline: 0, done: () => {}, failed: () => {} },
  });
  const send = () => {
    const batch = [visit()];
    format.encode(batch, call, undefined);
    const sentAs = words.includes('kept') ? 'kept' : 'visit';
    words.length = 0;
    return { sentAs, reply: () => format.decode(batch, [], undefined) };
  };
  const first = send();
  t.equal(first.sentAs, 'visit');
  first.reply();
  const late = send();
  t.equal(late.sentAs, 'kept');
  now += 3_600_000;
  t.equal(send().sentAs, 'visit');
  late.reply();
  t.equal(send().sentAs, 'visit');
  t.end();
});
