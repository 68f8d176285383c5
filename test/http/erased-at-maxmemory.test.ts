// Redis is at its `maxmemory` and evicts nothing: writes are refused, and an erasure is what makes room. It works, also
// when a webhook asks for it, and beside requests that fail.

import t from 'tap';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { allKeys, connectToEach, dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { BUCKETS: '16' } });
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

  let people = 0;
  /** A customer with two sessions, items, a share link, an address and an idempotency key. */
  const open = async () => {
    const id = `9${app.prefix.replace(/\D/g, '')}${++people}000`;
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
    const [first, second] = [await open(), await open()];
    await atMaxMemory(async () => {
      t.equal((await visit({ sessionId: first.guest })).status, 503, 'Redis takes no writes');
      for (const identity of [
        { customerId: first.customerId },
        { email: second.email },
        { sessionId: first.guest },
      ]) {
        // Beside requests that fail, in the same turns of the event loop.
        const failing = Array.from({ length: 20 }, (_, i) => visit({ sessionId: `fails-${i}` }));
        const erased = await app.del('/profile', { identity }, TRUSTED);
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

  t.test('a shared device', async (t) => {
    const { customerId } = await open();
    const sessionId = `full-${customerId}-a`;
    await visit({ sessionId, customerId: `${customerId}1` });
    await atMaxMemory(async () => {
      t.same((await app.del('/profile', { identity: { sessionId } }, TRUSTED)).json, { erased: true });
    });
    t.match((await visit({ sessionId })).json, { count: 1 });
  });

  t.test('customers/redact and shop/redact are taken, and done', async (t) => {
    const [first, second] = [await open(), await open()];
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
});
