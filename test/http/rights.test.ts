// DELETE /profile and GET /profile: what they answer, that nothing is left in Redis of a visitor who was erased, and that ids
// which belong to two visitors are refused.

import t from 'tap';
import { eachRedis, KEY, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { allKeys, dumpRedis } from '../harness/dump.js';
import { itemOf } from './wishlist.js';

type Ids = Readonly<Record<string, string>>;

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  const erase = (identity: Record<string, string>, by = app) => by.del('/profile', { identity }, TRUSTED);
  const read = (query: Record<string, string>) => app.get(withQuery('/profile', query), TRUSTED);
  const visit = async (identity: object, by = app) =>
    (await by.post('/product/visit?count=true', { identity, productHandle: 'x' }, TRUSTED)).json;

  /** What Redis has that tells of one of these texts; streams and what batches were answered last go by themselves. */
  const traces = async (...texts: string[]) => {
    const found: string[] = [];
    const names = (await allKeys(redis, app.prefix)).map((key) => [key, '']);
    for (const [key, value] of [...names, ...Object.entries(await dumpRedis(redis, app.prefix))] as [
      string,
      unknown,
    ][]) {
      if (/:lane:|:(events|visits)(:|$)|:erasures$/.test(key)) continue;
      const whole = `${key} ${JSON.stringify(value)}`;
      // A profile's keys have its bucket and its hash apart.
      if (texts.some((text) => whole.includes(text) || whole.includes(text.slice(text.indexOf('.') + 1))))
        found.push(whole);
    }
    return found;
  };

  t.test('a guest: the export has all of it, and after the erasure nothing is left', async (t) => {
    const identity = { sessionId: 'guest-of-rights', email: 'guest@rights.example', firstName: 'Gu' };
    await app.post('/event', { identity, type: 'add' }, { ...TRUSTED, 'idempotency-key': 'k-1' });
    await app.post('/item/add', itemOf(identity), TRUSTED);
    const { profileId } = await visit(identity);
    const { code } = (await app.post('/share', { identity }, TRUSTED)).json;
    const { sessionId } = identity;
    t.match((await read({ sessionId })).json, {
      profileId,
      identities: { customerIds: [], sessionIds: [sessionId] },
      profile: { email: 'guest@rights.example', firstName: 'Gu' },
      items: [{ productId: String }],
      visits: { x: 1 },
      shares: [code],
    });

    t.same((await erase({ sessionId })).json, { erased: true });
    t.same(await traces(sessionId, profileId, 'guest@rights.example', code), []);
    t.same((await erase({ sessionId })).json, { erased: false }, 'again');
    t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 404);
    t.match((await read({ sessionId })).json, { items: [], visits: {}, shares: [] });
    t.equal((await visit({ sessionId }, other)).count, 1, 'who comes back is new');
  });

  t.test('a customer with merged sessions: all of them, on every server', async (t) => {
    const [first, second] = [{ sessionId: 'first-of-two' }, { sessionId: 'second-of-two' }];
    const customer = { customerId: '77001' };
    const ids = [];
    for (const guest of [first, second]) {
      ids.push((await visit(guest)).profileId);
      await app.post('/item/add', itemOf({ ...guest, email: 'two@rights.example' }), TRUSTED);
      await app.post('/share', { identity: guest }, TRUSTED);
    }
    for (const guest of [first, second]) await visit({ ...guest, ...customer }, other);
    const { profileId, shares, identities } = (await read(customer)).json;
    ids.push(profileId);
    t.equal(shares.length, 2);
    t.same(identities.sessionIds.sort(), ['first-of-two', 'second-of-two']);
    t.same((await erase(first, other)).json, { erased: true });
    t.same(await traces('of-two', '77001', 'two@rights.example', ...shares, ...ids), []);
    for (const who of [first, second, customer]) t.equal((await visit(who)).count, 1);
  });

  t.test('of a shared device only its present customer is erased', async (t) => {
    const session = { sessionId: 'shared-device' };
    await visit(session);
    await visit({ ...session, customerId: '77002' });
    await visit({ ...session, customerId: '77003' });
    t.same((await erase({ customerId: '77003' })).json, { erased: true });
    t.same(await traces('77003'), []);
    t.equal((await visit({ customerId: '77002' })).count, 3);
  });

  t.test('a repeated request is a new one, after an erasure', async (t) => {
    const identity = { sessionId: 'asks-again' };
    const keyed = { ...TRUSTED, 'idempotency-key': 'again' };
    const count = () =>
      app.post('/product/visit?count=true', { identity, productHandle: 'x' }, keyed).then(({ json }) => json);
    t.match([await count(), await count()], [{ count: 1 }, { count: 1 }]);
    await erase(identity);
    await visit(identity);
    t.match(await count(), { count: 2 });
  });

  t.test('by query as by body', async (t) => {
    await visit({ sessionId: 'q-1' });
    t.same((await app.del('/profile?sessionId=q-1', undefined, TRUSTED)).json, { erased: true });
  });

  t.test('by e-mail address: every visitor for whom it was given, and no other', async (t) => {
    const email = 'Shared@Rights.example';
    const [guest, customer] = [{ sessionId: 'mailed-guest' }, { customerId: '77010' }];
    await app.post('/item/add', itemOf({ ...guest, email }), TRUSTED);
    await app.post('/item/add', itemOf({ ...customer, email: ' shared@rights.example ' }), TRUSTED);
    await app.post(
      '/item/add',
      itemOf({ sessionId: 'mailed-other', email: 'other@rights.example' }),
      TRUSTED,
    );
    const found = (await read({ email: 'shared@rights.EXAMPLE' })).json;
    t.match(found, { identities: { customerIds: ['77010'] }, items: [{}] }, 'customers first');
    t.match(found.others, [{ items: [{}], profile: { email } }]);
    t.match(await read({ email: 'nobody@rights.example' }), { status: 404, json: { code: 'not_found' } });
    t.equal((await read({ email: 'no address' })).status, 400);

    t.same((await erase({ email })).json, { erased: true });
    t.same(await traces('mailed-guest', '77010', 'hared@', 'HARED@', found.profileId), []);
    t.same((await erase({ email })).json, { erased: false });
    t.match((await read({ sessionId: 'mailed-other' })).json, { items: [{}] });
  });

  t.test('an address leads to whom its visitor was merged into, and is forgotten with them', async (t) => {
    const session = { sessionId: 'mailed-and-merged' };
    await app.post('/item/add', itemOf({ ...session, email: 'merged@rights.example' }), TRUSTED);
    await visit({ customerId: '77011' });
    const { profileId } = await visit({ ...session, customerId: '77011' }, other);
    t.match((await read({ email: 'merged@rights.example' })).json, { profileId, items: [{}] });
    // The device is another customer's from now on, and the address is not.
    await visit({ ...session, customerId: '77012' });
    t.same((await erase({ email: 'merged@rights.example' })).json, { erased: true });
    t.equal((await visit({ customerId: '77011' })).count, 1);
    t.equal((await visit({ customerId: '77012' })).count, 2, 'of the shared device only the one who gave it');
    await erase({ customerId: '77011' });
    await erase({ customerId: '77012' });
    const indexes = (await allKeys(redis, app.prefix)).filter((key) => key.includes('{email:'));
    t.equal(indexes.length, 1, "another's is left");
  });

  t.test('a purchase names the address of its visitor, who is known by it', async (t) => {
    const order = (id: number, customer: object) =>
      app.post('/webhook/purchase', { id, customer, line_items: [{ product_id: 1 }] }, TRUSTED);
    await visit({ customerId: '77013' });
    await order(1, { id: 77013, email: 'buyer@rights.example' });
    await order(2, { id: 77014, email: 'unknown@rights.example' });
    t.match((await read({ email: 'buyer@rights.example' })).json, { visits: { x: 1 } });
    t.match((await read({ email: 'unknown@rights.example' })).json, {
      identities: { customerIds: ['77014'] },
    });
    t.same((await erase({ email: 'buyer@rights.example' })).json, { erased: true });
    t.equal((await visit({ customerId: '77013' })).count, 1);
  });

  t.test('only for a secret key, and only for an identity', async (t) => {
    for (const answer of [
      await app.get('/profile?sessionId=q-1'),
      await app.del('/profile', { identity: { sessionId: 'q-1' } }),
    ])
      t.match(answer, { status: 401, json: { code: 'unauthorized' } });
    t.equal((await read({})).status, 400);
    t.equal((await erase({})).status, 400);
    t.equal((await app.del('/profile', {}, { 'x-api-key': KEY })).status, 400);
  });

  if (redis.urls.length > 1) return;

  t.test('ids in one request: the same visitor for all of them, or none', async (t) => {
    const app = await startApp(t, redis);
    const visit = async (identity: Ids) =>
      (await app.post('/product/visit', { identity, productHandle: 'x' }, TRUSTED)).json.profileId;
    const add = (identity: Ids) => app.post('/item/add', itemOf(identity), TRUSTED);
    const read = (ids: Ids) => app.get(withQuery('/profile', ids), TRUSTED);

    await visit({ customerId: '1', sessionId: 'of-1' });
    await add({ customerId: '1', email: 'one@named.example' });
    await visit({ customerId: '2' });
    await add({ sessionId: 'g-1', email: 'guest@named.example' });
    await add({ sessionId: 'other-guest', email: 'both@named.example' });
    await add({ customerId: '2', email: 'both@named.example' });

    for (const ids of [
      { customerId: '1', sessionId: 'g-1' },
      { customerId: '2', sessionId: 'of-1' },
      { customerId: '1', email: 'guest@named.example' },
      { sessionId: 'g-1', email: 'one@named.example' },
      { customerId: '2', email: 'both@named.example' },
      { customerId: 'unknown', email: 'both@named.example' },
      { customerId: '1', sessionId: 'of-1', email: 'guest@named.example' },
    ] as Ids[]) {
      t.test(`two visitors are refused, and nothing changes: ${JSON.stringify(ids)}`, async (t) => {
        const before = await dumpRedis(redis, app.prefix);
        const refused = { status: 400, json: { code: 'invalid_request', issues: [{ path: String }] } };
        t.match(await read(ids), refused);
        t.match(await app.del('/profile', { identity: ids }, TRUSTED), refused);
        t.match(await app.del(withQuery('/profile', ids), undefined, TRUSTED), refused);
        t.same(await dumpRedis(redis, app.prefix), before);
      });
    }

    for (const [who, alone, ids] of [
      ['a customer and their session', { customerId: '1' }, { customerId: '1', sessionId: 'of-1' }],
      [
        'a customer and a session that is unknown',
        { customerId: '1' },
        { customerId: '1', sessionId: 'unknown' },
      ],
      ['a guest and a customer who is unknown', { sessionId: 'g-1' }, { customerId: 'no', sessionId: 'g-1' }],
      ['a customer and their address', { customerId: '1' }, { customerId: '1', email: 'One@named.example' }],
      [
        'a customer and an unknown address',
        { customerId: '1' },
        { customerId: '1', email: 'no@named.example' },
      ],
      [
        'an unknown customer and an address',
        { sessionId: 'g-1' },
        { customerId: 'no', email: 'guest@named.example' },
      ],
    ] as [string, Ids, Ids][]) {
      t.test(`one visitor is exported and erased: ${who}`, async (t) => {
        const profileId = await visit(alone);
        const { code } = (await app.post('/share', { identity: alone }, TRUSTED)).json;
        t.match(await read(ids), { status: 200, json: { profileId, shares: [code] } });
        t.match(await app.del('/profile', { identity: ids }, TRUSTED), {
          status: 200,
          json: { erased: true },
        });
        t.match((await read(alone)).json, { visits: {}, shares: [] });
        t.same((await app.del('/profile', { identity: ids }, TRUSTED)).json, { erased: false });
        await add({ ...alone, email: 'customerId' in alone ? 'one@named.example' : 'guest@named.example' });
        if ('customerId' in alone) await visit({ customerId: '1', sessionId: 'of-1' });
      });
    }

    t.test('unknown ids are no visitor', async (t) => {
      const ids = { customerId: 'no', sessionId: 'unknown' };
      t.match(await read(ids), { status: 200, json: { items: [], visits: {} } });
      t.same((await app.del('/profile', { identity: ids }, TRUSTED)).json, { erased: false });
    });
  });
});
