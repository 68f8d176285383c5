// Events that are pending in an outbox: whose they are, how long for, and where they go when their profile does.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eachRedis } from '../harness/app.js';
import { identityOf } from '../harness/samples.js';
import {
  add,
  age,
  buy,
  CUSTOMER,
  deliver,
  GUEST,
  keyed,
  outboxes,
  products,
  remove,
  type Server,
  share,
  shownEvents,
  startServer,
  untilSent,
} from './fixtures.js';

let worlds = 0;
const nothing = async () => {};
const isGone = { message: 'the stream is gone' };
const IS_GONE = () => Promise.reject(new Error(isGone.message));

eachRedis(t, async (t, redis) => {
  // Where the stream is on another node, an event waits in an outbox.
  const isCluster = redis.urls.length > 1;
  const onCluster = { skip: isCluster ? false : 'on one server a change appends its event' } as const;

  t.test(
    'an event that is still pending when its profile is merged away goes along',
    onCluster,
    async (t) => {
      for (const merges of ['before the retry', 'while it is appended'] as const) {
        const prefix = `w${worlds++}`;
        const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
        await add(server, GUEST, '1');
        await add(server, CUSTOMER, '2');
        const link = () => other.visitors.link({ customerId: 'c', sessionId: 's' });
        if (merges === 'while it is appended') {
          server.onAppend = async () => {
            server.onAppend = nothing;
            await link();
          };
          t.equal(await remove(server, GUEST, '1'), true);
        } else {
          const ask = () =>
            keyed(server, 'k', (operation) => remove(server, GUEST, '1', 'remove', operation));
          server.onAppend = IS_GONE;
          await t.rejects(ask(), isGone);
          server.onAppend = nothing;
          await link();
          t.equal(await ask(), true, 'as the first time would have answered');
        }
        t.equal(await remove(server, GUEST, '1'), false);
        t.same(await products(server, CUSTOMER), ['2'], merges);
        t.same(
          (await shownEvents(redis, prefix)).map(({ type }) => type),
          ['add', 'add', 'remove'],
        );
        await untilSent(redis, prefix);
      }
    },
  );

  t.test(
    'an event left behind is brought to the stream by the next change, a minute later',
    onCluster,
    async (t) => {
      const prefix = `w${worlds++}`;
      const server = await startServer(t, redis, prefix);
      server.onAppend = IS_GONE;
      await t.rejects(add(server, GUEST, '1'));
      server.onAppend = nothing;
      await add(server, GUEST, '2');
      const payloads = async () => (await shownEvents(redis, prefix)).map(({ product_id }) => product_id);
      t.same(await payloads(), ['2'], 'until then its own client may come back for it');
      t.equal(Object.keys(await outboxes(redis, prefix)).length, 1);

      await age(redis, prefix, 61_000);
      await remove(server, GUEST, 'nothing there');
      t.same(await payloads(), ['2', '1']);
      await untilSent(redis, prefix);
      t.same((await products(server)).sort(), ['1', '2']);
    },
  );

  t.test(
    "Redis's clock may be set back: an event that is left behind does not wait longer for that",
    onCluster,
    async (t) => {
      const prefix = `w${worlds++}`;
      const server = await startServer(t, redis, prefix);
      const leaveBehind = async (product: string) => {
        server.onAppend = IS_GONE;
        await t.rejects(add(server, GUEST, product), isGone);
        server.onAppend = nothing;
        await age(redis, prefix, -3_600_000);
      };
      await leaveBehind('2');
      await add(server, GUEST, '3');
      t.equal(Object.keys(await outboxes(redis, prefix)).length, 1, 'how old it is begins anew');
      await age(redis, prefix, 61_000);
      await add(server, GUEST, '4');
      await untilSent(redis, prefix);
      t.equal((await shownEvents(redis, prefix)).length, 3);
    },
  );

  t.test(
    'a full stream refuses, lets no outbox grow without bound, and all is made up for later',
    async (t) => {
      const prefix = `w${worlds++}`;
      const server = await startServer(t, redis, prefix, { highWater: 1 });
      for (let i = 0; i < 70; i++) await t.rejects(add(server, GUEST, String(i)), { code: 'overloaded' });
      const pending = isCluster ? 64 : 0;
      t.equal(Object.keys(await outboxes(redis, prefix)).length, pending);
      t.equal((await products(server)).length, pending, 'what was refused is not on the list');

      const drained = await startServer(t, redis, prefix);
      await add(drained, GUEST, '70');
      t.equal((await products(server)).length, pending + 1);
      await untilSent(redis, prefix);
      t.equal((await shownEvents(redis, prefix)).length, pending + 1);
    },
  );

  t.test('who still believes in a profile that was merged away changes its heir', async (t) => {
    const prefix = `w${worlds++}`;
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await add(other, GUEST, '1');
    await add(other, CUSTOMER, '2');
    const { profileId: gone } = await server.visitors.find(GUEST, true);
    let heir = '';
    // The merge comes after the door was asked, where that is a step of its own.
    server.onChange = async () => {
      server.onChange = nothing;
      const { profileId, merged } = await other.visitors.link({ customerId: 'c', sessionId: 's' });
      t.ok(merged);
      heir = profileId;
    };
    await add(server, GUEST, '3');
    t.equal((await server.items.list(gone)).items.length, 3);
    const removed = await server.visitors.changeKnown(GUEST, true, (place) =>
      server.items.remove(place, GUEST, '1', null, 'remove'),
    );
    t.same(removed, { profileId: heir, answer: { removed: true } });
    t.equal(await share(server, GUEST), await share(other, CUSTOMER));
    const lines = [{ productId: '2', variantId: null, quantity: 1, price: '1.00' }];
    await deliver(server, GUEST, 'delivery', lines);
    t.same(await products(other, CUSTOMER), ['3']);
    t.same(
      (await shownEvents(redis, prefix)).slice(2).map(({ profile_id }) => profile_id),
      [heir, heir, heir, heir, heir],
    );
  });

  t.test(
    'a purchase is done once under its id, also where what was bought is wished for again',
    async (t) => {
      const prefix = `w${worlds++}`;
      const server = await startServer(t, redis, prefix);
      await add(server);
      await buy(server);
      await add(server);
      await buy(server);
      t.same(await products(server), ['1']);
      t.same(
        (await shownEvents(redis, prefix)).map(({ type }) => type),
        ['add', 'autoRemoveAfterPurchase', 'add'],
      );
    },
  );

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
      await untilSent(redis, prefix);
      const lists = await Promise.all(
        [CUSTOMER, ...guests.map((sessionId) => identityOf({ sessionId }))].map((who) =>
          products(servers[0] as Server, who),
        ),
      );
      for (const list of lists) t.same(list, lists[0], 'they are one visitor in the end');
    },
  );
});
