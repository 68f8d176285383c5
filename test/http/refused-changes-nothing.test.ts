// A request that is answered 409 changes nothing at all: no two ids are linked for it, no visitor is made known, and no
// fact is kept. What Redis holds is compared before and after.

import t, { type Test } from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

type Ids = Readonly<Record<string, string>>;

const ENV = { MAX_PRODUCTS: '3', MAX_ITEMS: '3', MAX_ITEMS_BYTES: '4096' };

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: ENV });
  /** Knows nothing of what `app` has linked. */
  const other = await startApp(t, redis, { env: ENV, prefix: app.prefix });
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
      (identity, handle, by) => visit(identity, handle, { 'idempotency-key': JSON.stringify(identity) }, by),
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
