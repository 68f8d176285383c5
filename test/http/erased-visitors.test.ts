// Erasures in Redis that are not the common case. A shared device: its session was one customer's and moved to another one,
// who is erased; the session is a new visitor then, though its default profile is the first customer's for good. And a Redis
// at its `maxmemory` that evicts nothing: writes are refused, and an erasure is what makes room.

import t from 'tap';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { allKeys, connectToEach, dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

const LOGGED_OUT = '';

eachRedis(t, async (t, redis) => {
  t.test('a shared device', async (t) => {
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
    const addDevice = async () => {
      const n = ++devices;
      const [session, c, d] = [
        { sessionId: `shared-${n}` },
        { customerId: `c${n}` },
        { customerId: `d${n}` },
      ];
      await visit(session);
      await app.post('/item/add', itemOf(session), TRUSTED);
      const { code } = (await app.post('/share', { identity: session }, TRUSTED)).json;
      await visit({ ...session, ...c });
      await visit({ ...session, ...d });
      await app.post('/item/add', itemOf({ ...session, ...d, email: `d${n}@shared.example` }), TRUSTED);
      return { session, c, d, code, email: `d${n}@shared.example` };
    };

    for (const [how, by] of [
      ['the customer', ({ d }: Awaited<ReturnType<typeof addDevice>>) => d],
      ['the session', ({ session }: Awaited<ReturnType<typeof addDevice>>) => session],
      ['the e-mail address', ({ email }: Awaited<ReturnType<typeof addDevice>>) => ({ email })],
    ] as const) {
      t.test(`erased by ${how}, the session is a new visitor`, async (t) => {
        const device = await addDevice();
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

    // The rest are the same steps in other orders.
    if (redis.urls.length > 1) return;

    t.test('what it does afterwards becomes the next customer’s, and goes with that one', async (t) => {
      const { session, c, d } = await addDevice();
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
      const { session, c, d } = await addDevice();
      await erase(d);
      await visit(session);
      t.equal((await visit({ ...session, ...c })).count, 4);
      t.equal((await count(session, other)).count, 4);
    });

    t.test('once the first customer is erased, too, the session keeps what is its own', async (t) => {
      const { session, c, d } = await addDevice();
      await erase(d);
      await visit(session);
      await erase(c);
      t.equal((await count(session, other)).count, 1);
      t.same((await erase(session)).json, { erased: true });
      t.same((await erase(session)).json, { erased: false });
      t.equal((await visit(session, other)).count, 1);
    });
  });

  t.test('at maxmemory', async (t) => {
    const app = await startApp(t, redis, { env: { BUCKETS: '16' }, timing: { compliancePollMs: 50 } });
    const nodes = connectToEach(t, redis.urls);
    const setMaxMemory = (bytes: number) =>
      Promise.all(nodes.map((node) => node.config('SET', 'maxmemory', bytes)));
    const visit = async (identity: object) =>
      app.post('/product/visit?count=true', { identity, productHandle: 'x' }, TRUSTED);
    /** What Redis has that tells of a text; lanes and streams go by themselves. */
    const traces = async (...texts: string[]) =>
      [
        ...(await allKeys(redis, app.prefix)).map((key) => [key, '']),
        ...Object.entries(await dumpRedis(redis, app.prefix)),
      ]
        .filter(([key]) => !/:lane:|:(events|visits)(:|$)|:(erasures|unanswered)$/.test(key as string))
        .map((entry) => JSON.stringify(entry))
        .filter((entry) => texts.some((text) => entry.includes(text)));

    let customers = 0;
    /** A customer with two sessions, items, a share link, an address and an idempotency key. */
    const addCustomer = async () => {
      const id = `9${app.prefix.replace(/\D/g, '')}${++customers}000`;
      const email = `full-${id}@rights.example`;
      for (const sessionId of [`full-${id}-a`, `full-${id}-b`]) {
        await visit({ sessionId });
        await app.post('/item/add', itemOf({ sessionId, email }), TRUSTED);
        await app.post('/share', { identity: { sessionId } }, TRUSTED);
        await app.post(
          '/product/visit',
          { identity: { sessionId, customerId: id }, productHandle: 'y' },
          { ...TRUSTED, 'idempotency-key': sessionId },
        );
      }
      await visit({ sessionId: `guest-${id}` });
      return { customerId: id, email, guest: `guest-${id}` };
    };
    const atMaxMemory = async (act: () => Promise<void>) => {
      await setMaxMemory(1);
      try {
        await act();
      } finally {
        await setMaxMemory(0);
      }
    };

    t.test('DELETE /profile by customer, session and e-mail address', async (t) => {
      const [first, second] = [await addCustomer(), await addCustomer()];
      await atMaxMemory(async () => {
        t.equal((await visit({ sessionId: first.guest })).status, 503, 'Redis takes no writes');
        for (const identity of [
          { customerId: first.customerId },
          { email: second.email },
          { sessionId: first.guest },
        ]) {
          // Beside requests that fail, in the same batches.
          let isErasing = true;
          const failing = Array.from({ length: 32 }, async (_, i) => {
            while (isErasing) await visit({ sessionId: `fails-${i}` });
          });
          const erased = await app.del('/profile', { identity }, TRUSTED);
          isErasing = false;
          t.match(erased, { status: 200, json: { erased: true } }, erased.text);
          await Promise.all(failing);
        }
        t.same(await traces(first.customerId, first.email, `full-${second.customerId}`, second.email), []);
        t.match((await app.get(withQuery('/profile', { customerId: first.customerId }), TRUSTED)).json, {
          items: [],
          visits: {},
        });
      });
      t.match((await visit({ customerId: first.customerId })).json, { count: 1 }, 'who comes back is new');
    });

    t.test('customers/redact and shop/redact are taken, and done', async (t) => {
      const [first, second] = [await addCustomer(), await addCustomer()];
      const shop = { shop_id: 1, shop_domain: 'x.example' };
      await atMaxMemory(async () => {
        const customer = { id: Number(first.customerId), email: first.email };
        const taken = await app.post(
          '/webhook/customers/redact',
          { ...shop, customer, orders_to_redact: [] },
          TRUSTED,
        );
        t.equal(taken.status, 200);
        await until(
          'the customer is erased',
          async () => (await traces(`full-${first.customerId}`)).length === 0,
        );
        t.equal((await app.post('/webhook/shop/redact', shop, TRUSTED)).status, 200);
        await until('all are', async () => (await traces(second.customerId, 'full-', 'guest-')).length === 0);
      });
      t.match((await visit({ customerId: second.customerId })).json, { count: 1 });
    });

    t.test('a shared device', async (t) => {
      const { customerId } = await addCustomer();
      const sessionId = `full-${customerId}-a`;
      await visit({ sessionId, customerId: `${customerId}1` });
      await atMaxMemory(async () => {
        t.same((await app.del('/profile', { identity: { sessionId } }, TRUSTED)).json, { erased: true });
      });
      t.match((await visit({ sessionId })).json, { count: 1 });
    });
  });
});
