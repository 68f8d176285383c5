// POST /profile/guest and /profile/merge; and facts of a visitor (e-mail address, names, device, locale): they are what the
// last request said, on every server and after an erasure, and any text may be one.

import t from 'tap';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { allKeys, dumpRedis } from '../harness/dump.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  const { add, count, erase, event, exported, items, login, share, visit } = app.shop;

  t.test('a merge unites counts and wishlists and says whether it was this call', async (t) => {
    const [session, customer] = [{ sessionId: 'm-1' }, { customerId: '1' }];
    const ids = { ...session, ...customer };
    await visit(session);
    for (let i = 0; i < 2; i++) await visit(customer);
    await add(session, { productId: '5' });
    const identity = { ...ids, email: 'm@example.org' };
    const answer = await app.post('/profile/merge', { identity }, TRUSTED);
    const { profileId } = answer.json;
    t.match(answer, { status: 200, text: JSON.stringify({ profileId, merged: true }) });
    t.same(await login(ids), { profileId, merged: false }, 'twice is once');
    for (const who of [session, customer]) {
      t.equal(await count(who), 3);
      t.match(await items(who), [{ productId: '5' }]);
      t.match(await exported(who), { profileId, profile: { email: 'm@example.org' } });
    }
  });

  t.test('merged at once by two servers it is united once', async (t) => {
    await visit({ sessionId: 'm-4' });
    await visit({ customerId: '4' });
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        (i % 2 ? app : other).shop.login({ sessionId: 'm-4', customerId: '4' }),
      ),
    );
    t.equal(await count({ customerId: '4' }), 2);
  });

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test('a merge of what needs none is none', async (t) => {
    const unknown = await login({ sessionId: 'm-2', customerId: '2' });
    t.match(unknown, { profileId: String, merged: false });
    const { profileId } = await visit({ sessionId: 'm-3' });
    const adopted = await login({ sessionId: 'm-3', customerId: 'gid://shopify/Customer/3' });
    t.same(adopted, { profileId, merged: false }, "the guest's profile becomes the customer's");
    const moved = await login({ sessionId: 'm-3', customerId: '2' });
    t.same(moved, { profileId: unknown.profileId, merged: false }, 'a shared device merges nothing');
  });

  t.test('a guest gets a profile that keeps what is known', async (t) => {
    const names = { firstName: 'G', lastName: 'Uest' };
    const facts = { device: 'desktop', locale: 'de', email: 'g@example.org', ...names };
    const guest = { sessionId: 'g-1', customerId: null };
    const answer = await app.post('/profile/guest', { ...guest, ...facts }, TRUSTED);
    const { profileId } = answer.json;
    t.match(answer, { status: 200, text: JSON.stringify({ profileId }) });
    t.match(await exported({ sessionId: 'g-1' }), { profileId, profile: facts });
    t.equal((await app.post('/profile/guest', guest, TRUSTED)).json.profileId, profileId);
    t.equal((await visit({ sessionId: 'g-1' })).profileId, profileId);
    t.same(await erase({ sessionId: 'g-1' }), { erased: true }, 'it was known');
  });

  t.test('wrong bodies are 400 and change nothing', async (t) => {
    const before = await dumpRedis(redis, app.prefix);
    const guests = [
      { customerId: '5' },
      { sessionId: null, customerId: '5' },
      { sessionId: 'undefined' },
      { sessionId: 'g', email: 'none' },
      { sessionId: 'g', device: 5 },
      { identity: { sessionId: 'g' } },
    ];
    const identities = [
      {},
      { sessionId: 'm' },
      { sessionId: null, customerId: '5' },
      { sessionId: 'm', customerId: 'guest' },
      { sessionId: 'm', customerId: '5', lastName: 'a\nb' },
    ];
    for (const [path, bodies] of [
      ['/profile/guest', guests],
      ['/profile/merge', identities.map((identity) => ({ identity }))],
    ] as const)
      for (const body of [...bodies, undefined, 'null', '{'])
        t.equal((await app.post(path, body, TRUSTED)).status, 400, JSON.stringify(body));
    const none = await app.post('/profile/merge', { identity: {} }, TRUSTED);
    t.same(none.json.issues, [
      { path: '/identity/customerId', message: 'is required' },
      { path: '/identity/sessionId', message: 'is required' },
    ]);
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a visitor who comes back after an erasure has their facts again', async (t) => {
    const email = 'back@facts.example';
    for (const who of [{ sessionId: 'comes-back' }, { customerId: 'comes-back' }])
      for (const by of [app, other]) {
        const identity = { ...who, email, firstName: 'Ann' };
        await event(identity);
        await erase(who);
        await by.shop.event(identity);
        t.match(await exported(who as Record<string, string>), { profile: { email, firstName: 'Ann' } });
        t.match(await exported({ email }), { profile: { firstName: 'Ann' } });
        await erase(who);
      }
  });

  t.test('the last request counts, whichever server had the one before', async (t) => {
    const who = { sessionId: 'two-servers' };
    await event({ ...who, firstName: 'Ann' });
    await other.shop.event({ ...who, firstName: 'Bea' });
    await event({ ...who, firstName: 'Ann' });
    t.equal((await exported(who)).profile.firstName, 'Ann');
  });

  t.test('facts that are named like fields of a profile are facts, through merge and erasure', async (t) => {
    for (const fact of ['share', 'owner', 'heir', 'itemBytes']) {
      const [session, customer] = [{ sessionId: `device-${fact}` }, { customerId: `device-${fact}` }];
      await event({ ...session, device: fact, locale: fact, lastName: fact });
      const { code } = await share(session);
      await visit(customer);
      await share(customer);
      await visit({ ...session, ...customer });
      const found = await exported(customer);
      t.match(found, { profile: { device: fact, lastName: fact } });
      t.ok(found.shares.includes(code));
      t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 200);
      await erase(customer);
      // Before it is asked for: that would remove a key that leads nowhere.
      const keys = await allKeys(redis, app.prefix);
      t.notOk(
        keys.some((key) => key.includes(code)),
        'no key is left',
      );
      t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 404);
    }
  });

  t.test('properties of an item that mean something in JavaScript come back', async (t) => {
    const who = { sessionId: 'proto' };
    const properties = JSON.parse('{"__proto__": 1, "constructor": {"__proto__": "x"}}');
    await add(who, { productHandle: '__proto__', properties });
    await visit(who, '__proto__');
    const found = await exported(who);
    t.same(Object.keys(found.visits), ['__proto__']);
    t.equal(JSON.stringify(found.items[0].properties), JSON.stringify(properties));
    t.equal((await app.get('/product/visit?__proto__=x', TRUSTED)).status, 400);
  });
});
