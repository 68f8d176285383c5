// MAX_PRODUCTS, MAX_ITEMS and MAX_ITEMS_BYTES: a request beyond them is 409 and changes nothing; a login leaves out what doesn't fit.

import t, { type Test } from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import type { Answer } from '../harness/client.js';
import { ITEM } from '../harness/shop.js';

const PATH = '/product/visit';
type Ids = Readonly<Record<string, string>>;
const large = (bytes: number) => ({ properties: { text: 'x'.repeat(bytes) } });

async function isRefused(t: Test, app: TestApp, who: readonly Ids[], ...sends: (() => Promise<Answer>)[]) {
  const exported = async (ids: Ids) => {
    const { status, json } = await app.get(withQuery('/profile', ids), TRUSTED);
    return { status, json };
  };
  const state = () => Promise.all(who.map(exported));
  const before = await state();
  for (const send of sends) {
    const answer = await send();
    const code = /^too_many_(items|products)$/;
    t.match(answer, { status: 409, json: { code, error: String } }, answer.text);
    t.equal(answer.headers['retry-after'], undefined, 'sending it again does not help');
  }
  t.same(await state(), before);
}

eachRedis(t, async (t, redis) => {
  const env = { MAX_PRODUCTS: '3', MAX_ITEMS: '3', MAX_ITEMS_BYTES: '4096' };
  const app = await startApp(t, redis, { env });
  /** Knows nothing of what `app` has linked. */
  const other = await startApp(t, redis, { env, prefix: app.prefix });
  const servers = [app, other];
  const { erase, exported, items, login, remove } = app.shop;
  const visit = (identity: Ids, productHandle: string, { query = '', headers = {}, by = app } = {}) =>
    by.post(PATH + query, { identity, productHandle }, { ...TRUSTED, ...headers });
  const fill = async (identity: Ids, handles: readonly string[] = ['a', 'b', 'c']) => {
    for (const handle of handles) await app.shop.visit(identity, handle);
  };
  const add = (identity: Ids, productId: string, changes: object = {}, by = app) => {
    const facts = { email: 'a@refused.example', firstName: 'Ann' };
    const body = { identity: { ...identity, ...facts }, ...ITEM, productId, ...changes };
    return by.post('/item/add', body, TRUSTED);
  };
  const wish = async (identity: Ids, ids: readonly string[], changes: object = {}) => {
    for (const productId of ids) await app.shop.add(identity, { productId, ...changes });
  };
  const listed = async (identity: Ids) => (await items(identity)).map(({ productId }) => productId).sort();
  let people = 0;
  const pair = (): [customer: Ids, session: Ids, both: Ids] => {
    const n = ++people;
    const [customer, session] = [{ customerId: `c${n}` }, { sessionId: `session-${n}` }];
    return [customer, session, { ...customer, ...session }];
  };

  const leftOut = (kind: 'product' | 'item') => app.figure(`merge_left_out_total{kind="${kind}"}`);

  t.test(
    "a login keeps the customer's products, then the session's as far as MAX_PRODUCTS allows",
    async (t) => {
      const [customer, session, both] = pair();
      await fill(session);
      await fill(customer, ['c', 'd']);
      t.equal((await login(both as never)).merged, true);
      t.same((await exported(customer)).visits, { a: 1, c: 2, d: 1 });
      t.equal(await leftOut('product'), 1);
      await isRefused(t, app, [customer], () => visit(session, 'b'));
      t.equal((await app.shop.visit(session, 'd')).count, 2);
    },
  );

  t.test(
    "a login keeps the customer's items, then the session's newest within MAX_ITEMS and MAX_ITEMS_BYTES",
    async (t) => {
      for (const [changes, ofCustomer, ofSession, kept] of [
        [large(10), ['1'], ['2', '3', '4'], ['1', '3', '4']],
        [large(10), ['1', '2', '3'], ['2', '4'], ['1', '2', '3']],
        [large(1_100), ['1'], ['2', '3'], ['1', '3']],
        [large(1_900), ['1'], ['2'], ['1']],
      ] as const) {
        const [customer, session, both] = pair();
        await wish(customer, ofCustomer, changes);
        await wish(session, ofSession, { ...changes, quantity: 3 });
        const before = Number(await leftOut('item'));
        t.match(await login(both as never), { merged: true });
        t.same(await listed(customer), kept);
        const all = new Set([...ofCustomer, ...ofSession]).size;
        t.equal(await leftOut('item'), before + all - kept.length);
        const own = (await items(customer)).filter(({ quantity }) => quantity === 1);
        t.equal(own.length, ofCustomer.length, "the customer's own items are as they were");
        await isRefused(t, app, [customer], () => add(both, '7', changes));
        t.match(await remove(customer, { productId: kept[0] }), { removed: true });
        t.equal((await add(both, '7', changes)).status, 200);
      }
    },
  );

  t.test('after a merge the bytes of each item count once', async (t) => {
    const [customer, session, both] = pair();
    await fill(customer);
    await wish(session, ['1'], large(1_500));
    t.match(await login(both as never), { merged: true });
    t.equal((await add(both, '2', large(1_000))).status, 200);
  });

  const ALL = ['a', 'b', 'c'];
  /** Requests with two ids that visit a product. */
  type Way = (ids: Ids, handle: string, by: TestApp) => Promise<Answer>;
  const all: Way[] = [
    (ids, handle, by) => visit(ids, handle, { by }),
    (ids, handle, by) => visit(ids, handle, { by, headers: { 'idempotency-key': JSON.stringify(ids) } }),
    async (identity, productHandle, by) => {
      const answer = await by.post(`${PATH}/batch`, { visits: [{ identity, productHandle }] }, TRUSTED);
      const json = answer.json.results[0];
      return { ...answer, json, status: json.code === undefined ? 200 : 409 };
    },
  ];
  const ways = redis.urls.length > 1 ? all.slice(0, 1) : all;

  for (const [name, ofSession] of [
    ['the session is unknown', []],
    ['the session is a guest', ['a', 'e']],
    ["the session is another customer's", undefined],
  ] as const)
    t.test(
      `a visit with two ids that exceeds the customer's MAX_PRODUCTS links nothing if ${name}`,
      async (t) => {
        for (const send of ways) {
          const [customer, session, both] = pair();
          await fill(customer, ALL);
          if (ofSession !== undefined) await fill(session, ofSession);
          else await fill({ ...session, customerId: `first-${session['sessionId']}` }, ['z']);
          const refused = servers.map((by) => () => send(both, 'd', by));
          await isRefused(t, app, [customer, session], ...refused);
          t.equal((await send(both, 'c', app)).status, 200, 'a known product links them');
        }
      },
    );

  t.test("a visit with two ids is counted even if its guest's products fill MAX_PRODUCTS", async (t) => {
    for (const [ofCustomer, ofSession, visits] of [
      [[], ALL, { a: 1, b: 1, d: 1 }],
      [['a', 'b'], ['b', 'c'], { a: 1, b: 2, d: 1 }],
      [['a'], ['b', 'c', 'd'], { a: 1, b: 1, d: 2 }],
      [['a'], ['d', 'e'], { a: 1, d: 2, e: 1 }],
    ] as const)
      for (const send of ways) {
        const [customer, session, both] = pair();
        await fill(customer, ofCustomer);
        await fill(session, ofSession);
        t.equal((await send(both, 'd', other)).status, 200);
        t.same((await exported(customer)).visits, visits);
      }
  });

  t.test(
    "an item with two ids that exceeds the customer's MAX_ITEMS or MAX_ITEMS_BYTES links nothing",
    async (t) => {
      for (const [changes, ofCustomer, ofSession] of [
        [{}, ['1', '2', '3'], []],
        [{}, ['1', '2', '3'], ['1', '5']],
        [large(1_900), ['1'], []],
        [large(1_900), ['1'], ['4']],
      ] as const) {
        const [customer, session, both] = pair();
        await wish(customer, ofCustomer, changes);
        await wish(session, ofSession);
        const refused = servers.map((by) => () => add(both, '4', changes, by));
        await isRefused(t, app, [customer, session], ...refused);
        t.equal((await add(both, '1', changes)).status, 200, 'an item that is there links them');
      }
    },
  );

  t.test("an item with two ids is saved even if its guest's items fill a limit", async (t) => {
    for (const [changes, ofCustomer, ofSession, kept] of [
      [{}, [], ['1', '2', '3'], ['2', '3', '4']],
      [{}, ['1', '2'], ['2', '3'], ['1', '2', '4']],
      [large(1_100), ['1'], ['2'], ['1', '4']],
      [{}, ['1'], ['2', '3', '4'], ['1', '3', '4']],
      [{}, ['1'], ['4', '5'], ['1', '4', '5']],
      [large(700), ['1'], ['4', '5'], ['1', '4', '5']],
    ] as const) {
      const [customer, session, both] = pair();
      await wish(customer, ofCustomer, changes);
      await wish(session, ofSession, changes);
      t.equal((await add(both, '4', changes, other)).status, 200);
      t.same(await listed(customer), kept);
    }
    const [customer, session, both] = pair();
    await wish(customer, ['1'], large(700));
    await wish(session, ['2', '3'], large(700));
    t.equal((await add(both, '1', large(1_900), other)).status, 200);
    t.same(await listed(customer), ['1', '3'], "the customer's own item may grow");
  });

  t.test(
    'an item of a guest or a customer that exceeds a limit is refused and changes nothing',
    async (t) => {
      const fresh = await startApp(t, redis, { env });
      for (const who of pair().slice(0, 2) as Ids[]) {
        const before = await fresh.dump();
        const tooLarge = { identity: who, ...ITEM, ...large(4_000) };
        await isRefused(t, fresh, [who], () => fresh.post('/item/add', tooLarge, TRUSTED));
        t.same(await fresh.dump(), before);
        await isRefused(t, app, [who], () => add(who, '1', large(4_000)));
        t.same(await erase(who), { erased: false }, 'an unknown visitor stays so');
        await wish(who, ['1', '2', '3']);
        await isRefused(t, app, [who], ...servers.map((by) => () => add(who, '4', {}, by)));
        t.same((await exported(who)).profile, {});
        t.equal((await add(who, '3')).status, 200);
        t.match((await exported(who)).profile, { email: 'a@refused.example', firstName: 'Ann' });
      }
    },
  );

  // The tests below stay within one profile, so a cluster adds nothing.
  if (redis.urls.length > 1) return;

  t.test(
    'a visit beyond MAX_PRODUCTS is refused, known products still count, and a reset makes room',
    async (t) => {
      const [customer, session, both] = pair();
      for (const who of [customer, session, both]) {
        await fill(who);
        for (const query of ['', '?count=true']) {
          const headers = { 'idempotency-key': `${JSON.stringify(who)}${query}` };
          const keyed = () => visit(who, 'd', { query, headers });
          await isRefused(t, app, [who], () => visit(who, 'd', { query }), keyed, keyed);
        }
        const known = {
          query: '?count=true',
          headers: { 'idempotency-key': `${JSON.stringify(who)} known` },
        };
        t.equal((await visit(who, 'a', known)).status, 200);
        t.equal(await other.shop.count(who, 'd'), 0);
        await app.shop.reset(who, 'b');
        const headers = { 'idempotency-key': `${JSON.stringify(who)}?count=true` };
        const retry = await visit(who, 'd', { query: '?count=true', headers });
        t.match(retry, { status: 200, json: { count: 1 } }, 'refused once, not for ever');
        await isRefused(t, app, [who], () => visit(who, 'b'));
        for (const handle of ['a', 'c', 'd']) await app.shop.reset(who, handle);
      }
    },
  );

  t.test('a visit that links two ids is counted if the products of both fit', async (t) => {
    const [customer, session, both] = pair();
    for (const who of [customer, session]) await fill(who, ['a', 'b']);
    t.match(await app.shop.visit(both, 'c'), { count: 1 });
    t.match(await app.shop.visit(both, 'a'), { count: 3 });
  });

  t.test('an item beyond MAX_ITEMS is refused, updates are not, and a removal makes room', async (t) => {
    for (const who of pair().slice(0, 2) as Ids[]) {
      await wish(who, ['1', '2', '3']);
      // With facts, the request is refused before they are stored; without them, by the script that adds the
      // item.
      await isRefused(t, app, [who], () => add(who, '4'));
      const bare = { identity: who, ...ITEM, productId: '4' };
      await isRefused(t, app, [who], () => app.post('/item/add', bare, TRUSTED));
      t.match(await add(who, '2', { quantity: 9 }), { status: 200, json: { quantity: 9 } });
      t.match(await remove(who, { productId: '1' }), { removed: true });
      t.equal((await add(who, '4')).status, 200);
      t.same(await listed(who), ['2', '3', '4']);
      await isRefused(t, app, [who], () => add(who, '1'));
    }
  });

  t.test(
    'an item that exceeds MAX_ITEMS_BYTES is refused, new or updated, and an update that shrinks one is not',
    async (t) => {
      const who = { sessionId: 'bytes' };
      await wish(who, ['1'], large(1_500));
      await wish(who, ['2'], large(1_000));
      const tooLarge = [() => add(who, '3', large(1_000)), () => add(who, '2', large(2_500))];
      await isRefused(t, app, [who], ...tooLarge);
      await wish(who, ['1'], large(10));
      t.equal((await add(who, '3', large(1_000))).status, 200, 'there is room now');
      await isRefused(t, app, [who], () => add(who, '2', large(2_500)));
      await remove(who, { productId: '2' });
      t.equal((await add(who, '4', large(1_500))).status, 200, 'a removal makes room');
      t.same(await listed(who), ['1', '3', '4']);
    },
  );
});
