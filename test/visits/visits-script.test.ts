// lua/visits.lua and lua/visit-once.lua alone: a visit is counted where its visitor is, once, and logged as it is counted; every
// answer and error, and what is left in Redis afterwards.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{b}:lane';
/** Of a session, and its default profile. */
const [IDENTITY, OWN] = ['{b}:v:s1', '{b}:p:s1'];
const COUNTS = '{a}:r:linked';
const PROFILE = '{a}:p:linked';
/** A link to PROFILE. */
const LINK = 'a.linked g1';

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
  }
  const guest = (kind: string, handle: string, at = IDENTITY) => `${kind}${at}\n${handle}\n`;
  const ask = (kind: 'p' | 'r', at = IDENTITY) => `${kind}${at}\n\n`;
  /** Of a linked profile; with an identity whose link is checked. */
  const linked = (kind: string, handle: string, at = '') =>
    `${kind}${COUNTS}\n${handle}\n${at}\n${at === '' ? '' : LINK}\n${PROFILE}\ng1\n`;

  const batch = async (operations: readonly string[], options: Batch = {}) => {
    const { seq = 0, deadline = await clock(10_000), lane = LANE, max = 100 } = options;
    return call('visits', [lane], [seq, deadline, 60, max, 0, operations.join('')]);
  };
  /** All keys but the lane, and the linked profile. */
  const left = async () => (await client.keys('*')).filter((key) => key !== LANE && key !== PROFILE).sort();

  t.test('of a guest: v counts, c counts and answers, g reads, d resets', async (t) => {
    t.same(await batch([guest('v', 'x')], { seq: 1 }), [], 'done, and nothing to say');
    t.same(await left(), [IDENTITY], 'a guest who looks around is one key');
    t.same(await batch([guest('c', 'x')], { seq: 2 }), [1, 2]);
    t.same(await batch([guest('g', 'x'), guest('g', 'unseen')]), [1, 2, 2, 0]);
    t.same(await batch([guest('d', 'x'), guest('d', 'unseen')], { seq: 3 }), []);
    t.same(await batch([guest('g', 'x')]), [1, 0]);
  });

  t.test('a reset that takes the last count keeps its identity known', async (t) => {
    await batch([guest('d', 'x')], { seq: 1 });
    t.same(await left(), [], 'an unknown one does not become known by it');
    await batch([guest('v', 'x'), guest('v', 'y')], { seq: 2 });
    await batch([guest('d', 'x')], { seq: 3 });
    t.same(await left(), [IDENTITY], 'a count is left');
    await batch([guest('d', 'unseen')], { seq: 4 });
    t.same(await left(), [IDENTITY], 'it is left by a reset of nothing');
    await batch([guest('d', 'y')], { seq: 5 });
    t.same(await client.hgetall(OWN), { known: '1' });
    t.same(await batch([ask('p')]), [1, '.']);
  });

  t.test('p reads the link and writes nothing; r makes an unknown identity known', async (t) => {
    t.same(await batch([ask('p')]), [1, '']);
    t.same(await left(), []);
    t.same(await batch([ask('r')], { seq: 1 }), [1, '.']);
    t.same(await batch([ask('r'), ask('p')], { seq: 2 }), [1, '.', 2, '.'], 'again');
    t.same(await left(), [OWN]);
    await client.hset('{b}:v:s2', '', LINK);
    for (const kind of ['p', 'r'] as const) t.same(await batch([ask(kind, '{b}:v:s2')]), [1, LINK], kind);
    t.same(await client.hgetall('{b}:v:s2'), { '': LINK });
    await client.hset('{b}:v:s3', 'x', 1);
    t.same(await batch([ask('p', '{b}:v:s3'), ask('r', '{b}:v:s3')], { seq: 3 }), [1, '.', 2, '.']);
    t.equal(await client.exists('{b}:p:s3'), 0, 'who has counts is known by them');
  });

  t.test('at an identity that has a link nothing is done, and the answer is a redirect', async (t) => {
    await client.hset(IDENTITY, '', LINK);
    for (const [i, kind] of ['v', 'c', 'g', 'd'].entries())
      t.same(
        await batch([guest(kind, 'x'), linked('C', kind)], { seq: i + 1 }),
        [1, `@${LINK}`, 2, 1],
        `${kind}, and its neighbour is done`,
      );
    t.same(await client.hgetall(IDENTITY), { '': LINK });
    t.same(await left(), [IDENTITY, COUNTS].sort());
  });

  t.test('of a linked profile: as of a guest, and no identity is written', async (t) => {
    t.same(await batch([linked('V', 'x'), linked('C', 'x'), linked('G', 'x')], { seq: 1 }), [2, 2, 3, 2]);
    t.same(await left(), [COUNTS]);
    t.same(await batch([linked('D', 'x'), linked('D', 'x'), linked('G', 'x')], { seq: 2 }), [3, 0]);
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
    t.same(await batch([linked('C', 'x', IDENTITY), linked('G', 'x', IDENTITY)], { seq: 1 }), [1, 1, 2, 1]);
    for (const [who, field] of Object.entries(fields).slice(1))
      for (const kind of ['V', 'C', 'G', 'D'])
        t.same(
          await batch([linked(kind, 'x', `{b}:v:${who}`), linked('G', 'x', IDENTITY)]),
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
      const kind = (letter: string) => (where === 'guest' ? letter : letter.toUpperCase());
      const max = 3;
      const seq = where === 'guest' ? 1 : 10;
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
      t.same(await batch([at(kind('c'), '4')], { seq: seq + 4, max }), [1, 1], 'a reset makes space');
    }
    t.same(await batch([guest('c', 'first', '{b}:v:9')], { seq: 20, max: 1 }), [1, 1]);
  });

  t.test('one operation that fails is its own answer, and its neighbours are done', async (t) => {
    await client.hset(IDENTITY, { text: 'none', full: '9223372036854775807' });
    const operations = [guest('v', 'x'), guest('v', 'text'), guest('c', 'full'), guest('c', 'x')];
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
      ...[guest('c', 'x'), guest('v', 'x'), guest('d', 'y'), ask('r', '{b}:v:2')],
      ...[linked('C', 'x'), linked('V', 'x', '{b}:v:s3'), guest('c', 'one more')],
    ];
    const first = await batch(operations, { seq: 7, max: 1 });
    t.same(first, [1, 1, 4, '.', 5, 1, 6, '@z.other g2', 7, LUA.TOO_MANY]);
    const after = await client.hgetall(IDENTITY);
    for (let i = 0; i < 3; i++) t.same(await batch(operations, { seq: 7, max: 1 }), first);
    t.same(await client.hgetall(IDENTITY), after);
    t.same(await client.hgetall(COUNTS), { x: '1' });
    t.same(await batch([guest('c', 'x')], { seq: 8 }), [1, 3], 'the next one counts on');
  });

  t.test('an older batch of the lane is refused, one of another lane is not', async (t) => {
    await batch([guest('v', 'x')], { seq: 5 });
    t.equal(await batch([guest('v', 'x')], { seq: 4 }), LUA.SUPERSEDED);
    t.equal(await client.hget(IDENTITY, 'x'), '1');
    t.same(await batch([guest('c', 'x')], { seq: 1, lane: '{b}:lane:2' }), [1, 2]);
  });

  t.test('a profile that is gone, or another one by now: nothing is done', async (t) => {
    await client.hset(IDENTITY, '', LINK);
    await client.hset('{b}:v:s2', '', 'z.other g7');
    let seq = 0;
    for (const generation of ['g2', undefined]) {
      await client.del(PROFILE);
      if (generation !== undefined) await client.hset(PROFILE, 'generation', generation);
      for (const kind of ['V', 'C', 'G', 'D']) {
        const operations = [linked(kind, 'x'), linked(kind, 'x', IDENTITY), linked(kind, 'x', '{b}:v:s2')];
        const refused = [1, '!', 2, '!', 3, '@z.other g7'];
        t.same(await batch(operations, { seq: ++seq }), refused, `${kind}: the link comes first`);
      }
    }
    t.same(await left(), [IDENTITY, '{b}:v:s2'].sort());
  });

  t.test('a batch past its deadline is refused and leaves nothing', async (t) => {
    t.equal(await batch([guest('v', 'x')], { seq: 1, deadline: await clock(-1) }), LUA.EXPIRED);
    t.equal(await batch([guest('g', 'x')], { deadline: await clock(-1_000_000) }), LUA.EXPIRED);
    t.same(await client.keys('*'), [PROFILE]);
    t.same(await batch([guest('c', 'x')], { seq: 1 }), [1, 1], 'its number is free');
    t.same(await batch([guest('c', 'x')], { seq: 1, deadline: await clock(-1) }), [1, 1], 'however late');
  });

  t.test('reads leave no record; records go away by themselves', async (t) => {
    await batch([guest('g', 'x'), ask('p'), linked('G', 'x')]);
    t.same(await client.keys('*'), [PROFILE]);
    await batch([guest('v', 'x')], { seq: 1 });
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    t.same((await client.keys('*')).sort(), [LANE, IDENTITY, PROFILE].sort());
    t.equal(await client.ttl(IDENTITY), -1, 'counts stay');
  });

  t.test('512 operations of as many identities are one batch', async (t) => {
    const operations = Array.from({ length: 512 }, (_, i) => guest('c', `p${i % 7}`, `{b}:v:${i}`));
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
    const operations = kinds.map(([kind, handle]) => `${kind}${IDENTITY}\n${handle}\n`).join('');
    const lines = kinds.filter(([kind]) => kind !== 'g').map(([, handle]) => `p\t${handle}\t\n`);
    const args = [++seq, await clock(10_000), 60, max, 0, operations, LOG, STATE, mark, lines.join('')];
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
      ['v', 'x'],
      ['g', 'x'],
      ['c', 'y'],
    ]);
    for (let i = 0; i < 3; i++) t.same(await send(), [2, 1, 3, 1]);
    t.same(await logged(), [['2', 'p\tx\t\np\ty\t\n']]);
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
    t.same(await logged(), [['2', 'p\tx\t\np\tx\t\n']]);
    await (await batch([['v', 'too many']], 1))();
    await client.del(IDENTITY);
    await client.hset(IDENTITY, '', 'z.other g1');
    t.same(await (await batch([['v', 'x']]))(), [1, '@z.other g1'], 'an identity that has a link');
    t.equal((await logged()).length, 1);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
  });

  t.test('at the mark: what fits exactly is logged, one byte more is counted only, and told', async (t) => {
    t.same(await (await batch([['v', 'x']], 100, 5))(), []);
    t.same(await (await batch([['v', 'x']], 100, 9))(), [0, 1]);
    t.same(await (await batch([['v', 'x']], 100, 10))(), []);
    t.same(await client.hgetall(IDENTITY), { x: '3' });
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
    t.equal((await logged()).length, 2);
  });

  t.test(
    "after Redis's clock was set back an entry has the time at which its visits were counted",
    async (t) => {
      await client.xadd(LOG, `${Date.now() + 3_600_000}-0`, 'ahead', '1');
      await (await batch([['v', 'x']]))();
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
      t.same(await (await batch([['c', 'x']]))(), [1, await client.hget(IDENTITY, 'x').then(Number), 0, 1]);
      t.equal(await client.exists(other), 0);
      await client.del(key);
    }
    t.same(await client.hgetall(IDENTITY), { x: '2' });
  });

  t.test('visit-once.lua: as in a batch', async (t) => {
    const once = async (record: string, mark = 1_000) => {
      const args = [await clock(10_000), 'x', 60, 100, '', 'g1', 1, 0, LOG, STATE, mark, 'p\tx\t\n'];
      await client.hset(PROFILE, 'generation', 'g1');
      return call('visit-once', [COUNTS, PROFILE, record], args);
    };
    for (let i = 0; i < 2; i++) t.equal(await once('{a}:k:1'), 1);
    t.same(await logged(), [['1', 'p\tx\t\n']]);
    t.same(await once('{a}:k:2', 9), [2, 1], 'at the mark');
    t.equal(await once('{a}:k:2', 9), 2, 'again');
    t.equal(await once('{a}:k:3', 10), 3);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
    await client.del(LOG);
    await client.set(LOG, 'in the way');
    t.same(await once('{a}:k:4'), [4, 1]);
    t.same(await client.hgetall(STATE), { events: '2', bytes: '10' });
  });
});

