// Whom GET and DELETE /profile take: the same visitor for the same ids, and none where the ids belong to two.

import t from 'tap';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { itemOf } from './wishlist.js';

type Ids = Readonly<Record<string, string>>;

eachRedis(t, async (t, redis) => {
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
      { customerId: '1', sessionId: 'nobody' },
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
    t.test(`one visitor is told and erased: ${who}`, async (t) => {
      const profileId = await visit(alone);
      const { code } = (await app.post('/share', { identity: alone }, TRUSTED)).json;
      t.match(await read(ids), { status: 200, json: { profileId, shares: [code] } });
      t.match(await app.del('/profile', { identity: ids }, TRUSTED), { status: 200, json: { erased: true } });
      t.match((await read(alone)).json, { visits: {}, shares: [] });
      t.same((await app.del('/profile', { identity: ids }, TRUSTED)).json, { erased: false });
      await add({ ...alone, email: 'customerId' in alone ? 'one@named.example' : 'guest@named.example' });
      if ('customerId' in alone) await visit({ customerId: '1', sessionId: 'of-1' });
    });
  }

  t.test('ids of nobody are nobody', async (t) => {
    const ids = { customerId: 'no', sessionId: 'nobody' };
    t.match(await read(ids), { status: 200, json: { items: [], visits: {} } });
    t.same((await app.del('/profile', { identity: ids }, TRUSTED)).json, { erased: false });
  });
});
