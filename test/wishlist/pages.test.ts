// A wishlist of many items is read in pages, and what happens between two of them.

import t from 'tap';
import type { ScriptArg } from '../../src/redis/scripts.js';
import { eachRedis } from '../harness/app.js';
import { add, CUSTOMER, deliver, GUEST } from './deeds.js';
import { startServer } from './world.js';

const MANY = 700;

eachRedis(t, async (t, redis) => {
  const prefix = 'pages';
  const server = await startServer(t, redis, prefix);
  const ids = Array.from({ length: MANY }, (_, i) => String(i + 1));
  const sorted = (list: readonly { readonly productId: string }[]) =>
    list.map(({ productId }) => Number(productId)).sort((a, b) => a - b);
  for (let i = 0; i < MANY; i += 50)
    await Promise.all(ids.slice(i, i + 50).map((id) => add(server, GUEST, id)));
  const { profileId } = await server.visitors.find(GUEST, true);
  const run = server.store.run.bind(server.store);
  let pages = 0;
  let afterPage = async (_page: number) => {};
  server.store.run = async (script, keys, args: readonly ScriptArg[]) => {
    const reply = await run(script, keys, args);
    if (script.name === 'items') await afterPage(++pages);
    return reply;
  };

  t.test('all items, newest first, in several calls', async (t) => {
    const { items } = await server.items.list(profileId);
    t.same(sorted(items), ids.map(Number));
    t.ok(pages >= 5, `${pages} pages`);
    const added = items.map(({ addedAt }) => addedAt);
    t.same(added, added.toSorted().reverse());
  });

  t.test('an order finds what is on a later page', async (t) => {
    const lines = [{ productId: '1', variantId: null, quantity: 1, price: '1.00' }];
    for (const productId of ['350', String(MANY)])
      lines.push({ ...lines[0], productId } as (typeof lines)[0]);
    await deliver(server, GUEST, 'order', lines);
    t.same(
      sorted((await server.items.list(profileId)).items),
      ids.map(Number).filter((id) => ![1, 350, MANY].includes(id)),
    );
  });

  t.test('a profile that is merged away between two pages: the list is its heir’s, whole', async (t) => {
    await add(server, CUSTOMER, '9999');
    const { profileId: heir } = await server.visitors.find(CUSTOMER, true);
    pages = 0;
    afterPage = async (page) => {
      if (page !== 2) return;
      // Large, so it may go on for longer than its request waits.
      for (let i = 0; i < 100; i++) {
        const linked = await server.visitors.link({ customerId: 'c', sessionId: 's' }).catch(() => undefined);
        if (linked !== undefined) return;
      }
      throw new Error('the merge never ends');
    };
    const list = await server.items.list(profileId);
    t.equal(list.profileId, heir);
    t.same(sorted(list.items), [...ids.map(Number).filter((id) => ![1, 350, MANY].includes(id)), 9999]);
  });
});
