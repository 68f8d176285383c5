// Guards: under an Idempotency-Key every write is done once and answers as the first time, on every server, whatever was
// done since, and also where a server ended before it could answer. Visits and events: idempotency.test.ts.

import t from 'tap';
import { connectRedis } from '../../src/redis/client.js';
import { type Answer, eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { ITEM } from '../harness/shop.js';
import { rowsOf } from '../harness/stream.js';

interface Write {
  readonly method: 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** Of a session that has visited a product twice and wishes for nothing. */
  readonly body: (sessionId: string) => object;
  /** Another request. */
  readonly other: (sessionId: string) => object;
  /** What a user does between the first try and the retry; the retry must leave it. */
  readonly meanwhile: (app: TestApp, sessionId: string) => Promise<unknown>;
}

const of = (sessionId: string) => ({ identity: { sessionId } });
const item = { ...ITEM, variantId: null };
const visited = (sessionId: string, productHandle: string) => ({ ...of(sessionId), productHandle });

const WRITES: Readonly<Record<string, Write>> = {
  'an addition': {
    method: 'POST',
    path: '/item/add',
    body: (id) => ({ ...of(id), ...item }),
    other: (id) => ({ ...of(id), ...item, quantity: 5 }),
    meanwhile: ({ shop }, sessionId) => shop.add({ sessionId }, { quantity: 7 }),
  },
  'a removal': {
    method: 'POST',
    path: '/item/remove',
    body: (id) => ({ ...of(id), productId: '1001', variantId: null }),
    other: (id) => ({ ...of(id), productId: '1001', variantId: null, event: 'moveToCart' }),
    meanwhile: ({ shop }, sessionId) => shop.add({ sessionId }),
  },
  'a share': {
    method: 'POST',
    path: '/share',
    body: (id) => ({ ...of(id), channel: 'Link' }),
    other: (id) => ({ ...of(id), channel: 'Email' }),
    meanwhile: ({ shop }, sessionId) => shop.visit({ sessionId }, 'blue-hat'),
  },
  'a reset': {
    method: 'DELETE',
    path: '/product/visit',
    body: (id) => visited(id, 'red-shoe'),
    other: (id) => visited(id, 'blue-hat'),
    meanwhile: ({ shop }, sessionId) => shop.visit({ sessionId }),
  },
  'facts of a guest': {
    method: 'POST',
    path: '/profile/guest',
    body: (sessionId) => ({ sessionId, firstName: 'Ada' }),
    other: (sessionId) => ({ sessionId, firstName: 'Bob' }),
    meanwhile: (app, sessionId) => app.post('/profile/guest', { sessionId, firstName: 'Cyd' }, TRUSTED),
  },
  'a login': {
    method: 'POST',
    path: '/profile/merge',
    body: (sessionId) => ({ identity: { customerId: `${sessionId}-c`, sessionId } }),
    other: (sessionId) => ({ identity: { customerId: `${sessionId}-d`, sessionId } }),
    meanwhile: ({ shop }, sessionId) => shop.login({ customerId: `${sessionId}-e`, sessionId }),
  },
  'a setting': {
    method: 'PUT',
    path: '/settings',
    body: () => ({ autoRemoveAfterPurchase: true }),
    other: () => ({ autoRemoveAfterPurchase: false }),
    meanwhile: (app) => app.send('PUT', '/settings', { autoRemoveAfterPurchase: false }, TRUSTED),
  },
  'an erasure': {
    method: 'DELETE',
    path: '/profile',
    body: of,
    other: (sessionId) => ({ identity: { customerId: sessionId } }),
    meanwhile: ({ shop }, sessionId) => shop.visit({ sessionId }),
  },
};

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const sibling = await startApp(t, redis, { prefix: app.prefix });
  const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 5_000 }, () => {});
  t.teardown(() => client.disconnect());
  const keyed = (key: string) => ({ ...TRUSTED, 'idempotency-key': key });
  const dump = async () => JSON.stringify(await dumpRedis(redis, app.prefix));

  /** What can be seen of a visitor and of the shop. */
  async function seen(sessionId: string): Promise<object> {
    const { shop } = app;
    const { profile, shares, visits } = await shop.exported({ sessionId });
    const items = await shop.items({ sessionId });
    const events = (await rowsOf(redis, app)).filter((row) => row['session_id'] === sessionId);
    const settings = (await app.get('/settings', TRUSTED)).json;
    const identities = (await app.get(withQuery('/profile', { sessionId }), TRUSTED)).json.identities;
    return { firstName: profile.firstName, shares, visits, items, events, settings, identities };
  }

  for (const [name, { method, path, body, other, meanwhile }] of Object.entries(WRITES)) {
    const send = (by: TestApp, what: object, key: string): Promise<Answer> =>
      by.send(method, path, what, keyed(key));
    const visitor = async (suffix: string) => {
      const sessionId = `${path}${method}-${suffix}`;
      await app.shop.visit({ sessionId });
      await app.shop.visit({ sessionId });
      if (name === 'a removal') await app.shop.add({ sessionId });
      return sessionId;
    };

    t.test(`${name} under a key is done once, and its key is good for nothing else`, async (t) => {
      const sessionId = await visitor('once');
      const key = `${name} once`;
      const first = await send(app, body(sessionId), key);
      t.equal(first.status, 200);
      await meanwhile(app, sessionId);
      const before = await seen(sessionId);
      t.equal((await send(sibling, body(sessionId), key)).text, first.text);
      t.equal((await send(app, body(sessionId), key)).text, first.text);
      t.same(await seen(sessionId), before);
      const all = await dump();
      t.match(await send(app, other(sessionId), key), {
        status: 422,
        json: { code: 'idempotency_key_reused' },
      });
      t.match(await send(app, body(sessionId), ''), { status: 400, json: { code: 'invalid_request' } });
      t.equal(await dump(), all, 'what is refused changes nothing');
    });

    if (['an addition', 'a removal', 'a share', 'a reset'].includes(name))
      t.test(
        `${name} whose server ended before it answered is not done again, also after a login`,
        async (t) => {
          const sessionId = await visitor('crash');
          const customerId = `${sessionId}-c`;
          const key = `${name} crash`;
          const records = new Set(Object.keys(await dumpRedis(redis, app.prefix)));
          const first = await send(app, body(sessionId), key);
          const made = Object.keys(await dumpRedis(redis, app.prefix)).filter((one) => !records.has(one));
          const [record] = made.filter((one) => one.includes('request:'));
          t.equal(await client.hdel(record as string, 'answer'), 1);
          await app.shop.visit({ customerId }, 'blue-hat');
          t.match(await app.shop.login({ customerId, sessionId }), { merged: true });
          await meanwhile(app, sessionId);
          const before = await seen(sessionId);
          const retries = await Promise.all([app, sibling].map((by) => send(by, body(sessionId), key)));
          const { profileId: _, ...done } = first.json;
          for (const retry of retries) t.match(retry, { status: 200, json: done });
          t.same(await seen(sessionId), before);
        },
      );
  }

  t.test(
    'a key that counted a visit does not reset it: the same body is another request there',
    async (t) => {
      const body = visited('counted', 'red-shoe');
      t.equal((await app.send('POST', '/product/visit', body, keyed('counted'))).status, 200);
      const reset = await app.send('DELETE', '/product/visit', body, keyed('counted'));
      t.match(reset, { status: 422, json: { code: 'idempotency_key_reused' } });
      t.equal(await app.shop.count({ sessionId: 'counted' }, 'red-shoe'), 1);
    },
  );

  t.test(
    'two requests without a key are two: an item that is added again makes a second event',
    async (t) => {
      const who = { sessionId: 'two' };
      const [first, second] = [await app.shop.add(who), await app.shop.add(who)];
      t.equal(second.itemId, first.itemId);
      t.equal((await rowsOf(redis, app)).filter((row) => row['session_id'] === 'two').length, 2);
    },
  );
});
