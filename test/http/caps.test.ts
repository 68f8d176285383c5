// 409: a profile that counts as many products, or has as many items, as it may. What is refused changes nothing.

import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { type Answer, eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { allKeys, connectToEach, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import type { TestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';

/** Answered with 409, and Redis is as it was. */
async function isRefused(
  t: Test,
  redis: TestRedis,
  app: TestApp,
  code: string,
  send: () => Promise<Answer>,
): Promise<void> {
  const before = await dumpRedis(redis, app.prefix);
  const answer = await send();
  t.match(answer, { status: 409, json: { code, error: String } }, answer.text);
  t.equal(answer.headers['retry-after'], undefined, 'sending it again does not help');
  t.same(await dumpRedis(redis, app.prefix), before);
}

/** Merges, and waits until analysts were told, which goes on behind the answer. */
async function merge(redis: TestRedis, app: TestApp, identity: object): Promise<Answer> {
  const answer = await app.post('/profile/merge', { identity }, TRUSTED);
  const outbox = keyPattern(createKeys(app.prefix).outbox('*.*'));
  await until(
    'analysts are told',
    async () => !(await allKeys(redis, app.prefix)).some((key) => outbox.test(key)),
  );
  return answer;
}

/** Leaves profiles as an older version did, which did not count what items take. */
async function forgetItemBytes(t: Test, redis: TestRedis, prefix: string): Promise<void> {
  let forgotten = 0;
  for (const node of connectToEach(t, redis.urls))
    for (const key of await node.keys(createKeys(prefix).profile('*.*')))
      forgotten += await node.hdel(key, 'itemBytes');
  t.equal(forgotten, 1, 'one had counted them');
}

eachRedis(t, async (t, redis) => {
  t.test('products', async (t) => {
    const env = { MAX_PRODUCTS: '3', SHOPIFY_SECRET: SECRET };
    const app = await startApp(t, redis, { env });
    const other = await startApp(t, redis, { env, prefix: app.prefix });
    const visit = (identity: object, productHandle: string, { query = '', headers = {} } = {}) =>
      app.post(PATH + query, { identity, productHandle }, { ...TRUSTED, ...headers });
    const fill = async (identity: object) => {
      for (const handle of ['a', 'b', 'c']) t.equal((await visit(identity, handle)).status, 200, handle);
    };
    const count = async (identity: Record<string, string>, productHandle: string, server = app) => {
      const query = new URLSearchParams({ ...identity, productHandle });
      return (await server.get(`${PATH}?${query}`, TRUSTED)).json.count;
    };
    for (const [name, prepare, identity] of [
      ['a guest', fill, { sessionId: 'guest-1' }],
      ['a customer', fill, { customerId: 'customer' }],
      [
        'a customer with a session',
        async (ids: object) => {
          await fill({ sessionId: 'linked' });
          await app.post('/profile/merge', { identity: ids }, TRUSTED);
        },
        { customerId: 'linked-c', sessionId: 'linked' },
      ],
    ] as const) {
      t.test(`${name}: one product too many is refused; known ones go on; a reset makes room`, async (t) => {
        await prepare(identity);
        const code = 'too_many_products';
        for (const query of ['', '?count=true']) {
          await isRefused(t, redis, app, code, () => visit(identity, 'd', { query }));
          const headers = { 'idempotency-key': `${name}${query}` };
          for (let tries = 0; tries < 2; tries++)
            await isRefused(t, redis, app, code, () => visit(identity, 'd', { query, headers }));
        }
        t.match(await visit(identity, 'a', { query: '?count=true' }), { status: 200, json: { count: 2 } });
        const headers = { 'idempotency-key': `${name} known` };
        t.match(await visit(identity, 'a', { query: '?count=true', headers }), { json: { count: 3 } });
        t.equal(await count(identity, 'd', other), 0);
        t.equal((await app.del(PATH, { identity, productHandle: 'b' }, TRUSTED)).status, 200);
        const retry = { query: '?count=true', headers: { 'idempotency-key': `${name}?count=true` } };
        t.match(
          await visit(identity, 'd', retry),
          { status: 200, json: { count: 1 } },
          'refused once, not for ever',
        );
        await isRefused(t, redis, app, code, () => visit(identity, 'b'));
      });
    }

    t.test('without a credential, and from a storefront', async (t) => {
      await fill({ sessionId: 'beacon' });
      const body = { identity: { sessionId: 'beacon' }, productHandle: 'd' };
      await isRefused(t, redis, app, 'too_many_products', () => app.post(PATH, body));
      await isRefused(t, redis, app, 'too_many_products', () =>
        app.post(proxied(PATH, { logged_in_customer_id: '' }), body),
      );
    });

    t.test('a merge loses nothing where both together have more; then no more come in', async (t) => {
      const [session, customer] = [{ sessionId: 'm' }, { customerId: 'm-c' }];
      await fill(session);
      for (const handle of ['c', 'd', 'e']) await visit(customer, handle);
      t.equal((await merge(redis, app, { ...session, ...customer })).json.merged, true);
      const counts = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((handle) => count(customer, handle)));
      t.same(counts, [1, 1, 2, 1, 1]);
      await isRefused(t, redis, app, 'too_many_products', () => visit(session, 'f'));
      t.match(await visit(session, 'e', { query: '?count=true' }), { json: { count: 2 } });
    });
  });

  t.test('items', async (t) => {
    const code = 'too_many_items';
    const listed = async (app: TestApp, identity: object): Promise<string[]> =>
      (await app.post('/item/list', { identity }, TRUSTED)).json.items
        .map((item: { productId: string }) => item.productId)
        .sort();
    const add = (app: TestApp, identity: object, productId: string, changes = {}) =>
      app.post('/item/add', itemOf(identity, { productId, variantId: null, ...changes }), TRUSTED);
    const remove = (app: TestApp, identity: object, productId: string) =>
      app.post('/item/remove', { identity, productId }, TRUSTED);

    t.test('one item too many is refused; updates go on; a removal makes room', async (t) => {
      const app = await startApp(t, redis, { env: { MAX_ITEMS: '3' } });
      for (const who of [{ sessionId: 's' }, { customerId: 'c' }]) {
        for (const id of ['1', '2', '3']) t.equal((await add(app, who, id)).status, 200);
        for (let tries = 0; tries < 2; tries++)
          await isRefused(t, redis, app, code, () => add(app, who, '4'));
        t.match(await add(app, who, '2', { quantity: 9 }), { status: 200, json: { quantity: 9 } });
        t.match(await remove(app, who, '1'), { status: 200, json: { removed: true } });
        t.equal((await add(app, who, '4')).status, 200);
        t.same(await listed(app, who), ['2', '3', '4']);
        await isRefused(t, redis, app, code, () => add(app, who, '1'));
      }
    });

    t.test('items too large together are refused, new ones and updates; what shrinks is not', async (t) => {
      const app = await startApp(t, redis, { env: { MAX_ITEMS_BYTES: '4096' } });
      const who = { sessionId: 's' };
      const large = (bytes: number) => ({ properties: { text: 'x'.repeat(bytes) } });
      t.equal((await add(app, who, '1', large(1_500))).status, 200);
      t.equal((await add(app, who, '2', large(1_000))).status, 200);
      await isRefused(t, redis, app, code, () => add(app, who, '3', large(1_000)));
      await isRefused(t, redis, app, code, () => add(app, who, '2', large(2_500)));
      t.equal((await add(app, who, '1', large(10))).status, 200);
      t.equal((await add(app, who, '3', large(1_000))).status, 200, 'there is room now');
      await isRefused(t, redis, app, code, () => add(app, who, '4', large(1_500)));
      await remove(app, who, '2');
      t.equal((await add(app, who, '4', large(1_500))).status, 200, 'a removal makes room');
      t.same(await listed(app, who), ['1', '3', '4']);
    });

    t.test('a merge may exceed both caps, and then takes no more until there is room', async (t) => {
      for (const env of [{ MAX_ITEMS: '3' }, { MAX_ITEMS_BYTES: '4096' }]) {
        const app = await startApp(t, redis, { env });
        const large = { properties: { text: 'x'.repeat('MAX_ITEMS' in env ? 10 : 800) } };
        const [session, customer] = [{ sessionId: 's' }, { customerId: 'c' }];
        const both = { ...session, ...customer };
        for (const id of ['1', '2', '3']) t.equal((await add(app, session, id, large)).status, 200);
        for (const id of ['4', '5', '6']) t.equal((await add(app, customer, id, large)).status, 200);
        t.match(await merge(redis, app, both), { json: { merged: true } });
        t.same(await listed(app, customer), ['1', '2', '3', '4', '5', '6']);
        await isRefused(t, redis, app, code, () => add(app, both, '7', large));
        t.equal((await add(app, session, '4', { ...large, quantity: 3 })).status, 200);
        for (const id of ['1', '2', '3', '4'])
          t.match(await remove(app, customer, id), { json: { removed: true } });
        t.equal((await add(app, both, '7', large)).status, 200);
        t.same(await listed(app, session), ['5', '6', '7']);
      }
    });

    t.test('a merge of items that were counted with others that were not: all of them count', async (t) => {
      const large = { properties: { text: 'x'.repeat(800) } };
      const [session, customer] = [{ sessionId: 's' }, { customerId: 'c' }];
      for (const counted of [session, customer]) {
        const app = await startApp(t, redis, { env: { MAX_ITEMS_BYTES: '4096' } });
        const uncounted = counted === session ? customer : session;
        for (const id of ['1', '2']) t.equal((await add(app, uncounted, id, large)).status, 200);
        await forgetItemBytes(t, redis, app.prefix);
        for (const id of ['3', '4']) t.equal((await add(app, counted, id, large)).status, 200);
        const both = { ...session, ...customer };
        t.match(await merge(redis, app, both), { json: { merged: true } });
        await isRefused(t, redis, app, code, () => add(app, both, '5', large));
        t.same(await listed(app, both), ['1', '2', '3', '4']);
      }
    });
  });
});
