// An order that repeats: its server ends after any step, the visitor's profile is merged away in between, and the same
// delivery comes again. Each item leaves once, with one event. And orders of the size that they may have, and wishlists of many pages.

import t from 'tap';
import { ServiceError } from '../../src/errors.js';
import type { ScriptArg } from '../../src/redis/scripts.js';
import { eachRedis } from '../harness/app.js';
import {
  add,
  BOTH,
  CUSTOMER,
  deliver,
  GUEST,
  products,
  type Server,
  shownEvents,
  startServer,
  untilSent,
} from './fixtures.js';

let worlds = 0;
const MAX_STEPS = 60;
/** Items of a list of several pages. */
const MANY = 700;
const AT_ONCE = 4;

const lineOf = (productId: string) => ({
  productId,
  variantId: null,
  quantity: 1,
  price: '1.00',
});

eachRedis(t, async (t, redis) => {
  t.test('a delivery that crashed, a merge, and the delivery again: one event an item', async (t) => {
    const bought = ['1', '2'].map(lineOf);
    for (let steps = 1; ; steps++) {
      if (steps > MAX_STEPS) throw new Error('the delivery never ends');
      const prefix = `p${worlds++}`;
      const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
      for (const product of ['1', '2', '3']) await add(server, GUEST, product);
      await add(server, CUSTOMER, '4');
      server.crashAfter(steps, true);
      await deliver(server, GUEST, 'd', bought).catch((error) => t.equal(error.code, 'unavailable'));
      if (!server.recover()) break;

      const { merged } = await other.visitors.link({ customerId: 'c', sessionId: 's' });
      t.equal(merged, true);
      await add(other, CUSTOMER, '1');
      await deliver(other, BOTH, 'd', bought);
      const events = (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'purchase');
      t.same(events.map(({ product_id }) => product_id).sort(), ['1', '2'], `after step ${steps}`);
      t.ok(!(await products(other, CUSTOMER)).includes('2'));
      t.ok((await products(other, CUSTOMER)).includes('3'));
    }
  });

  t.test(
    'a retry that ended anywhere while the session was elsewhere: done once when it is back',
    async (t) => {
      const link = (server: Server, customerId: string) =>
        server.visitors.link({ customerId, sessionId: 's' });
      /** @returns whether the retry ended there, and not by itself */
      const endsAfter = async (steps: number): Promise<boolean> => {
        const prefix = `p${worlds++}`;
        const [first, second] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
        await link(first, 'c');
        await add(first, GUEST, '1');
        // Its place is recorded, and nothing is done there.
        await first.deliveries
          .run({ scope: 'order', key: 'd', fingerprint: '' }, '', async () => {
            const { profileId } = await first.visitors.find(GUEST, false);
            await (await first.deliveries.part('removal', 'd')).settle(profileId);
            throw new ServiceError('unavailable');
          })
          .catch((error) => t.equal(error.code, 'unavailable'));
        await link(first, 'd');
        second.crashAfter(steps, true);
        await deliver(second, GUEST, 'd', [lineOf('1')]).catch((error) => t.equal(error.code, 'unavailable'));
        if (!second.recover()) return false;
        await link(first, 'c');
        await deliver(first, GUEST, 'd', [lineOf('1')]);
        const events = (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'purchase');
        const left = await products(first, CUSTOMER);
        t.ok(
          (events.length === 1 && left.length === 0) || (events.length === 0 && left.length === 1),
          `after step ${steps}: ${events.length} events, ${left.length} left`,
        );
        return true;
      };
      // Most of their time they wait for each other.
      for (let steps = 1; ; steps += AT_ONCE) {
        if (steps > MAX_STEPS) throw new Error('the delivery never ends');
        const ended = await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => endsAfter(steps + i)));
        if (ended.includes(false)) break;
      }
    },
  );

  t.test(
    'an order of 500 lines and a wishlist of 1,000 items: each item that was bought leaves, once',
    async (t) => {
      const prefix = `p${worlds++}`;
      const server = await startServer(t, redis, prefix);
      for (let i = 0; i < 1_000; i += 50) {
        await Promise.all(Array.from({ length: 50 }, (_, j) => add(server, GUEST, String(i + j))));
      }
      const lines = Array.from({ length: 500 }, (_, i) => lineOf(String(i * 2)));
      for (let again = 0; again < 2; again++) await deliver(server, GUEST, 'd', lines);
      const left = await products(server, GUEST);
      t.equal(left.length, 500);
      t.ok(left.every((product) => Number(product) % 2 === 1));
      const events = (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'purchase');
      t.equal(events.length, 500);
      await untilSent(redis, prefix);
    },
  );

  t.test('a list of many items', async (t) => {
    const prefix = `p${worlds++}`;
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
      // So many that some stand before the second page.
      const others = Array.from({ length: 30 }, (_, i) => 9_000 + i);
      for (const id of others) await add(server, CUSTOMER, String(id));
      const { profileId: heir } = await server.visitors.find(CUSTOMER, true);
      pages = 0;
      afterPage = async (page) => {
        if (page !== 2) return;
        // Large, so it may go on for longer than its request waits.
        for (let i = 0; i < 100; i++) {
          const linked = await server.visitors
            .link({ customerId: 'c', sessionId: 's' })
            .catch(() => undefined);
          if (linked !== undefined) return;
        }
        throw new Error('the merge never ends');
      };
      const list = await server.items.list(profileId);
      t.equal(list.profileId, heir);
      t.same(sorted(list.items), [
        ...ids.map(Number).filter((id) => ![1, 350, MANY].includes(id)),
        ...others,
      ]);
    });
  });
});
