// POST, GET and DELETE /product/visit: what they answer and what they count.

import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';

const PATH = '/product/visit';

const visitOf = (sessionId: string, productHandle = 'red-shoe') => ({
  identity: { sessionId },
  productHandle,
});

async function countOf(app: TestApp, sessionId: string, productHandle = 'red-shoe'): Promise<number> {
  const answer = await app.get(withQuery(PATH, { sessionId, productHandle }));
  return answer.json.count;
}

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);

  t.test('a visit is counted, read and reset, with exactly the bodies of the contract', async (t) => {
    const posted = await app.post(PATH, visitOf('guest-1'));
    t.equal(posted.status, 200);
    t.equal(posted.headers['content-type'], 'application/json');
    const { profileId } = posted.json;
    t.match(profileId, /^[0-9a-z]+\.s[A-Za-z0-9_-]{16}$/);
    t.same(posted.json, { profileId, productHandle: 'red-shoe' });

    const query = withQuery(PATH, { sessionId: 'guest-1', productHandle: 'red-shoe', device: 'desktop' });
    t.match(await app.get(query), {
      status: 200,
      text: `{"profileId":"${profileId}","productHandle":"red-shoe","count":1}`,
    });
    await app.post(PATH, visitOf('guest-1'));
    t.same((await app.get(query)).json, { profileId, productHandle: 'red-shoe', count: 2 });
    t.equal(await countOf(app, 'guest-1', 'blue-shoe'), 0, 'another product has its own count');

    const reset = await app.del(PATH, visitOf('guest-1'));
    t.equal(reset.status, 200);
    t.same(reset.json, { profileId, productHandle: 'red-shoe' });
    t.same((await app.get(query)).json, { profileId, productHandle: 'red-shoe', count: 0 });
    t.equal((await app.del(PATH, visitOf('guest-1'))).status, 200, 'resetting what is 0 is no error');
  });

  t.test('?count=true answers the count after this visit, any other value does not', async (t) => {
    const { profileId } = (await app.post(PATH, visitOf('guest-2'))).json;
    const counted = await app.post(`${PATH}?count=true`, visitOf('guest-2'));
    t.same(counted.json, { profileId, productHandle: 'red-shoe', count: 2 });
    for (const value of ['false', '1', '', 'TRUE']) {
      t.same((await app.post(`${PATH}?count=${value}`, visitOf('guest-2'))).json, {
        profileId,
        productHandle: 'red-shoe',
      });
    }
  });

  t.test('DELETE takes the same names from the query where a proxy dropped the body', async (t) => {
    await app.post(PATH, visitOf('guest-3'));
    await app.post(PATH, visitOf('guest-3', 'kept'));
    const reset = await app.del(withQuery(PATH, { sessionId: 'guest-3', productHandle: 'red-shoe' }));
    t.match(reset, { status: 200, json: { productHandle: 'red-shoe' } });
    t.equal(await countOf(app, 'guest-3'), 0);
    t.equal(await countOf(app, 'guest-3', 'kept'), 1);
  });

  t.test('DELETE believes its body where it has both', async (t) => {
    await app.post(PATH, visitOf('guest-4'));
    await app.post(PATH, visitOf('guest-5'));
    await app.del(withQuery(PATH, { sessionId: 'guest-4', productHandle: 'red-shoe' }), visitOf('guest-5'));
    t.equal(await countOf(app, 'guest-4'), 1);
    t.equal(await countOf(app, 'guest-5'), 0);
  });

  t.test(
    "a guest's first visit writes one key: how often, and on which day; whose it is, its name tells",
    async (t) => {
      const app = await startApp(t, redis, { env: { VISIT_LOG: 'off' } });
      const before = await dumpRedis(redis, app.prefix);
      const { profileId } = (await app.post(PATH, visitOf('first', 'p'))).json;
      const door = createKeys(app.prefix).door(profileId);
      const { [door]: written, ...others } = await dumpRedis(redis, app.prefix);
      t.same(others, before);
      t.same(Object.keys(written as object).sort(), ['', 'p']);
      t.match(written, { p: '1', '': /^\d+$/ });
    },
  );

  t.test(
    'reading an unknown identity writes nothing, and names the profile that its first write gets',
    async (t) => {
      const before = await dumpRedis(redis, app.prefix);
      const unknown = [
        [{ sessionId: 'unseen-s' }, { sessionId: 'unseen-s' }],
        [{ customerId: '9001' }, { customerId: '9001' }],
        [
          { customerId: 'unseen-c', sessionId: 'unseen-cs' },
          { customerId: 'unseen-c', sessionId: 'unseen-cs' },
        ],
      ] as const;
      const read = await Promise.all(
        unknown.map(([names]) => app.get(withQuery(PATH, { ...names, productHandle: 'x' }), TRUSTED)),
      );
      t.same(await dumpRedis(redis, app.prefix), before);
      for (const [i, [, identity]] of unknown.entries()) {
        const written = await app.post(PATH, { identity, productHandle: 'x' }, TRUSTED);
        t.same(read[i]?.json, { ...written.json, count: 0 });
      }
    },
  );

  t.test('a reset of an unknown visitor answers the profile id that a read names', async (t) => {
    const { profileId } = (await app.get(withQuery(PATH, { sessionId: 'reset-only', productHandle: 'x' })))
      .json;
    t.equal((await app.del(PATH, visitOf('reset-only', 'x'))).json.profileId, profileId);
  });

  t.test('ids and handles that are names of things are just names', async (t) => {
    const names = [
      '__proto__',
      'constructor',
      'hasOwnProperty',
      '{x}',
      '{}',
      '*',
      '[a-z]',
      '?',
      'a:b',
      "o'clock",
      '"quoted"',
      'back\\slash',
      'two words',
      '../../etc/passwd',
      '%00',
      '%s',
      'a&b=c#d',
      'İstanbul',
      'ünïcödé',
      '日本語',
      '😀',
      '\u202eright-to-left',
      '0x10',
      '1e3',
      '-0',
      'x'.repeat(255),
      '😀'.repeat(63),
    ];
    for (const name of names) {
      const posted = await app.post(PATH, visitOf(name, name));
      t.match(posted, { status: 200, json: { productHandle: name } }, name.slice(0, 20));
      t.equal(await countOf(app, name, name), 1, 'counted under its own name only');
    }
    const profiles = await Promise.all(
      names.map((name) => app.get(withQuery(PATH, { sessionId: name, productHandle: 'x' }))),
    );
    t.equal(
      new Set(profiles.map(({ json }) => json.profileId)).size,
      names.length,
      'each is another visitor',
    );
  });

  t.test('a gid and its digits are one identity, and blanks around an id are not part of it', async (t) => {
    const same = [
      '4711',
      'gid://shopify/Customer/4711',
      ' 4711 ',
      '\t4711\n',
      ' gid://shopify/Customer/4711',
    ];
    const profiles = new Set<string>();
    for (const customerId of same) {
      profiles.add(
        (await app.post(PATH, { identity: { customerId }, productHandle: 'gid' }, TRUSTED)).json.profileId,
      );
    }
    t.equal(profiles.size, 1);
    const read = await app.get(withQuery(PATH, { customerId: '4711', productHandle: 'gid' }), TRUSTED);
    t.equal(read.json.count, same.length);
  });

  t.test('an id that only looks like a gid is taken as it is', async (t) => {
    const different = [
      'gid://shopify/Customer/47x',
      'gid://shopify/Customer/',
      'gid://other/Customer/4711',
      '04711',
      '4711',
    ];
    const profiles = await Promise.all(
      different.map((customerId) => app.get(withQuery(PATH, { customerId, productHandle: 'x' }), TRUSTED)),
    );
    t.equal(new Set(profiles.map(({ json }) => json.profileId)).size, different.length);
  });

  t.test('a customer and a session of the same name are two visitors', async (t) => {
    const [customer, session] = await Promise.all([
      app.post(PATH, { identity: { customerId: 'same' }, productHandle: 'x' }, TRUSTED),
      app.post(PATH, { identity: { sessionId: 'same' }, productHandle: 'x' }, TRUSTED),
    ]);
    t.not(customer.json.profileId, session.json.profileId);
  });

  t.test('2,000 visits at once count 2,000', async (t) => {
    await Promise.all(Array.from({ length: 2_000 }, () => app.post(PATH, visitOf('crowd'))));
    t.equal(await countOf(app, 'crowd'), 2_000);
  });

  t.test('2,000 counted visits at once over two servers answer 1 to 2,000, each once', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix });
    const answers = await Promise.all(
      Array.from({ length: 2_000 }, (_, i) =>
        (i % 2 ? app : second).post(`${PATH}?count=true`, visitOf('crowd-2')),
      ),
    );
    const counts = answers.map(({ json }) => json.count).sort((a, b) => a - b);
    t.same(
      counts,
      Array.from({ length: 2_000 }, (_, i) => i + 1),
    );
  });

  t.test('many visitors at once: each profile has its own counts', async (t) => {
    const visits = Array.from({ length: 1_000 }, (_, i) => visitOf(`many-${i % 100}`, `p-${i % 4}`));
    const answers = await Promise.all(visits.map((visit) => app.post(`${PATH}?count=true`, visit)));
    t.ok(answers.every(({ status }) => status === 200));
    // i % 4 is fixed by i % 100, so each visitor looked at one product ten times.
    const counts = await Promise.all(
      Array.from({ length: 100 }, (_, i) => countOf(app, `many-${i}`, `p-${i % 4}`)),
    );
    t.same(counts, new Array(100).fill(10));
  });

  t.test('two servers name the same profile, another deployment another one', async (t) => {
    await assertSameProfile(t, app, await startApp(t, redis, { prefix: app.prefix }), true);
    await assertSameProfile(t, app, await startApp(t, redis), false);
  });
});

async function assertSameProfile(t: Test, a: TestApp, b: TestApp, same: boolean): Promise<void> {
  const [one, other] = await Promise.all([a, b].map((app) => app.post(PATH, visitOf('shared'))));
  t.equal(one?.json.profileId === other?.json.profileId, same);
}
