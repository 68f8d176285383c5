// Which profiles an e-mail address leads to: those that a server or an order gave it for, 100 at most. From a storefront or a
// browser it is kept with the profile and leads nowhere: anybody can type any address. And the row of an adopted guest.

import t from 'tap';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { monitorRedis } from '../harness/monitor.js';
import { ITEM } from '../harness/shop.js';
import { rowsOf } from '../harness/stream.js';

const BROWSER = { 'x-api-key': 'pk_test_0123456789abcdef', origin: 'https://shop.example' };
const env = {
  SHOPIFY_SECRET: SECRET,
  PUBLISHABLE_KEYS: BROWSER['x-api-key'],
  ALLOWED_ORIGINS: BROWSER.origin,
};
/** Profiles that one address leads to. */
const MOST = 100;
const LOGGED_OUT = '';
eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env });
  const { add, erase, exported, share, visit } = app.shop;
  const byEmail = (email: string) => app.get(withQuery('/profile', { email }), TRUSTED);

  t.test('an address that a browser or a storefront claims leads to no stranger', async (t) => {
    const victim = { customerId: '501' };
    const email = 'victim@claims.example';
    await add({ ...victim, email });
    const { profileId } = await exported(victim);
    const [typed, signed] = [{ sessionId: 'typed' }, { sessionId: 'signed' }];
    for (const path of ['/event', '/item/add', '/share']) {
      const body = { type: 'add', ...ITEM };
      const claims = { ...body, identity: { ...typed, email } };
      t.equal((await app.post(path, claims, BROWSER)).status, 200, path);
      const ours = await postProxied(app, path, LOGGED_OUT, { ...body, identity: { ...signed, email } });
      t.equal(ours.status, 200, path);
    }
    const loggedIn = { identity: { customerId: '502', sessionId: 'of-502', email }, ...ITEM };
    t.equal((await postProxied(app, '/item/add', '502', loggedIn)).status, 200);

    for (const who of [typed, signed, { customerId: '502' }])
      t.match((await exported(who)).profile, { email }, 'kept with the profile, and exported');
    const found = await byEmail(email);
    t.match(found, { status: 200, json: { profileId } });
    t.notOk('others' in found.json);
    t.match(await exported({ ...victim, email }), { profileId });
    t.same(await erase({ ...victim, email }), { erased: true });
    t.equal((await byEmail(email)).status, 404);
    t.same(await erase({ email }), { erased: false });
    t.match((await exported(typed)).profile, { email }, 'the stranger is not erased with the victim');
  });

  t.test(
    'an address that a server or an order gives leads to its visitor, for whatever operation',
    async (t) => {
      const given = {
        event: (identity: object) => app.shop.event(identity),
        item: add,
        share,
        guest: (identity: object) => app.post('/profile/guest', identity, TRUSTED),
        order: ({ sessionId, email }: { sessionId: string; email: string }) =>
          app.post(
            '/webhook/purchase',
            {
              id: 7_001,
              currency: 'EUR',
              email,
              note_attributes: [{ name: 'wishlist_session_id', value: sessionId }],
              line_items: [{ product_id: 1001, quantity: 1, price: '1.00' }],
              financial_status: 'paid',
            },
            TRUSTED,
          ),
      };
      for (const [how, give] of Object.entries(given)) {
        const identity = { sessionId: `by-${how}`, email: `${how}@given.example` };
        await give(identity);
        const { status, json } = await byEmail(identity.email);
        t.equal(status, 200, how);
        t.same(json.identities?.sessionIds, [identity.sessionId], how);
      }
    },
  );

  t.test('a placeholder leads nowhere, whoever gives it', async (t) => {
    const placeholders = [
      'none@shop.test',
      'NULL@null.null',
      'undefined@undefined',
      'noreply@shop.test',
      'no-reply@shop.test',
      'test@test.com',
      'Test@Test.de',
      'ann@example.com',
      'bob@EXAMPLE.org',
    ];
    for (const [i, email] of placeholders.entries()) {
      const who = { sessionId: `placeholder-${i}` };
      await add({ ...who, email });
      t.match((await exported(who)).profile, { email }, `${email} is kept`);
      t.equal((await byEmail(email)).status, 404, `${email} leads nowhere`);
      t.match(
        await exported({ ...who, email }),
        { profile: { email } },
        'beside an id it is no other visitor',
      );
    }
    for (const [i, email] of ['nonesuch@shop.test', 'tester@test.com', 'ann@myexample.com'].entries()) {
      await add({ sessionId: `person-${i}`, email });
      t.equal((await byEmail(email)).status, 200, `${email} is a person's`);
    }
  });

  t.test(
    'one address leads to the latest 100 profiles, and its erasure reads no whole collection',
    async (t) => {
      const email = 'everybody@form.example';
      const guests = Array.from({ length: MOST + 5 }, (_, i) => `filled-${i}`);
      for (const sessionId of guests)
        t.equal((await app.post('/profile/guest', { sessionId, email }, TRUSTED)).status, 200);
      // The first one is among the latest again.
      await app.post('/profile/guest', { sessionId: 'filled-0', email }, TRUSTED);
      t.equal(await app.figure('email_profiles_dropped_total'), 6);
      const { json } = await byEmail(email);
      const found = [json, ...json.others].flatMap(({ identities }) => identities.sessionIds);
      t.same(found.sort(), [guests[0], ...guests.slice(6)].sort());

      const commands: string[] = [];
      const ends = await Promise.all(
        redis.urls.map((url) => monitorRedis(url, (words) => commands.push(words.join(' ')))),
      );
      t.same(await erase({ email }), { erased: true });
      for (const end of ends) end();
      const whole = commands.filter((one) =>
        /^(hgetall|hkeys|hvals|smembers|z?l?range \S+ 0 -1)\b(?!.*:meta$)/i.test(one),
      );
      t.same(whole, []);
      t.equal((await byEmail(email)).status, 404);
      for (const sessionId of guests.slice(1, 6)) {
        t.match((await exported({ sessionId })).profile, { email }, `${sessionId} was one of too many`);
        t.same(await erase({ sessionId, email }), { erased: true }, 'and is found by its id');
      }
      await visit({ sessionId: guests[50] as string });
      t.same((await exported({ sessionId: guests[50] as string })).profile, {});
    },
  );
});

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const { login, visit, event, erase } = app.shop;
  const told = async (profileId: string) =>
    (await rowsOf(redis, app))
      .filter(
        (row) => row['profile_id'] === profileId && ['adoption', 'merge'].includes(String(row['origin'])),
      )
      .map(({ type, origin }) => ({ type, origin }));
  const ADOPTED = [{ type: 'profileAdoption', origin: 'adoption' }];

  t.test('one whose customer is new leaves a row, once', async (t) => {
    const { profileId } = await visit({ sessionId: 'a-1' });
    t.same(await told(profileId), [], 'a guest');
    const ids = { sessionId: 'a-1', customerId: '101' };
    t.equal((await login(ids)).profileId, profileId);
    t.same(await told(profileId), ADOPTED);
    await login(ids);
    await event({ customerId: '101' }, 'add');
    t.same(await told(profileId), ADOPTED, 'later requests tell nothing');
  });

  t.test('one whose customer is known is merged, and leaves the row of that', async (t) => {
    const guest = await visit({ sessionId: 'a-2' });
    const customer = await visit({ customerId: '102' });
    await login({ sessionId: 'a-2', customerId: '102' });
    t.same(await told(guest.profileId), [{ type: 'profileMerge', origin: 'merge' }]);
    t.same(await told(customer.profileId), []);
  });

  t.test('a session that nobody knew is no guest', async (t) => {
    const { profileId } = await login({ sessionId: 'a-3', customerId: '103' });
    t.same(await told(profileId), []);
  });

  t.test('it waits for the flusher under its profile, so that it is erased with it', async (t) => {
    const { profileId } = await visit({ sessionId: 'a-4' });
    await login({ sessionId: 'a-4', customerId: '104' });
    await erase({ customerId: '104' });
    const again = await visit({ customerId: '104' });
    t.not(again.profileId, profileId);
    t.same(await told(again.profileId), [], 'who comes back afterwards was no guest');
  });
});
