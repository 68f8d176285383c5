// lua/visits.lua and lua/visit-once.lua alone: every answer, every error, and the same batch sent again.

import t from 'tap';
import { LUA } from '../../src/errors.js';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{b}:lane';
const IDS = '{b}:ids';
const VISITS = '{b}:v:p';
const MOVED = '{b}:m:p';
const PROFILE = 'b.p';

t.test('visits.lua', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));

  type Operation = [kind: string, identity: string, handle?: string, profile?: string];
  interface Batch {
    readonly seq?: number;
    readonly deadline?: number;
    readonly names?: string;
  }
  /** A batch of operations on one profile. */
  const batch = async (operations: Operation[], { seq = 0, deadline, names = IDS }: Batch = {}) => {
    const keys = [LANE, ...operations.flatMap(() => [names, VISITS])];
    const packed = operations
      .map(
        ([kind, identity, handle = '', profile = PROFILE]) => `${kind}${identity}\n${profile}\n${handle}\n`,
      )
      .join('');
    return call('visits', keys, [seq, deadline ?? (await clock(10_000)), 60, packed]);
  };

  t.test('v counts, c counts and answers, g reads, d resets', async (t) => {
    t.same(await batch([['v', 's:1', 'x']], { seq: 1 }), [], 'as expected: no answer');
    t.equal(await client.exists(IDS), 0, 'a guest who looks around is one key');
    t.same(await batch([['c', 's:1', 'x']], { seq: 2 }), [1, 2]);
    t.same(
      await batch([
        ['g', 's:1', 'x'],
        ['g', 's:1', 'unseen'],
        ['g', 's:unknown', 'x'],
      ]),
      [1, 2, 2, 0, 3, 2],
    );
    t.same(
      await batch(
        [
          ['d', 's:1', 'x'],
          ['d', 's:1', 'unseen'],
        ],
        { seq: 3 },
      ),
      [],
    );
    t.same(await batch([['g', 's:1', 'x']]), [1, 0]);
  });

  t.test(
    'a visitor stays known when its last count goes away, an unknown one does not become it',
    async (t) => {
      await batch([['d', 's:1', 'x']], { seq: 1 });
      t.same(await client.keys('*').then((keys) => keys.filter((key) => key !== LANE)), []);
      await batch([['v', 's:1', 'x']], { seq: 2 });
      t.same(await batch([['p', 's:1']]), [], 'by its count');
      await batch([['d', 's:1', 'x']], { seq: 3 });
      t.equal(await client.exists(VISITS), 0);
      t.same(await batch([['p', 's:1']]), [], 'by its mapping');
    },
  );

  t.test('r makes the mapping and nothing else, p tells whether there is one', async (t) => {
    t.same(await batch([['p', 's:1']]), [1, ''], 'an empty answer: no profile');
    t.same(await client.keys('*'), []);
    t.same(await batch([['r', 's:1']], { seq: 1 }), []);
    t.same(await client.hgetall(IDS), { 's:1': PROFILE });
    t.same(await batch([['p', 's:1']]), []);
    t.equal(await client.exists(VISITS), 0);
  });

  t.test('operations of a batch see those before them, and only those with an answer have one', async (t) => {
    const answers = await batch(
      [
        ['v', 's:1', 'x'],
        ['c', 's:1', 'x'],
        ['d', 's:1', 'x'],
        ['g', 's:1', 'x'],
        ['p', 's:2'],
        ['r', 's:2'],
        ['p', 's:2'],
        ['c', 's:1', 'y'],
      ],
      { seq: 1 },
    );
    t.same(answers, [2, 2, 4, 0, 5, '', 8, 1]);
  });

  t.test(
    'an identity with another profile: its id is answered and nothing is done, whatever was asked',
    async (t) => {
      await client.hset(IDS, 's:1', 'z.other');
      for (const kind of ['v', 'c', 'g', 'd', 'r', 'p']) {
        t.same(await batch([[kind, 's:1', 'x']]), [1, 'z.other'], kind);
      }
      t.same(await client.keys('*'), [IDS]);
    },
  );

  t.test('in capitals: at a foreign profile nothing is mapped, and who left it is sent on', async (t) => {
    const names = MOVED;
    t.same(
      await batch(
        [
          ['V', 's:1', 'x'],
          ['C', 's:1', 'x'],
          ['R', 's:1'],
          ['P', 's:1'],
        ],
        { names },
      ),
      [2, 2],
    );
    t.same(
      await batch(
        [
          ['G', 's:1', 'x'],
          ['D', 's:1', 'x'],
          ['G', 's:1', 'x'],
        ],
        { names },
      ),
      [1, 2, 3, 0],
    );
    t.same(await client.keys('*'), [], 'the last field is gone and its hash with it');
    await client.hset(MOVED, 's:1', 'z.next');
    for (const kind of ['V', 'C', 'G', 'D', 'R', 'P']) {
      t.same(
        await batch(
          [
            [kind, 's:1', 'x'],
            ['C', 's:2', 'y'],
          ],
          { names },
        ).then((a) => (a as unknown[]).slice(0, 2)),
        [1, 'z.next'],
        kind,
      );
    }
  });

  t.test('a profile that was merged away answers its heir, and nothing is done', async (t) => {
    await client.set(VISITS, 'z.heir');
    for (const kind of ['v', 'c', 'g', 'd', 'r', 'p']) {
      await client.hset(IDS, 's:1', PROFILE);
      t.same(await batch([[kind, 's:1', 'x']]), [1, 'z.heir'], kind);
      t.same(
        await batch([[kind.toUpperCase(), 's:1', 'x']], { names: MOVED }),
        [1, 'z.heir'],
        kind.toUpperCase(),
      );
    }
    t.equal(await client.get(VISITS), 'z.heir');
    await client.set(VISITS, '!z.heir');
    t.same(await batch([['v', 's:1', 'x']]), [1, '!z.heir'], 'also while the merge is under way');
  });

  t.test('one operation that fails is its own answer, and its neighbours are done', async (t) => {
    await client.hset(IDS, 's:1', PROFILE);
    await client.hset(VISITS, { text: 'none', full: '9223372036854775807' });
    const operations: Operation[] = [
      ['v', 's:1', 'x'],
      ['v', 's:1', 'text'],
      ['c', 's:1', 'full'],
      ['c', 's:1', 'x'],
    ];
    for (const again of [false, true]) {
      const answer = (await batch(operations, { seq: 1 })) as unknown[];
      t.match(
        answer,
        [2, { message: /not an integer/ }, 3, { message: /overflow/ }, 4, 2],
        again ? 'again' : 'first',
      );
    }
    t.equal(await client.hget(VISITS, 'x'), '2');
  });

  t.test('the same batch sent again answers as the first time and changes nothing', async (t) => {
    const operations: Operation[] = [
      ['c', 's:1', 'x'],
      ['v', 's:1', 'x'],
      ['c', 's:2', 'x'],
      ['g', 's:1', 'x'],
      ['d', 's:1', 'y'],
    ];
    const first = await batch(operations, { seq: 7 });
    t.same(first, [1, 1, 3, 3, 4, 3]);
    for (let i = 0; i < 3; i++) t.same(await batch(operations, { seq: 7 }), first);
    t.same(await client.hgetall(VISITS), { x: '3' });
    t.same(await batch([['c', 's:1', 'x']], { seq: 8 }), [1, 4], 'the next one counts on');
  });

  t.test('a batch without answers is remembered, too', async (t) => {
    for (let i = 0; i < 2; i++) t.same(await batch([['v', 's:1', 'x']], { seq: 1 }), []);
    t.equal(await client.hget(VISITS, 'x'), '1');
  });

  t.test('an older batch of the lane is refused, one of another lane is not', async (t) => {
    await batch([['v', 's:1', 'x']], { seq: 5 });
    t.equal(await batch([['v', 's:1', 'x']], { seq: 4 }), LUA.SUPERSEDED);
    t.equal(await client.hget(VISITS, 'x'), '1');
    const args = [1, await clock(10_000), 60, `cs:1\n${PROFILE}\nx\n`];
    t.same(await call('visits', ['{b}:lane:2', IDS, VISITS], args), [1, 2]);
  });

  t.test('a batch past its deadline is refused and leaves nothing', async (t) => {
    t.equal(await batch([['v', 's:1', 'x']], { seq: 1, deadline: await clock(-1) }), LUA.EXPIRED);
    t.equal(await batch([['g', 's:1', 'x']], { deadline: await clock(-1_000_000) }), LUA.EXPIRED);
    t.same(await client.keys('*'), []);
    t.same(await batch([['c', 's:1', 'x']], { seq: 1 }), [1, 1], 'its number is free');
  });

  t.test('reads leave no record; records go away by themselves', async (t) => {
    await batch([
      ['g', 's:1', 'x'],
      ['p', 's:1'],
    ]);
    t.same(await client.keys('*'), []);
    await batch([['v', 's:1', 'x']], { seq: 1 });
    const ttl = await client.ttl(LANE);
    t.ok(ttl > 50 && ttl <= 60, `${ttl} s`);
    t.same((await client.keys('*')).sort(), [LANE, VISITS].sort());
    t.equal(await client.ttl(VISITS), -1, 'counts stay');
  });

  t.test('512 operations of as many identities are one batch', async (t) => {
    const operations = Array.from({ length: 512 }, (_, i): Operation => ['c', `s:${i}`, `p${i % 7}`]);
    const first = (await batch(operations, { seq: 1 })) as number[];
    t.equal(first.length, 1_024);
    t.same(await batch(operations, { seq: 1 }), first);
  });
});

