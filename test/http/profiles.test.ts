// POST /profile/guest and /profile/merge; and facts of a visitor (e-mail address, names, device, locale): they are what the last
// request said, on every server and after an erasure, and any text may be one, or be the name of a product.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { allKeys, dumpRedis } from '../harness/dump.js';
import { itemOf, NOT_JSON } from './wishlist.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const guest = (body: unknown) => app.post('/profile/guest', body, TRUSTED);
  const merge = (body: unknown) => app.post('/profile/merge', body, TRUSTED);
  const visit = (identity: object) => app.post('/product/visit', { identity, productHandle: 'x' }, TRUSTED);
  const count = async (identity: Record<string, string>) =>
    (await app.get(withQuery('/product/visit', { ...identity, productHandle: 'x' }), TRUSTED)).json.count;

  t.test('a merge unites counts and wishlists and says whether it was this call', async (t) => {
    const ids = { sessionId: 'm-1', customerId: '1' };
    const session = { sessionId: 'm-1' };
    const customer = { customerId: '1' };
    await visit(session);
    await visit(customer);
    await visit(customer);
    await app.post('/item/add', itemOf(session, { productId: '5' }), TRUSTED);
    const answer = await merge({ identity: { ...ids, email: 'm@example.org' } });
    const { profileId } = answer.json;
    t.match(answer, { status: 200, text: JSON.stringify({ profileId, merged: true }) });
    t.same((await merge({ identity: ids })).json, { profileId, merged: false }, 'twice is once');
    for (const who of [session, customer]) {
      t.equal(await count(who), 3);
      const listed = (await app.post('/item/list', { identity: who }, TRUSTED)).json;
      t.match(listed, { profileId, items: [{ productId: '5' }] });
    }
    t.match((await dumpRedis(redis, app.prefix))[createKeys(app.prefix).profile(profileId)], {
      email: 'm@example.org',
    });
  });

  t.test('a merge of what needs none is none', async (t) => {
    const unknown = await merge({ identity: { sessionId: 'm-2', customerId: '2' } });
    t.match(unknown.json, { profileId: String, merged: false });
    const { profileId } = (await visit({ sessionId: 'm-3' })).json;
    const adopted = await merge({ identity: { sessionId: 'm-3', customerId: 'gid://shopify/Customer/3' } });
    t.same(adopted.json, { profileId, merged: false }, "the guest's profile becomes the customer's");
    const moved = await merge({ identity: { sessionId: 'm-3', customerId: '2' } });
    t.same(
      moved.json,
      { profileId: unknown.json.profileId, merged: false },
      'a shared device merges nothing',
    );
  });

  t.test('merged at once by two servers it is united once', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix });
    await visit({ sessionId: 'm-4' });
    await visit({ customerId: '4' });
    const body = { identity: { sessionId: 'm-4', customerId: '4' } };
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? app : second).post('/profile/merge', body, TRUSTED)),
    );
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
    t.equal(await count({ customerId: '4' }), 2);
  });

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test('a guest gets a profile that keeps what is known', async (t) => {
    const facts = {
      device: 'desktop',
      locale: 'de',
      email: 'g@example.org',
      firstName: 'G',
      lastName: 'Uest',
    };
    const answer = await guest({ sessionId: 'g-1', ...facts });
    const { profileId } = answer.json;
    t.match(answer, { status: 200, text: JSON.stringify({ profileId }) });
    const keys = createKeys(app.prefix);
    const dump = await dumpRedis(redis, app.prefix);
    t.match(dump[keys.profile(profileId)], facts);
    t.match(dump[keys.door(profileId)], { '': /^\d+$/ }, 'known by the day on which it was seen');
    t.equal((await guest({ sessionId: 'g-1', customerId: null })).json.profileId, profileId);
    t.equal((await visit({ sessionId: 'g-1' })).json.profileId, profileId);
  });

  t.test('wrong bodies change nothing', async (t) => {
    const before = await dumpRedis(redis, app.prefix);
    const guests = [
      undefined,
      null,
      [],
      {},
      { customerId: '5' },
      { sessionId: null },
      { sessionId: null, customerId: '5' },
      { sessionId: '' },
      { sessionId: 'undefined' },
      { sessionId: 1 },
      { sessionId: 'a\u0000' },
      { sessionId: 'g', email: 'none' },
      { sessionId: 'g', device: 5 },
      { sessionId: 'g', firstName: 'x'.repeat(256) },
      { identity: { sessionId: 'g' } },
      ...NOT_JSON,
    ];
    for (const body of guests) t.equal((await guest(body)).status, 400, JSON.stringify(body));
    const identities = [
      undefined,
      null,
      'x',
      {},
      { sessionId: 'm' },
      { customerId: '5' },
      { sessionId: 'm', customerId: null },
      { sessionId: null, customerId: '5' },
      { sessionId: 'm', customerId: 'guest' },
      { sessionId: 'null', customerId: '5' },
      { sessionId: 'm', customerId: 5.5 },
      { sessionId: 'm', customerId: '5', lastName: 'a\nb' },
    ];
    for (const body of [...identities.map((identity) => ({ identity })), undefined, [], ...NOT_JSON]) {
      t.equal((await merge(body)).status, 400, JSON.stringify(body));
    }
    t.same((await merge({ identity: {} })).json.issues, [
      { path: '/identity/customerId', message: 'is required' },
      { path: '/identity/sessionId', message: 'is required' },
    ]);
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('facts', async (t) => {
    const app = await startApp(t, redis);
    const other = await startApp(t, redis, { prefix: app.prefix });
    const event = (identity: object, by = app) => by.post('/event', { identity, type: 'add' }, TRUSTED);
    const visit = (identity: object, productHandle = 'x') =>
      app.post('/product/visit', { identity, productHandle }, TRUSTED);
    const read = async (query: Record<string, string>) =>
      (await app.get(withQuery('/profile', query), TRUSTED)).json;
    const erase = (identity: object) => app.del('/profile', { identity }, TRUSTED);

    for (const who of [{ sessionId: 'comes-back' }, { customerId: 'comes-back' }] as Record<
      string,
      string
    >[]) {
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
});
