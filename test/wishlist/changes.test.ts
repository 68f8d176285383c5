// Changes of wishlists while visitors move and servers know less than Redis: each answer has its event, and no other is there.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eachRedis } from '../harness/app.js';
import { identityOf } from '../harness/samples.js';
import {
  add,
  CUSTOMER,
  deliver,
  GUEST,
  products,
  remove,
  type Server,
  share,
  shownEvents,
  startServer,
} from './fixtures.js';

let worlds = 0;
const nothing = async () => {};

eachRedis(t, async (t, redis) => {
  t.test('a full stream refuses a change, and nothing of it is left', async (t) => {
    const prefix = `w${worlds++}`;
    const server = await startServer(t, redis, prefix, { highWater: 1 });
    for (let i = 0; i < 3; i++) await t.rejects(add(server, GUEST, String(i)), { code: 'overloaded' });
    t.same(await products(server), [], 'what was refused is not on the list');
    const drained = await startServer(t, redis, prefix);
    await add(drained, GUEST, '7');
    t.same(await products(server), ['7']);
    t.equal((await shownEvents(redis, prefix)).length, 1);
  });

  t.test('a change of a guest that was merged meanwhile is one of the target', async (t) => {
    const prefix = `w${worlds++}`;
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await add(other, GUEST, '1');
    await add(other, CUSTOMER, '2');
    let target = '';
    // The merge comes after the link was read, where that is a step of its own.
    server.onChange = async () => {
      server.onChange = nothing;
      const { profileId, merged } = await other.visitors.link({ customerId: 'c', sessionId: 's' });
      t.ok(merged);
      target = profileId;
    };
    await add(server, GUEST, '3');
    t.equal((await products(server)).length, 3);
    const removed = await server.visitors.changeKnown(GUEST, true, (place) =>
      server.items.remove(place, GUEST, '1', null, 'remove'),
    );
    t.same(removed, { profileId: target, answer: { removed: true } });
    t.equal(await share(server, GUEST), await share(other, CUSTOMER));
    const lines = [{ productId: '2', variantId: null, quantity: 1, price: '1.00' }];
    await deliver(server, GUEST, lines);
    t.same(await products(other, CUSTOMER), ['3']);
    t.same(
      (await shownEvents(redis, prefix)).slice(2).map(({ profile_id }) => profile_id),
      [target, target, target, target, target],
    );
  });

  t.test(
    'a crowd of changes and merges over two servers: each answer has its event, and no other is',
    async (t) => {
      const prefix = `w${worlds++}`;
      const servers = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
      const done = { add: 0, remove: 0, moveToCart: 0 };
      const guests = ['g1', 'g2', 'g3'];
      await Promise.all(
        Array.from({ length: 300 }, async (_, i) => {
          await sleep(i % 17);
          const server = servers[i % 2] as Server;
          const sessionId = guests[i % 3] as string;
          const who = identityOf(i % 5 === 0 ? { customerId: 'c', sessionId } : { sessionId });
          const product = String(i % 4);
          if (i % 2 === (i >> 3) % 2) {
            await add(server, who, product, i + 1);
            done.add++;
          } else {
            const type = i % 7 < 3 ? 'remove' : 'moveToCart';
            if (await remove(server, who, product, type)) done[type]++;
          }
        }),
      );
      const shown = { add: 0, remove: 0, moveToCart: 0 };
      for (const { type } of await shownEvents(redis, prefix)) shown[type as keyof typeof shown]++;
      t.same(shown, done);
      t.ok(done.remove > 0 && done.moveToCart > 0, JSON.stringify(done));
      const lists = await Promise.all(
        [CUSTOMER, ...guests.map((sessionId) => identityOf({ sessionId }))].map((who) =>
          products(servers[0] as Server, who),
        ),
      );
      for (const list of lists) t.same(list, lists[0], 'they are one visitor in the end');
    },
  );
});
