// Facts of a visitor (e-mail address, names, device, locale) are what the last request said, on every server and after an
// erasure; and any text may be one, or be the name of a product.

import t from 'tap';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { allKeys } from '../harness/dump.js';
import { itemOf } from './wishlist.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  const event = (identity: object, by = app) => by.post('/event', { identity, type: 'add' }, TRUSTED);
  const visit = (identity: object, productHandle = 'x') =>
    app.post('/product/visit', { identity, productHandle }, TRUSTED);
  const read = async (query: Record<string, string>) =>
    (await app.get(withQuery('/profile', query), TRUSTED)).json;
  const erase = (identity: object) => app.del('/profile', { identity }, TRUSTED);

  for (const who of [{ sessionId: 'comes-back' }, { customerId: 'comes-back' }] as Record<string, string>[]) {
    t.test(`a visitor who comes back after an erasure has them again: ${Object.keys(who)}`, async (t) => {
      const identity = { ...who, email: 'back@facts.example', firstName: 'Ann' };
      for (const by of [app, other]) {
        await event(identity);
        await erase(who);
        await event(identity, by);
        t.match(await read(who), { profile: { email: 'back@facts.example', firstName: 'Ann' } });
        t.match(await read({ email: 'back@facts.example' }), { profile: { firstName: 'Ann' } });
      }
    });
  }

  t.test('the last request counts, whichever server had the one before', async (t) => {
    const who = { sessionId: 'two-servers' };
    await event({ ...who, firstName: 'Ann' });
    await event({ ...who, firstName: 'Bea' }, other);
    await event({ ...who, firstName: 'Ann' });
    t.equal((await read(who)).profile.firstName, 'Ann');
  });

  for (const fact of ['share', 'owner', 'heir', 'itemBytes']) {
    t.test(
      `a device called ${fact} is one: a share code moves with a merge, and goes with an erasure`,
      async (t) => {
        const [session, customer] = [{ sessionId: `device-${fact}` }, { customerId: `device-${fact}` }];
        await event({ ...session, device: fact, locale: fact, lastName: fact });
        const { code } = (await app.post('/share', { identity: session }, TRUSTED)).json;
        await visit(customer);
        await app.post('/share', { identity: customer }, TRUSTED);
        await visit({ ...session, ...customer });
        t.match(await read(customer), { profile: { device: fact, lastName: fact } });
        t.ok((await read(customer)).shares.includes(code));
        t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 200);
        await erase(customer);
        t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 404);
        t.same(
          (await allKeys(redis, app.prefix)).filter((key) => key.includes(code)),
          [],
        );
      },
    );
  }

  t.test('names that mean something in JavaScript are names', async (t) => {
    const NAMES = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
    const who = { sessionId: 'proto' };
    const properties = JSON.parse('{"__proto__": 1, "constructor": {"__proto__": "x"}}');
    for (const name of NAMES) await visit(who, name);
    await app.post('/item/add', itemOf(who, { productHandle: '__proto__', properties }), TRUSTED);
    const told = await app.get(withQuery('/profile', who), TRUSTED);
    t.same(Object.keys(told.json.visits).sort(), [...NAMES].sort());
    t.equal(JSON.stringify(told.json.items[0].properties), JSON.stringify(properties));
    const listed = await app.post('/product/visit/list', { identity: who, productHandles: NAMES }, TRUSTED);
    t.same(Object.keys(listed.json.counts), NAMES);
    const odd = await app.get(
      `${withQuery('/product/visit', { ...who, productHandle: '__proto__' })}&__proto__=x&constructor=y`,
      TRUSTED,
    );
    t.match(odd.json, { productHandle: '__proto__', count: 1 });
    t.equal((await app.get('/product/visit?__proto__=x', TRUSTED)).status, 400);
  });
});