t.test('visit-once.lua', async (t) => {
  const { client, call } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const RECORD = '{b}:k:1';
  const visit = (own: 0 | 1 = 1, record = RECORD) =>
    call('visit-once', [own ? IDS : MOVED, VISITS, record], ['s:1', PROFILE, 'x', 60]);

  t.test('counts once under its id, and answers alike', async (t) => {
    for (let i = 0; i < 3; i++) t.equal(await visit(), 1);
    t.equal(await visit(1, '{b}:k:2'), 2, 'another id is another visit');
    t.equal(await visit(), 1, 'the first goes on answering as it did');
    t.equal(await client.exists(IDS), 0);
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 50 && ttl <= 60);
  });

  t.test('at a foreign profile, too', async (t) => {
    t.equal(await visit(0), 1);
    t.equal(await client.exists(MOVED), 0);
  });

  t.test(
    'an identity with another profile, or a profile with an heir: its id, and nothing is done',
    async (t) => {
      await client.hset(IDS, 's:1', 'z.other');
      t.equal(await visit(), 'z.other');
      await client.del(IDS);
      await client.set(VISITS, '!z.heir');
      t.equal(await visit(), '!z.heir');
      t.same(await client.keys('*'), [VISITS]);
    },
  );

  t.test(
    'what was counted here stays counted here, also when the profile is merged away later',
    async (t) => {
      await visit();
      await client.set(VISITS, 'z.heir');
      t.equal(await visit(), 1);
    },
  );
});
