// An order that repeats: its server ends after any step, the visitor's profile is merged away in between, and the same
// delivery comes again. Each item leaves once, with one event. And orders of the size that they may have.

import t from 'tap';
import { ServiceError } from '../../src/errors.js';
import { eachRedis } from '../harness/app.js';
import { add, BOTH, CUSTOMER, deliver, GUEST, products, untilSent } from './deeds.js';
import { type Server, shownEvents, startServer } from './world.js';

let worlds = 0;
const MAX_STEPS = 60;
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
});