t.test('visit-once.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'generation', 'g1');
  });
  const RECORD = '{a}:k:1';
  const visit = async (record = RECORD, { handle = 'x', deadline = 0, max = 100 } = {}) => {
    const args = [deadline || (await clock(10_000)), handle, 60, max, '', 'g1', 1, 0];
    return call('visit-once', [COUNTS, PROFILE, record], args);
  };
  const guestVisit = async (record = RECORD) => {
    const args = [await clock(10_000), 'x', 60, 100, '', '', 1, 0];
    return call('visit-once', [IDENTITY, OWN, record, IDENTITY], args);
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

  t.test('where its visitor is not, or a retry took it elsewhere: nothing is done', async (t) => {
    for (const generation of ['g2', undefined]) {
      await client.del(PROFILE);
      if (generation !== undefined) await client.hset(PROFILE, 'generation', generation);
      t.equal(await visit(), '!');
    }
    await client.hset(IDENTITY, '', LINK);
    t.equal(await guestVisit(), `@${LINK}`);
    t.same(await client.keys('*'), [IDENTITY]);
    await client.del(IDENTITY);
    t.equal(await guestVisit(), 1);
    await client.set(RECORD, '-');
    t.equal(await visit(), '-', 'fenced, also where the profile is gone');
    t.equal(await client.exists(COUNTS), 0);
  });

  t.test('what was counted here stays counted here, also when the profile is gone later', async (t) => {
    await visit();
    await client.del(PROFILE, COUNTS);
    t.equal(await visit(), 1);
    t.equal(await client.exists(COUNTS), 0);
  });

  t.test('one product too many is refused, leaves nothing, and may be asked for again', async (t) => {
    t.equal(await visit(RECORD, { max: 1 }), 1);
    t.equal(await visit('{a}:k:2', { handle: 'y', max: 1 }), LUA.TOO_MANY);
    t.same((await client.keys('*')).sort(), [PROFILE, RECORD, COUNTS].sort());
    t.same(await client.hgetall(COUNTS), { x: '1' });
    t.equal(await visit('{a}:k:3', { max: 1 }), 2, 'a known product counts');
    await client.hdel(COUNTS, 'x');
    t.equal(await visit('{a}:k:2', { handle: 'y', max: 1 }), 1, 'when there is space');
  });

  t.test('past its deadline nothing is done', async (t) => {
    t.equal(await visit(RECORD, { deadline: await clock(-1) }), LUA.EXPIRED);
    t.same(await client.keys('*'), [PROFILE]);
  });
});
