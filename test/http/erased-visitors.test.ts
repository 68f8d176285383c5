// DELETE and GET /profile: an export has all of a visitor; after the erasure nothing is left in Redis, also at `maxmemory`.

import t from 'tap';
import { Compliance, type OpenRequest } from '../../src/extras/privacy/compliance.js';
import { privacy, privacyWith } from '../../src/extras/privacy/extra.js';
import { eachRedis, KEY, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { LOGGED_OUT, postProxied, SECRET } from '../harness/app-proxy.js';
import { extrasWith } from '../harness/extras.js';
import { connectToEach } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';
import { openStore } from '../harness/store.js';
import { until } from '../harness/until.js';

type Ids = Readonly<Record<string, string>>;
const NOBODY = { status: 404, json: { code: 'not_found' } };
const ERASED = { status: 200, json: { erased: true } };
const RETIRED = { status: 403, json: { code: 'session_retired' } };
/** POST requests that name a session and no customer. */
const NAMING_A_SESSION = Object.entries({
  '/product/visit': { productHandle: 'x' },
  '/product/visit/list': { productHandles: ['x'] },
  '/event': { type: 'add' },
  '/item/add': ITEM,
  '/item/remove': { productId: ITEM.productId },
  '/item/list': {},
  '/item/check': { products: [{ productId: ITEM.productId }] },
  '/item/count': {},
  '/share': {},
  '/profile/guest': { sessionId: 'shared' },
}).map(([path, body]) => [path, JSON.stringify({ identity: { sessionId: 'shared' }, ...body })] as const);

eachRedis(t, async (t, redis) => {
  const env = { SHOPIFY_SECRET: SECRET };
  const extras = extrasWith(privacyWith({ pollMs: 50 }), privacy);
  const app = await startApp(t, redis, { env, extras });
  const other = await startApp(t, redis, { env, extras, prefix: app.prefix });
  const { add, count, erase, exported, login, share, visit } = app.shop;
  const asked = (ids: Ids) => app.get(withQuery('/profile', ids), TRUSTED);
  const erasing = (identity: Ids) => app.del('/profile', { identity }, TRUSTED);

  const traces = (...texts: string[]) => app.traces(...texts);

  t.test('an export has everything of a guest, and an erasure leaves nothing', async (t) => {
    const who = { sessionId: 'guest-of-rights' };
    const email = 'guest@rights.example';
    const identity = { ...who, email, firstName: 'Gu' };
    const keyed = { ...TRUSTED, 'idempotency-key': 'k-1' };
    const first = await app.post('/event', { identity, type: 'add' }, keyed);
    await add(identity);
    const { profileId } = await visit(identity, 'x');
    const { code } = await share(identity);
    t.same((await exported(who)).identities, { customerIds: [], sessionIds: [who.sessionId] });
    t.match(await exported(who), {
      profileId,
      profile: { email, firstName: 'Gu' },
      items: [{ productId: String }],
      visits: { x: 1 },
      shares: [code],
    });
    t.match(await app.del(withQuery('/profile', who), undefined, TRUSTED), ERASED, 'by query as by body');
    t.same(await traces(who.sessionId, profileId, email, code), []);
    t.same(await erase(who), { erased: false }, 'again');
    t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 404);
    t.match(await asked(who), NOBODY);
    t.equal((await other.shop.visit(who)).count, 1, 'a visitor who comes back is new');
    const again = await app.post('/event', { identity, type: 'add' }, keyed);
    t.same(again.json, first.json, 'and a request under a key is answered for a day');
    t.same((await exported(who)).profile, {}, 'and does nothing more');
  });

  t.test('a body and a query that name different visitors are refused, and nothing is erased', async (t) => {
    await visit({ customerId: '77091' });
    const query = (id: string) => withQuery('/profile', { customerId: id });
    const identity = { customerId: '77091' };
    const refused = await app.del(query('77092'), { identity }, TRUSTED);
    t.match(refused, {
      status: 400,
      json: { code: 'invalid_request', issues: [{ in: 'query', path: '/customerId' }] },
    });
    t.equal(await count(identity), 1);
    const bySession = await app.del(withQuery('/profile', { sessionId: 'x' }), { identity }, TRUSTED);
    t.match(bySession, { status: 400, json: { issues: [{ path: '/sessionId' }] } });
    t.match(await app.del(query('gid://shopify/Customer/77091'), { identity }, TRUSTED), ERASED);
    await add({ sessionId: 'mailed-twice', email: 'one@rights.shop' });
    const byEmail = (email: string) =>
      app.del(withQuery('/profile', { email }), { identity: { email: 'one@rights.shop' } }, TRUSTED);
    t.match(await byEmail('two@rights.shop'), { status: 400, json: { issues: [{ path: '/email' }] } });
    t.match(await byEmail(' One@Rights.Shop'), ERASED, 'an address in other letters is the same');
  });

  t.test(
    'an address leads to the customer into whom its visitor was merged, and is erased with that customer',
    async (t) => {
      const session = { sessionId: 'mailed-and-merged' };
      const email = 'merged@rights.example';
      const guest = await add({ ...session, email });
      await visit({ customerId: '77011' });
      const { profileId } = await other.shop.visit({ ...session, customerId: '77011' });
      t.match(await exported({ email }), { profileId, items: [Object] });
      // From here on the device is another customer's; the address stays the first one's.
      await visit({ ...session, customerId: '77012' });
      t.same(await erase({ email }), { erased: true });
      t.same(await erase({ email }), { erased: false });
      t.equal((await visit({ customerId: '77011' })).count, 1);
      t.equal(
        (await visit({ customerId: '77012' })).count,
        2,
        'of the shared device only the one who gave it',
      );
      for (const customerId of ['77011', '77012']) await erase({ customerId });
      t.same(await traces('77011', '77012', email, profileId, guest.profileId), []);
    },
  );

  let devices = 0;
  /** A session that was merged into customer `c`, and is linked to `d` now. */
  const addDevice = async () => {
    const n = ++devices;
    const [session, c, d] = [{ sessionId: `shared-${n}` }, { customerId: `c${n}` }, { customerId: `d${n}` }];
    const { profileId } = await visit(session);
    await add(session);
    const { code } = await share(session);
    t.match(await login({ ...session, ...c }), { merged: true });
    await visit({ ...session, ...c });
    await visit({ ...session, ...d });
    const email = `d${n}@shared.example`;
    await add({ ...session, ...d, email });
    return { session, profileId, c, d, code, email };
  };

  for (const how of ['the customer', 'the session', 'the e-mail address']) {
    if (redis.urls.length > 1 && how !== 'the session') continue;
    t.test(
      `the session of a shared device is retired if an erasure that names ${how} erases its customer`,
      async (t) => {
        const { session, profileId, c, d, code, email } = await addDevice();
        const named = how === 'the customer' ? d : how === 'the session' ? session : { email };
        t.same(await erase(named), { erased: true });
        t.equal(await count(d), 0);
        const before = await app.dump();
        for (const by of [app, other]) {
          for (const [path, body] of NAMING_A_SESSION) {
            const answer = await by.post(
              path,
              JSON.parse(body.replaceAll('shared', session.sessionId)),
              TRUSTED,
            );
            t.match(answer, RETIRED, path);
          }
          const query = withQuery('/product/visit', { ...session, productHandle: 'red-shoe' });
          for (const method of ['GET', 'DELETE'])
            t.match(await by.send(method, query, undefined, TRUSTED), RETIRED, method);
          const visits = [{ identity: session, productHandle: 'x' }];
          const { results } = (await by.post('/product/visit/batch', { visits }, TRUSTED)).json;
          t.match(results, [{ code: 'session_retired' }]);
          t.match(await postProxied(by, '/item/list', LOGGED_OUT, { identity: session }), RETIRED);
          t.match(await by.get(withQuery('/profile', session), TRUSTED), NOBODY);
          t.match(await by.del('/profile', { identity: session }, TRUSTED), { json: { erased: false } });
        }
        t.same(await app.dump(), before, 'nothing is changed');
        const kept = await exported(c);
        t.match(kept, { visits: { 'red-shoe': 2 }, shares: [code], items: { length: 1 } });
        t.same(kept.identities.sessionIds, []);

        const next = { customerId: `next-${session.sessionId}` };
        t.match(await login({ ...session, ...next }), { merged: false });
        t.equal(
          (await other.shop.visit(session)).profileId,
          (await exported(next)).profileId,
          'linked again',
        );
        t.match(await exported(next), { visits: { 'red-shoe': 1 }, items: { length: 0 } });
        t.equal((await postProxied(app, '/item/list', LOGGED_OUT, { identity: session })).status, 403);
        t.same(await erase(next), { erased: true });
        t.match(await other.post('/item/list', { identity: session }, TRUSTED), RETIRED);
        t.equal((await login({ ...session, ...c })).profileId, kept.profileId);
        t.equal(await other.shop.count(session), 2, 'it is the first customer’s again');
        await login({ ...session, ...d });
        await erase(d);

        t.same(await erase(c), { erased: true });
        t.match(await other.shop.visit(session), { count: 1, profileId }, 'then it is a guest again');
        t.same(await erase(session), { erased: true });
        t.same(await traces(session.sessionId, profileId, kept.profileId, code, email), []);
      },
    );
  }

  // The rest are the same steps in other orders.
  if (redis.urls.length > 1) return;

  t.test(
    'a guest who returns after an erasure is merged into the next customer, and erased with that one',
    async (t) => {
      const [session, first, next] = [
        { sessionId: 'erased-once' },
        { customerId: 'first-77' },
        { customerId: 'next-77' },
      ];
      await visit(session);
      await login({ ...session, ...first });
      await erase(first);
      const { profileId } = await visit(session);
      t.match(await other.shop.visit({ ...session, ...next }), { count: 2 });
      t.equal(await count(next), 2);
      await erase(next);
      t.equal(await count(session), 0);
      t.equal((await visit(session)).profileId, profileId);
      await visit(first);
      t.equal((await other.shop.visit({ ...session, ...first })).count, 3, 'merged into a known customer’s');
      await erase(session);
      t.same([await count(first), await count(session)], [0, 0]);
    },
  );

  t.test('an erasure leaves a session that had moved to another customer', async (t) => {
    const [sessionId, first, next] = ['moved-on', '77041', '77042'];
    await visit({ sessionId }, 'before');
    await visit({ customerId: first }, 'at home');
    await visit({ sessionId, customerId: first }, 'before');
    await visit({ sessionId, customerId: next }, 'after');
    t.same(await erase({ customerId: first }), { erased: true });
    t.equal(await count({ sessionId }, 'after'), 1);
    t.equal(await other.shop.count({ sessionId }, 'after'), 1, 'also asked at a server that has not seen it');
  });

  t.test(
    'an erasure by e-mail address erases every visitor for whom it was given, and no other',
    async (t) => {
      const email = 'Shared@Rights.example';
      await add({ sessionId: 'mailed-guest', email });
      await add({ customerId: '77010', email: ' shared@rights.example ' });
      await add({ sessionId: 'mailed-other', email: 'other@rights.example' });
      const found = await exported({ email: 'shared@rights.EXAMPLE' });
      t.match(found, { identities: { customerIds: ['77010'] }, items: [Object] }, 'customers first');
      t.match(found.others, [{ items: [Object], profile: { email } }]);
      const unknown = await app.get('/profile?email=unknown@rights.example', TRUSTED);
      t.match(unknown, { status: 404, json: { code: 'not_found' } });
      t.equal((await app.get('/profile?email=no-address', TRUSTED)).status, 400);
      t.same(await erase({ email }), { erased: true });
      const ids = [found.profileId, found.others[0].profileId];
      t.same(await traces('mailed-guest', '77010', 'hared@', 'HARED@', ...ids), []);
      t.same(await erase({ email }), { erased: false });
      t.match(await exported({ sessionId: 'mailed-other' }), { items: [Object] });
    },
  );

  t.test('an export or an erasure is refused if its ids name different visitors', async (t) => {
    const [one, guest] = [{ customerId: '1' }, { sessionId: 'g-1' }];
    const fill = async () => {
      await visit({ ...one, sessionId: 'of-1' }, 'x');
      await add({ ...one, email: 'one@named.example' });
      await add({ ...guest, email: 'guest@named.example' });
    };
    await fill();
    await visit({ customerId: '2' });
    await add({ sessionId: 'other-guest', email: 'both@named.example' });
    await add({ customerId: '2', email: 'both@named.example' });
    const before = await app.dump();
    for (const ids of [
      { ...one, ...guest },
      { customerId: '2', sessionId: 'of-1' },
      { ...one, email: 'guest@named.example' },
      { ...guest, email: 'one@named.example' },
      { customerId: '2', email: 'both@named.example' },
      { customerId: 'unknown', email: 'both@named.example' },
      { ...one, sessionId: 'of-1', email: 'guest@named.example' },
    ] as Ids[]) {
      const refused = { status: 400, json: { code: 'invalid_request', issues: [{ path: String }] } };
      const query = withQuery('/profile', ids);
      for (const answer of [
        await app.get(query, TRUSTED),
        await erasing(ids),
        await app.del(query, undefined, TRUSTED),
      ])
        t.match(answer, refused, JSON.stringify(ids));
      t.equal((await erasing(ids)).json.issues[0].in, 'body');
      t.equal((await app.get(query, TRUSTED)).json.issues[0].in, 'query');
    }
    t.equal((await app.get('/profile', TRUSTED)).status, 400, 'no visitor is named');
    t.equal((await app.del('/profile', {}, { 'x-api-key': KEY })).status, 400);
    t.same(await app.dump(), before);

    for (const [alone, more] of [
      [one, { sessionId: 'of-1' }],
      [one, { sessionId: 'unknown' }],
      [guest, { customerId: 'no' }],
      [one, { email: 'One@named.example' }],
      [one, { email: 'no@named.example' }],
      [guest, { customerId: 'no', email: 'guest@named.example' }],
    ] as [Ids, Ids][]) {
      const ids = { ...alone, ...more };
      const what = JSON.stringify(ids);
      const { profileId } = await visit(alone, 'x');
      const { code } = await share(alone);
      t.match(await exported(ids), { profileId, shares: [code] }, what);
      t.same([await erase(ids), await erase(ids)], [{ erased: true }, { erased: false }], what);
      for (const one of [alone, ids]) t.match(await asked(one), NOBODY, what);
      await fill();
    }
    const unknown = { customerId: 'no', sessionId: 'unknown' };
    for (const ids of [
      unknown,
      { email: 'no@named.example' },
      { ...unknown, email: 'no@named.example' },
    ] as Ids[])
      t.match(await asked(ids), NOBODY, `${JSON.stringify(ids)} is nobody`);
    const { identities } = await exported({ ...guest, customerId: 'no' });
    t.same(identities, { customerIds: [], sessionIds: ['g-1'] }, 'no unknown id is in the answer');
    t.same(await erase(unknown), { erased: false });
  });

  t.test('erasures and redactions succeed while Redis is at maxmemory', async (t) => {
    const nodes = connectToEach(t, redis.urls);
    const setMaxMemory = (bytes: number) =>
      Promise.all(nodes.map((node) => node.config('SET', 'maxmemory', bytes)));
    t.teardown(() => setMaxMemory(0));
    const refused = async (sessionId: string) => {
      const visit = { identity: { sessionId }, productHandle: 'x' };
      return (await app.post('/product/visit', visit, TRUSTED)).status === 503;
    };

    const addCustomer = async (customerId: string) => {
      const email = `full-${customerId}@rights.example`;
      for (const sessionId of [`full-${customerId}-a`, `full-${customerId}-b`]) {
        await add({ sessionId, email });
        await share({ sessionId });
        const keyed = { ...TRUSTED, 'idempotency-key': sessionId };
        await app.post('/product/visit', { identity: { sessionId, customerId }, productHandle: 'y' }, keyed);
      }
      await visit({ sessionId: `guest-${customerId}` });
      return { customerId, email, guest: `guest-${customerId}` };
    };
    const first = await addCustomer('90001');
    const second = await addCustomer('90002');
    const third = await addCustomer('90003');
    const device = await addDevice();
    const store = await openStore(t, redis, { keyPrefix: app.prefix });
    const compliance = new Compliance(store, (error) => t.fail(error.message));
    await setMaxMemory(1);
    t.ok(await refused('new'), 'Redis takes no writes');
    for (const identity of [
      { customerId: first.customerId },
      { email: second.email },
      { sessionId: first.guest },
      device.session,
    ] as Ids[]) {
      // Next to failing requests in the same batches; with an idempotency key and without.
      const key = { ...TRUSTED, 'idempotency-key': JSON.stringify(identity) };
      const failing = Array.from({ length: 50 }, (_, i) => refused(`fails-${i}`));
      const unknown = Array.from({ length: 50 }, (_, i) => erasing({ sessionId: `unknown-${i}` }));
      const erased = await app.del('/profile', { identity }, key);
      t.match(erased, ERASED, erased.text);
      t.same(new Set(await Promise.all(failing)), new Set([true]));
      for (const { status, json } of await Promise.all(unknown)) t.same([status, json.erased], [200, false]);
    }
    t.same(await traces('full-90001', first.guest, 'full-90002'), []);
    t.match(await asked({ customerId: first.customerId }), NOBODY);

    const shop = { shop_id: 1, shop_domain: 'x.example' };
    const customer = { id: Number(third.customerId), email: third.email };
    const redact = { ...shop, customer, orders_to_redact: [] };
    t.equal((await app.post('/webhook/customers/redact', redact, TRUSTED)).status, 200);
    const isGone = async (who: Ids, handle?: string) => (await count(who, handle)) === 0;
    await until('the customer is erased', () => isGone({ customerId: third.customerId }, 'y'));
    t.equal((await app.post('/webhook/shop/redact', shop, TRUSTED)).status, 200);
    const open = (await compliance.list()).find(({ id }) => id === '2') as OpenRequest;
    t.ok(await compliance.update(open, { ...open.request, confirmedAt: Date.now() }));
    await until('all are', async () => (await traces('full-', 'guest-', 'shared-')).length === 0);
    await setMaxMemory(0);
    t.match(await login({ customerId: third.customerId, sessionId: third.guest }), { merged: false });
    t.match(await visit({ customerId: third.customerId }), { count: 1 }, 'who comes back is new');
  });
});
