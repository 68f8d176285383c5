// Changes of wishlists while visitors move, and orders that come again: each answer has its event, each item leaves once.

import t from 'tap';
import type { ScriptArg } from '../../src/redis/scripts.js';
import { eachRedis } from '../harness/app.js';
import {
  add,
  CUSTOMER,
  deliver,
  followShare,
  GUEST,
  listOf,
  login,
  newVisitor,
  products,
  remove,
  share,
  shownEvents,
  startServer,
  startTwo,
  type Visitor,
} from './fixtures.js';

let worlds = 0;
const nothing = async () => {};
eachRedis(t, async (t, redis) => {
  t.test('a change of a guest whom another server has just merged goes to the customer', async (t) => {
    const prefix = `w${worlds++}`;
    const [server, other] = await startTwo(t, redis, prefix);
    await add(other, GUEST, '1');
    await add(other, CUSTOMER, '2');
    let target = '';
    server.onChange = async () => {
      server.onChange = nothing;
      t.ok(await login(other, { customerId: 'c', sessionId: 's' }));
      target = other.locator.profileOf('c:c');
    };
    await add(server, GUEST, '3');
    t.equal((await products(server)).length, 3);
    const removed = await server.visitors.changeExisting(GUEST, true, (location) =>
      server.items.remove(location, GUEST, { productId: '1', variantId: null, type: 'remove' }),
    );
    t.same(removed, { profileId: target, answer: { removed: true } });
    t.equal(await share(server, GUEST), await share(other, CUSTOMER));
    const lines = [{ productId: '2', variantId: null, quantity: 1, price: '1.00' }];
    await deliver(server, GUEST, lines);
    t.same(await products(other, CUSTOMER), ['3']);
    const profiles = (await shownEvents(redis, prefix)).slice(2).map(({ profile_id }) => profile_id);
    t.same(profiles, Array(5).fill(target));
  });

  t.test('concurrent changes are accepted as long as the stream has room for their events', async (t) => {
    const prefix = `w${worlds++}`;
    const bytes = async () =>
      (await shownEvents(redis, prefix)).reduce((sum, row) => sum + JSON.stringify(row).length + 1, 0);
    const ids = Array.from({ length: 20 }, (_, i) => String(i));
    const roomy = await startServer(t, redis, prefix);
    for (const act of [add, remove]) {
      const [before, room] = [await bytes(), 2_000];
      const server = await startServer(t, redis, prefix, { highWater: before + room });
      await Promise.allSettled(ids.map((id) => act(server, GUEST, id)));
      const taken = (await bytes()) - before;
      t.ok(taken > room / 2 && taken <= room, `${act.name}: ${taken} bytes`);
      for (const id of ids) await add(roomy, GUEST, id);
    }
  });

  t.test('a guest who is erased while sharing and comes back gets a new code', async (t) => {
    const prefix = `w${worlds++}`;
    const [server, other] = await startTwo(t, redis, prefix);
    await add(other);
    const before = await share(other);
    let changes = 0;
    server.onChange = async () => {
      // The first call has read the code, the second one shares it.
      if (++changes !== 2) return;
      await other.eraser.erase('s:s');
      await add(other, GUEST, '2');
    };
    const after = await share(server);
    t.ok(changes > 2);
    t.not(after, before);
    t.same([await followShare(other, before), await followShare(other, after)], [[], ['2']]);
  });
});

const PREFIX = 'p';
/** Items of a list of several pages; every other one is bought. */
const MANY = 1_000;
const lineOf = (productId: string) => ({ productId, variantId: null, quantity: 1, price: '1.00' });
eachRedis(t, async (t, redis) => {
  const start = () => startServer(t, redis, PREFIX);
  const other = await start();
  const bought = async (visitor: Visitor) =>
    (await shownEvents(redis, PREFIX, visitor))
      .filter(({ origin }) => origin === 'purchase')
      .map(({ product_id }) => product_id)
      .sort();

  t.test('a wishlist of many pages', async (t) => {
    const visitor = newVisitor();
    const { guest, customer, ids } = visitor;
    const all = Array.from({ length: MANY }, (_, i) => i);
    const left = all.filter((id) => id % 2 === 1);
    const sorted = (list: readonly { readonly productId: string }[]) =>
      list.map(({ productId }) => Number(productId)).sort((a, b) => a - b);
    for (let i = 0; i < MANY; i += 50)
      await Promise.all(all.slice(i, i + 50).map((id) => add(other, guest, String(id))));
    const server = await start();
    const run = server.store.run.bind(server.store);
    let pages = 0;
    let afterPage = async (_page: number) => {};
    server.store.run = async (script, keys, args: readonly ScriptArg[]) => {
      const reply = await run(script, keys, args);
      if (script.name === 'readItems') await afterPage(++pages);
      return reply;
    };

    t.test('a list of many pages has all items, newest first', async (t) => {
      const { items } = await listOf(server, guest);
      t.same(sorted(items), all);
      t.ok(pages >= 5, `${pages} pages`);
      const added = items.map(({ addedAt }) => addedAt);
      t.same(added, added.toSorted().reverse());
    });

    t.test('an order of 500 lines that is sent twice removes each bought item once', async (t) => {
      const lines = all.filter((id) => id % 2 === 0).map((id) => lineOf(String(id)));
      for (let again = 0; again < 2; again++) await deliver(server, guest, lines);
      t.same(sorted((await listOf(server, guest)).items), left);
      t.equal((await bought(visitor)).length, MANY / 2);
    });

    t.test("a list whose profile is merged between two pages is the customer's, and complete", async (t) => {
      // Enough items that some come before the second page.
      const others = Array.from({ length: 30 }, (_, i) => 9_000 + i);
      for (const id of others) await add(server, customer, String(id));
      const { profileId: target } = await server.visitors.find(customer);
      pages = 0;
      afterPage = async (page) => {
        if (page !== 2) return;
        t.ok(await login(server, ids));
      };
      const list = await listOf(server, guest);
      t.equal(list.profileId, target);
      t.same(sorted(list.items), [...left, ...others]);
    });
  });
});
