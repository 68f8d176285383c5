// 409: a profile that counts as many products, or has as many items, as it may. What is refused changes nothing at all:
// no two ids are linked for it, no visitor is made known, no fact is kept. What Redis holds is compared before and after.

import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { type Answer, eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { allKeys, connectToEach, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import type { TestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';
type Ids = Readonly<Record<string, string>>;

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
  /** What is within one profile is the same on a cluster, where only what two profiles do is tried. */
  const isCluster = redis.urls.length > 1;

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
      if (isCluster && prepare === fill) continue;
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

    if (!isCluster)
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

    if (!isCluster)
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

    if (!isCluster)
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

  t.test('what is refused with two ids changes nothing', async (t) => {
    const env = { MAX_PRODUCTS: '3', MAX_ITEMS: '3', MAX_ITEMS_BYTES: '4096' };
    const app = await startApp(t, redis, { env });
    /** Knows nothing of what `app` has linked. */
    const other = await startApp(t, redis, { env, prefix: app.prefix });
    const visit = (identity: Ids, productHandle: string, headers = {}, by = app) =>
      by.post('/product/visit?count=true', { identity, productHandle }, { ...TRUSTED, ...headers });
    const add = (identity: Ids, productId: string, changes = {}, by = app) =>
      by.post('/item/add', itemOf(identity, { productId, variantId: null, ...changes }), TRUSTED);
    const list = async (identity: Ids) =>
      (await app.post('/item/list', { identity }, TRUSTED)).json.items.length;
    const large = (bytes: number) => ({ properties: { text: 'x'.repeat(bytes) } });
    const read = async (ids: Ids) => (await app.get(withQuery('/profile', ids), TRUSTED)).json;
    /** Each is answered 409, and Redis is as it was. */
    const unchanged = async (t: Test, ...sends: (() => Promise<{ status: number }>)[]) => {
      // Senders forget what they have the reply of, behind the answer.
      let before = await dumpRedis(redis, app.prefix);
      await until('nothing goes on', async () => {
        const now = await dumpRedis(redis, app.prefix);
        const isStill = JSON.stringify(now) === JSON.stringify(before);
        before = now;
        return isStill;
      });
      for (const send of sends)
        t.match(await send(), { status: 409, json: { code: /too_many_(items|products)/ } });
      t.same(await dumpRedis(redis, app.prefix), before, 'Redis is as it was');
    };

    let people = 0;
    const pair = (): [Ids, Ids, Ids] => {
      const n = ++people;
      const [customer, session] = [{ customerId: `c${n}` }, { sessionId: `session-${n}` }];
      return [customer, session, { ...customer, ...session }];
    };

    const ways: [
      how: string,
      send: (identity: Ids, handle: string, by: TestApp) => Promise<{ status: number }>,
    ][] = [
      ['a visit', (identity, handle, by) => visit(identity, handle, {}, by)],
      [
        'a visit with an Idempotency-Key',
        (identity, handle, by) =>
          visit(identity, handle, { 'idempotency-key': JSON.stringify(identity) }, by),
      ],
      [
        'a visit of a batch',
        async (identity, productHandle, by) => {
          const body = { visits: [{ identity, productHandle }] };
          const { json } = await by.post('/product/visit/batch', body, TRUSTED);
          return { status: json.results[0].code === undefined ? 200 : 409, json: json.results[0] };
        },
      ],
    ];
    for (const [how, send] of ways) {
      t.test(`${how} with two ids is over MAX_PRODUCTS and links nothing`, async (t) => {
        const cases: [string, (customer: Ids, session: Ids) => Promise<unknown>][] = [
          ['an unknown customer', async (_, session) => fill(session, ['a', 'b', 'c'])],
          ['an unknown session', async (customer) => fill(customer, ['a', 'b', 'c'])],
          [
            'the customer is at the limit',
            async (customer, session) => {
              await fill(customer, ['a', 'b', 'c']);
              await fill(session, ['a']);
            },
          ],
          [
            'both together are at the limit',
            async (customer, session) => {
              await fill(customer, ['a', 'b']);
              await fill(session, ['b', 'c']);
            },
          ],
          [
            'both together are over it',
            async (customer, session) => {
              await fill(customer, ['a', 'b', 'c']);
              await fill(session, ['c', 'e', 'f']);
            },
          ],
          [
            "the session is another customer's",
            async (customer, session) => {
              await visit({ ...session, customerId: `first-${session['sessionId']}` }, 'z');
              await fill(customer, ['a', 'b', 'c']);
            },
          ],
        ];
        for (const [name, prepare] of cases) {
          t.comment(name);
          const [customer, session, both] = pair();
          await prepare(customer, session);
          const known = await Promise.all([customer, session].map(read));
          await unchanged(t, ...[app, other].map((by) => () => send(both, 'd', by)));
          t.same(await Promise.all([customer, session].map(read)), known);
          t.equal((await send(both, 'c', app)).status, 200, 'a known product links them');
        }
        async function fill(who: Ids, handles: string[]): Promise<void> {
          for (const handle of handles) t.equal((await visit(who, handle)).status, 200);
        }
      });
    }

    t.test('visits that fit together are counted where the two are linked by the visit', async (t) => {
      const [customer, session, both] = pair();
      for (const handle of ['a', 'b']) for (const who of [customer, session]) await visit(who, handle);
      t.match((await visit(both, 'c')).json, { count: 1 });
      t.match((await visit(both, 'a')).json, { count: 3 });
    });

    for (const [what, facts] of [
      ['', {}],
      [' and facts', { email: 'a@refused.example', firstName: 'Ann' }],
    ] as const) {
      t.test(`an item with two ids${what} is over MAX_ITEMS and changes nothing`, async (t) => {
        const cases: [string, string[], string[]][] = [
          ['an unknown customer', [], ['1', '2', '3']],
          ['an unknown session', ['1', '2', '3'], []],
          ['both are known', ['1', '2', '3'], ['1']],
          ['both together', ['1', '2'], ['2', '3']],
        ];
        for (const [name, ofCustomer, ofSession] of cases) {
          t.comment(name);
          const [customer, session, both] = pair();
          for (const id of ofCustomer) await add(customer, id);
          for (const id of ofSession) await add(session, id);
          await unchanged(t, ...[app, other].map((by) => () => add({ ...both, ...facts }, '4', {}, by)));
          t.equal((await add({ ...both, ...facts }, '3')).status, 200, 'an item that is there links them');
          t.equal(await list(customer), 3);
        }
      });

      t.test(`an item with two ids${what} is over MAX_ITEMS_BYTES and changes nothing`, async (t) => {
        const [customer, session, both] = pair();
        await add(customer, '1', large(1_000));
        await add(session, '2', large(1_000));
        const over = [app, other].map((by) => () => add({ ...both, ...facts }, '3', large(1_500), by));
        await unchanged(t, ...over, () => add({ ...both, ...facts }, '2', large(2_900)));
        t.equal((await add({ ...both, ...facts }, '2', large(1_500))).status, 200);
        t.equal(await list(session), 2);
      });

      t.test(`an item of one id${what} is over a limit and changes nothing`, async (t) => {
        for (const who of pair().slice(0, 2) as Ids[]) {
          await unchanged(t, () => add({ ...who, ...facts }, '1', large(4_000)));
          t.match(await read(who), { profile: {}, items: [] }, 'who is unknown stays so');
          for (const id of ['1', '2', '3']) await add(who, id);
          // (A server that has not met a guest today notes that it is here, which is no change of the guest's.)
          const servers = what === '' ? [app] : [app, other];
          await unchanged(t, ...servers.map((by) => () => add({ ...who, ...facts }, '4', {}, by)));
          t.same((await read(who)).profile, {});
          t.equal((await add({ ...who, ...facts }, '3')).status, 200);
          t.match((await read(who)).profile, facts);
        }
      });
    }
  });
});
