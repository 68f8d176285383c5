// A shared device: its session was one customer's, moved to another one, and that one is erased. The session is a new
// visitor then, though its default profile is the first customer's for good.

import t from 'tap';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { itemOf } from './wishlist.js';

const LOGGED_OUT = '';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  const other = await startApp(t, redis, { prefix: app.prefix, env: { SHOPIFY_SECRET: SECRET } });
  const visit = async (identity: object, by = app) =>
    (await by.post('/product/visit?count=true', { identity, productHandle: 'x' }, TRUSTED)).json;
  const count = async (query: Record<string, string>, by = app) =>
    (await by.get(withQuery('/product/visit', { ...query, productHandle: 'x' }), TRUSTED)).json;
  const erase = (identity: object, by = app) => by.del('/profile', { identity }, TRUSTED);
  const items = async (identity: object, by = app) =>
    (await by.post('/item/list', { identity }, TRUSTED)).json.items.length;
  const read = async (query: Record<string, string>, by = app) =>
    (await by.get(withQuery('/profile', query), TRUSTED)).json;

  let devices = 0;
  /** A session whose profile became customer `c`'s, and which belongs to `d` now. */
  const open = async () => {
    const n = ++devices;
    const [session, c, d] = [{ sessionId: `shared-${n}` }, { customerId: `c${n}` }, { customerId: `d${n}` }];
    await visit(session);
    await app.post('/item/add', itemOf(session), TRUSTED);
    const { code } = (await app.post('/share', { identity: session }, TRUSTED)).json;
    await visit({ ...session, ...c });
    await visit({ ...session, ...d });
    await app.post('/item/add', itemOf({ ...session, ...d, email: `d${n}@shared.example` }), TRUSTED);
    return { session, c, d, code, email: `d${n}@shared.example` };
  };

  for (const [how, by] of [
    ['the customer', ({ d }: Awaited<ReturnType<typeof open>>) => d],
    ['the session', ({ session }: Awaited<ReturnType<typeof open>>) => session],
    ['the e-mail address', ({ email }: Awaited<ReturnType<typeof open>>) => ({ email })],
  ] as const) {
    t.test(`erased by ${how}, the session is a new visitor`, async (t) => {
      const device = await open();
      const { session, c, d, code } = device;
      const ofC = (await count(c)).profileId;
      t.same((await erase(by(device))).json, { erased: true });
      for (const server of [app, other]) {
        const { count: n, profileId } = await count(session, server);
        t.equal(n, 0, 'no count of the first customer comes back');
        t.not(profileId, ofC);
        t.equal(await items(session, server), 0);
        t.match(await read(session, server), {
          items: [],
          visits: {},
          shares: [],
          identities: { customerIds: [] },
        });
      }
      t.match(await read(c), { visits: { x: 2 }, shares: [code], identities: { sessionIds: [] } });
      t.equal((await count(d)).count, 0);

      t.equal(
        (await postProxied(app, '/item/add', LOGGED_OUT, itemOf(session))).status,
        200,
        'its own wishlist',
      );
      t.equal((await visit(session, other)).count, 1);
      const shared = (await app.post('/share', { identity: session }, TRUSTED)).json;
      t.not(shared.code, code);
      t.equal((await app.get(`/share/${shared.code}/items`, TRUSTED)).json.items.length, 1);
      t.equal((await count(c)).count, 2, 'and nothing of it is the first customer’s');
      t.equal(await items(c), 1);
    });
  }

  t.test('what it does afterwards becomes the next customer’s, and goes with that one', async (t) => {
    const { session, c, d } = await open();
    await erase(d);
    const { profileId } = await visit(session);
    const next = { customerId: `next-${session.sessionId}` };
    const linked = await visit({ ...session, ...next }, other);
    t.match(linked, { profileId, count: 2 }, 'its profile becomes the unknown customer’s');
    t.equal((await count(next)).count, 2);
    t.equal((await postProxied(app, '/item/list', LOGGED_OUT, { identity: session })).status, 403);
    await erase(next);
    t.equal((await count(session)).count, 0);

    await visit(session);
    await visit(d);
    t.equal((await visit({ ...session, ...d }, other)).count, 3, 'it is merged into a known customer’s');
    await erase(d);
    t.equal((await count(session)).count, 0);
    t.equal((await count(c)).count, 2);
  });

  t.test('the first customer comes back to a session that is new', async (t) => {
    const { session, c, d } = await open();
    await erase(d);
    await visit(session);
    t.equal((await visit({ ...session, ...c })).count, 4);
    t.equal((await count(session, other)).count, 4);
  });

  t.test('once the first customer is erased, too, the session keeps what is its own', async (t) => {
    const { session, c, d } = await open();
    await erase(d);
    await visit(session);
    await erase(c);
    t.equal((await count(session, other)).count, 1);
    t.same((await erase(session)).json, { erased: true });
    t.same((await erase(session)).json, { erased: false });
    t.equal((await visit(session, other)).count, 1);
  });
});
