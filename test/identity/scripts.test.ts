// The scripts of identities alone: own, link, join, facts; the steps of a merge (take, give, finish, restore);
// and of an erasure (erase, erase-guest, clear). What is asked for again changes nothing more, and at a profile that is gone, or
// another one by now, nothing is done.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

type Four = [string, string, string, string];

const ofProfile = (slot: string, name: string) => (kind: string) => `{${slot}}:${kind}:${name}`;
const from = ofProfile('a', 'from');
const into = ofProfile('b', 'into');
/** Of a guest whose default profile is another visitor's. */
const home = ofProfile('a', 'home');
const [IDENTITY, COUNTS, PROFILE, ITEMS, MEMBERS] = ['v', 'r', 'p', 'i', 'g'].map(from) as [string, ...Four];
const JOURNAL = ['jr', 'ji', 'jp', 'jg'].map(from) as Four;
/** Of the first generation. */
const ERASED = '{a}:e:g1';
const TARGET = 'b.into g2 n1';
const [LINK, TO_TARGET, UNFINISHED] = ['a.from g1', 'b.into g2', 'b.into g2 !n1'];

t.test('scripts of identities', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const keys = async () => (await client.keys('*')).sort();
  const now = () => clock(10_000);
  const lives = async (key: string) => {
    const ttl = await client.ttl(key);
    t.ok(ttl > 0 && ttl <= 60, `${key}: ${ttl} s`);
  };
  const link = async (before: string, after: string, ...homes: string[]) =>
    call('link', [IDENTITY, PROFILE, ...homes], [await now(), before, after, ...homes.map(() => 60)]);
  const own = async (generation = 'g1') =>
    call(
      'own',
      [IDENTITY, COUNTS, PROFILE, MEMBERS, `{a}:e:${generation}`, IDENTITY, ITEMS],
      [await now(), generation, `a.from ${generation}`, 'c:1', '', 's:1'],
    );
  const join = async (member: string, nonce = '', generation = 'g2') =>
    call('join', [into('p'), into('g')], [await now(), generation, member, nonce]);
  const moved = (counts: string) =>
    [counts, ITEMS, PROFILE, MEMBERS].flatMap((key, i) => [key, JOURNAL[i] as string]);
  const take = async (generation = '', owner = 'c:1') =>
    call(
      'take',
      [IDENTITY, PROFILE, MEMBERS, ...moved(generation === '' ? IDENTITY : COUNTS)],
      [await now(), generation, TARGET, UNFINISHED, 's:1', generation === '' ? '' : owner],
    );
  const give = async (kind: string, to: string, ...page: (string | number)[]) =>
    call(
      'give',
      [into('p'), to, into('x'), into('g')],
      [
        await now(),
        'g2',
        'a.from',
        kind,
        60,
        'nonce',
        kind === 'v' ? 'added' : 'united',
        kind === 'i' ? 'itemBytes' : '',
        ...page,
      ],
    );
  const finish = async (target = TARGET) =>
    call('finish', [IDENTITY, PROFILE, ...JOURNAL], [await now(), target, UNFINISHED, TO_TARGET]);

  t.test('past its deadline no script does anything', async (t) => {
    const cases: readonly [name: string, keys: readonly string[], args: readonly (string | number)[]][] = [
      ['own', [IDENTITY, COUNTS, PROFILE, MEMBERS, ERASED, IDENTITY], ['g1', LINK, 'c:1', '', 's:1']],
      ['link', [IDENTITY, PROFILE], ['', LINK]],
      ['join', [into('p'), into('g')], ['g2', 's:1', '']],
      ['facts', [PROFILE, MEMBERS], ['', 'g1', 0, 'now', '', '', 'email', 'a@b']],
      ['take', [IDENTITY, PROFILE, MEMBERS, ...moved(IDENTITY)], ['', TARGET, UNFINISHED, 's:1']],
      [
        'give',
        [into('p'), into('r'), into('x'), into('g')],
        ['g2', 'a.from', 'v', 60, 'nonce', 'added', '', 'x', 3],
      ],
      ['finish', [IDENTITY, PROFILE, ...JOURNAL], [TARGET, UNFINISHED, TO_TARGET]],
      ['restore', [IDENTITY, PROFILE, MEMBERS, ...moved(IDENTITY)], [TARGET, LINK, 0]],
      ['erase', [PROFILE, MEMBERS, from('zg'), ERASED], ['g1', 60, '']],
      ['erase-guest', [IDENTITY, PROFILE, MEMBERS], ['', '']],
      ['clear', [IDENTITY, PROFILE, ...JOURNAL], [TARGET, TO_TARGET]],
      ['pending', [from('pending')], ['begin', 'merge']],
    ];
    const there = {
      [IDENTITY]: { x: '1' },
      [PROFILE]: { generation: 'g1', owner: 's:1' },
      [into('p')]: { generation: 'g2' },
    };
    for (const [key, fields] of Object.entries(there)) await client.hset(key, fields);
    for (const [name, keys, args] of cases)
      t.equal(await call(name, keys, [await clock(-1), ...args]), LUA.EXPIRED, name);
    t.same(await keys(), Object.keys(there).sort());
    for (const [key, fields] of Object.entries(there)) t.same(await client.hgetall(key), fields);
  });

  t.test('link: a compare-and-set, also when sent again', async (t) => {
    t.equal(await link(LINK, TO_TARGET), 0, 'there is none yet');
    for (let i = 0; i < 2; i++) t.equal(await link('', LINK), 1);
    t.equal(await link('', TO_TARGET), 0);
    for (let i = 0; i < 2; i++) t.equal(await link(LINK, TO_TARGET), 1);
    t.same(await client.hgetall(IDENTITY), { '': TO_TARGET });
    t.equal(await link(TO_TARGET, ''), 1);
    t.same(await keys(), []);
    for (const key of [IDENTITY, PROFILE]) {
      await client.flushall();
      await client.hset(key, 'x', 1);
      t.equal(await link('', LINK), 0, 'a guest is not unknown');
    }
  });

  t.test("own: a guest's counts become the profile's, in one step, and do not end", async (t) => {
    await client.hset(IDENTITY, { x: 3, y: 1 });
    await client.hset(ITEMS, '1:', 'an item');
    for (const key of [IDENTITY, ITEMS]) await client.expire(key, 50);
    for (let i = 0; i < 2; i++) t.equal(await own(), LINK);
    t.same(await client.hgetall(COUNTS), { x: '3', y: '1' });
    t.same(await client.hgetall(IDENTITY), { '': LINK });
    t.same(await client.hgetall(PROFILE), { owner: 'c:1', generation: 'g1' });
    t.same(await client.hgetall(MEMBERS), { 's:1': '' }, 'the owner is one by itself');
    for (const key of [COUNTS, ITEMS]) t.equal(await client.ttl(key), -1);
    t.equal(await own('g3'), LINK, 'it has one already');
    await client.hset(IDENTITY, '', TO_TARGET);
    t.equal(await own(), LINK, 'it is done, though the identity has gone elsewhere since');
    t.equal(await own('g3'), TO_TARGET);
  });

  t.test(
    'own: an unknown identity becomes known; a generation that was erased does not come back',
    async (t) => {
      await client.set(ERASED, 'g1');
      t.equal(await own(), '');
      t.same(await keys(), [ERASED]);
      t.equal(await own('g3'), 'a.from g3');
      t.same(await client.hgetall(PROFILE), { owner: 'c:1', generation: 'g3' });
      await client.del(PROFILE);
      t.equal(await own('g3'), '', 'a dead link is none');
    },
  );

  t.test('link, own: a guest whose default profile is another visitor’s', async (t) => {
    for (const taken of [{ generation: 'g0' }, { target: TARGET }, { target: `!${TARGET}` }]) {
      await client.flushall();
      await client.hset(PROFILE, taken);
      t.equal(await own(), '', 'it is not given to anybody else');
      for (let i = 0; i < 2; i++) t.equal(await link('', 'a.home', home('p')), 1);
      t.equal(await link('', LINK), 0, 'it is known from now on');
      for (const key of [IDENTITY, home('p')]) t.ok((await client.ttl(key)) >= 60, `${key} ends`);
      t.equal(await link('a.home', TO_TARGET), 1);
      t.equal(await client.ttl(IDENTITY), -1, 'a link does not');
      await client.hset(IDENTITY, '', 'a.home');
      await client.expire(IDENTITY, 60);
      await client.hset(home('v'), 'x', 2);
      const keys = [IDENTITY, home('r'), home('p'), home('g'), ERASED, home('v')];
      const args = [await now(), 'g1', 'a.home g1', 'c:1', 'a.home', 's:1'];
      for (let i = 0; i < 2; i++) t.equal(await call('own', keys, args), 'a.home g1');
      t.same(await client.hgetall(home('r')), { x: '2' });
      t.equal(await client.ttl(IDENTITY), -1);
      t.equal(await link('a.home g1', ''), 1);
      t.equal(await link('', 'a.home', home('p')), 0, 'this one is a customer’s, too');
      t.equal(await link('', TO_TARGET), 1, 'it was unknown');
    }
  });

  t.test('join: a profile that is gone has no members', async (t) => {
    t.equal(await join('s:1'), 0);
    t.same(await keys(), []);
    await client.hset(into('p'), 'generation', 'g2');
    t.equal(await join('s:1', '', 'g1'), 0);
    for (const nonce of ['', 'n1', '']) t.equal(await join('a.from', nonce), 1);
    t.same(await client.hgetall(into('g')), { 'a.from': 'n1' }, 'a merge that is applied stays so');
  });

  t.test('facts: what is given is kept, the rest stays; only where the visitor is', async (t) => {
    const keep = async (seen: string, generation: string, day: string, digest: string, ...facts: string[]) =>
      call(
        'facts',
        [PROFILE, MEMBERS, ...(seen === 'unchecked' ? [] : [IDENTITY])],
        [await now(), seen === 'unchecked' ? '' : seen, generation, 0, day, digest, 's:s', ...facts],
      );
    await client.hset(PROFILE, 'known', '1');
    t.equal(await keep('', '', 'day 1', '@d', 'email', 'a@b', 'device', 'desktop'), 1);
    const first = { createdAt: 'day 1', updatedAt: 'day 1', email: 'a@b', device: 'desktop' };
    t.same(await client.hgetall(PROFILE), first);
    t.same(await client.hgetall(MEMBERS), { '@d': 's:s' });
    t.equal(await keep('', '', 'day 2', '', 'email', 'c@d'), 1);
    t.same(await client.hgetall(PROFILE), { ...first, updatedAt: 'day 2', email: 'c@d' });
    await client.hset(IDENTITY, '', LINK);
    t.equal(await keep('', '', 'day 3', '', 'email', 'late@b'), `@${LINK}`);
    for (const seen of [LINK, 'unchecked'])
      t.equal(await keep(seen, 'g1', 'day 3', '', 'email', 'late@b'), '!');
    t.equal(await client.hget(PROFILE, 'email'), 'c@d');
    await client.hset(PROFILE, 'generation', 'g1');
    t.equal(await keep('unchecked', 'g1', 'day 3', '', 'email', 'e@f'), 1);
  });

  t.test('take: what a guest has goes aside, and the link says that it is on its way', async (t) => {
    t.equal(await take(), '', 'an unknown one has nothing');
    await client.hset(IDENTITY, 'x', 3);
    await client.hset(ITEMS, '1:', 'an item');
    await client.hset(PROFILE, 'email', 'a@b');
    for (const key of [IDENTITY, ITEMS, PROFILE]) await client.expire(key, 50);
    for (let i = 0; i < 2; i++) t.equal(await take(), `!${TARGET}`);
    t.same(await client.hgetall(IDENTITY), { '': UNFINISHED });
    t.same(await client.hgetall(PROFILE), { target: `!${TARGET}` });
    const journals = [{ x: '3' }, { '1:': 'an item' }, { email: 'a@b' }, { 's:1': '' }];
    for (const [i, key] of JOURNAL.entries()) {
      t.same(await client.hgetall(key), journals[i]);
      t.equal(await client.ttl(key), -1);
    }
    t.same(await keys(), [IDENTITY, PROFILE, ...JOURNAL].sort());
  });

  t.test('take: a guest with a link has nothing to take; a linked profile goes as it is', async (t) => {
    await client.hset(IDENTITY, '', LINK);
    t.equal(await take(), '');
    await client.hset(PROFILE, { owner: 'c:1', generation: 'g1' });
    await client.hset(COUNTS, 'x', 3);
    await client.hset(MEMBERS, 'c:1', '');
    t.equal(await take(), '');
    t.equal(await take('g0'), '');
    t.equal(await take('g1', 's:1'), '', "it has become a customer's meanwhile");
    t.equal(await take('g1'), `!${TARGET}`);
    t.same(await client.hgetall(IDENTITY), { '': LINK }, 'its link is dead now');
    t.same(await client.hgetall(JOURNAL[0]), { x: '3' });
    t.same(await client.hgetall(JOURNAL[3]), { 'c:1': '' });
  });

  t.test('give: nothing to a profile that is gone', async (t) => {
    t.equal(await give('v', into('r'), 'x', 3), 0);
    await client.hset(into('p'), 'generation', 'g3');
    t.equal(await give('v', into('r'), 'x', 3), 0);
    t.same(await keys(), [into('p')]);
  });

  t.test(
    'give: counts are added once: a page given again, or of a merge that is noted as complete, adds nothing',
    async (t) => {
      await client.hset(into('p'), 'generation', 'g2');
      await client.hset(into('r'), 'x', 2);
      for (const [page, counts] of [
        [['x', 3, 'y', 1], { x: '5', y: '1' }],
        [['x', 3, 'y', 1], { x: '5', y: '1' }],
        [['x', 3, 'y', 1, 'z', 2], { x: '5', y: '1', z: '2' }],
        [['big', '9007199254740991'], { x: '5', y: '1', z: '2', big: '9007199254740991' }],
      ] as const) {
        t.equal(await give('v', into('r'), ...page), 1);
        t.same(await client.hgetall(into('r')), counts);
      }
      await lives(into('x'));
      t.same(await client.hgetall(into('g')), { 'a.from': '' }, 'an erasure of the target knows it');
      await client.hdel(into('r'), 'y');
      await give('v', into('r'), 'y', 1);
      t.equal(await client.hget(into('r'), 'y'), null, 'what the target resets stays so');
      await join('a.from', 'nonce');
      await client.del(into('x'));
      t.equal(await give('v', into('r'), 'x', 3, 'new', 1), 1);
      t.same(await client.hgetall(into('r')), { x: '5', z: '2', big: '9007199254740991' });
    },
  );

  t.test('give: items, facts, members: what the target does not have, once', async (t) => {
    await client.hset(into('p'), 'generation', 'g2');
    const kinds = [
      ['i', into('i'), '1:', 'mine', '2:'],
      ['p', into('p'), 'email', 'mine', 'locale'],
      ['g', into('g'), 'a.both', 'mine', 'a.older'],
    ] as const;
    for (const [kind, key, field, mine, other] of kinds) {
      await client.hset(key, field, mine);
      for (let i = 0; i < 2; i++) t.equal(await give(kind, key, field, 'theirs', other, 'theirs'), 1, kind);
      t.match(await client.hgetall(key), { [field]: mine, [other]: 'theirs' }, kind);
      await client.hdel(key, field, other);
      await give(kind, key, field, 'theirs', other, 'theirs');
      t.same(await client.hmget(key, field, other), [null, null], `${kind}: what went does not come back`);
    }
    await give('v', into('r'), 'color', 1);
    await give('p', into('p'), 'color', 'theirs');
    t.equal(await client.hget(into('p'), 'color'), 'theirs', 'a product may be named as a fact is');
    await client.hset(into('p'), 'itemBytes', 9);
    for (let i = 0; i < 2; i++) await give('i', into('i'), '3:', '1234567');
    t.equal(await client.hget(into('p'), 'itemBytes'), '16');
  });

  t.test('finish: the link leads there, and the journal goes', async (t) => {
    t.equal(await finish(), 0);
    await client.hset(IDENTITY, 'x', 3);
    await take();
    t.equal(await finish('b.into g2 n2'), 0);
    t.equal(await finish(), 1);
    t.same(await client.hgetall(IDENTITY), { '': TO_TARGET });
    t.same(await client.hgetall(PROFILE), { target: TARGET });
    t.equal(await client.ttl(PROFILE), -1, 'the old id goes on resolving');
    t.equal(await client.exists(...JOURNAL), 0);
    t.equal(await finish(), 0, 'again');
  });

  t.test('restore: the guest has again what is in its journal', async (t) => {
    const restore = async (target: string, seen: string) =>
      call(
        'restore',
        [IDENTITY, PROFILE, MEMBERS, ...moved(seen === '' ? COUNTS : IDENTITY)],
        [await now(), target, seen, 60],
      );
    await client.hset(IDENTITY, 'x', 3);
    await client.hset(PROFILE, 'email', 'a@b');
    await take();
    t.equal(await restore(TARGET, UNFINISHED), 0);
    t.equal(await restore(`!${TARGET}`, TO_TARGET), 0);
    t.equal(await restore(`!${TARGET}`, UNFINISHED), 1);
    t.same(await client.hgetall(IDENTITY), { x: '3' });
    t.same(await client.hgetall(PROFILE), { email: 'a@b' });
    t.ok((await client.ttl(IDENTITY)) > 60, 'it ends as a guest does');
    await client.flushall();
    await client.hset(PROFILE, { owner: 'c:1', generation: 'g1' });
    await client.hset(COUNTS, 'x', 3);
    await take('g1');
    await client.expire(JOURNAL[0], 50);
    t.equal(await restore(`!${TARGET}`, ''), 1, 'a linked profile, too');
    t.equal(await client.ttl(COUNTS), -1);
    t.same(await client.hgetall(PROFILE), { owner: 'c:1', generation: 'g1' });
    t.same(await client.hgetall(COUNTS), { x: '3' });
  });

  t.test(
    'erase: one generation, in one step; what leads there stays known until it is gone, too',
    async (t) => {
      const erase = async (generation = 'g1', owner = '') =>
        call(
          'erase',
          [PROFILE, MEMBERS, from('zg'), ERASED, COUNTS, ITEMS],
          [await now(), generation, 60, owner],
        );
      await own();
      await client.hset(PROFILE, 'share', 'code');
      await client.hset(COUNTS, 'x', 1);
      t.equal(await erase('g0'), 0);
      t.equal(await erase('g1', 's:1'), 0, "another owner's");
      t.equal(await erase('g1', 'c:1'), 1);
      t.same(await keys(), [IDENTITY, from('zg'), ERASED].sort());
      t.match(await client.hgetall(from('zg')), { 's:1': '', 'c:1': '', '#code': '', '': /^\d{13}$/ });
      await lives(ERASED);
      t.equal(await erase(), 0, 'again');
    },
  );

  t.test('erase-guest: only who has no link, and gave the address', async (t) => {
    const erase = async (by = '') =>
      call('erase-guest', [IDENTITY, PROFILE, MEMBERS, ITEMS], [await now(), by, '']);
    t.same(await erase(), [0, '']);
    await client.hset(IDENTITY, 'x', 1);
    await client.hset(PROFILE, 'share', 'code');
    t.same(await erase('@d'), [0, '']);
    t.equal(await client.hget(IDENTITY, 'x'), '1');
    await client.hset(MEMBERS, '@d', '');
    t.same(await erase('@d'), [1, 'code']);
    t.same(await keys(), []);
    await client.flushall();
    await client.hset(IDENTITY, '', LINK);
    t.equal(await erase(), `@${LINK}`);
  });

  t.test('clear: only what was merged there', async (t) => {
    const clear = async (target: string) =>
      call('clear', [IDENTITY, PROFILE, ...JOURNAL], [await now(), target, TO_TARGET]);
    for (const seen of [TO_TARGET, UNFINISHED, `${TO_TARGET}3`]) {
      await client.hset(IDENTITY, '', seen);
      await client.hset(PROFILE, 'target', TARGET);
      await client.hset(JOURNAL[0], 'x', 1);
      t.equal(await clear(`!${TARGET}`), 0);
      t.equal(await clear(TARGET), 1);
      t.same(await keys(), seen === `${TO_TARGET}3` ? [IDENTITY] : [], seen);
    }
  });

  t.test('pending: an operation is listed since it first began, until it ends', async (t) => {
    const pending = from('pending');
    const change = async (what: string) => call('pending', [pending], [await now(), what, 'merge 1']);
    await change('begin');
    const [, began] = await client.zrange(pending, '0', '-1', 'WITHSCORES');
    await change('begin');
    t.same(await client.zrange(pending, '0', '-1', 'WITHSCORES'), ['merge 1', began]);
    await change('end');
    t.equal(await client.exists(pending), 0);
  });
});
