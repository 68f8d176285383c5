// A change of a wishlist and its event are one: servers end after any step of a request, its client sends it again
// to another one, and the answer, the wishlist and the events are as if nothing had happened.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eachRedis } from '../harness/app.js';
import { connectTo, dumpRedis } from '../harness/dump.js';
import { contentOf, identityOf, type Redis, type Server, shownEvents, startServer } from './world.js';

/** More than any request takes. */
const MAX_STEPS = 40;
let worlds = 0;

interface Case {
  readonly name: string;
  prepare(server: Server): Promise<unknown>;
  /** The request; its answer is compared with that of a run without a crash. */
  act(server: Server): Promise<unknown>;
  /** What there is to see of the answer, where that is not the answer itself. */
  see?(server: Server, answer: unknown): Promise<unknown>;
  /** Types of all events in the end, in any order. */
  readonly events: readonly string[];
  /** Products on the wishlist in the end. */
  readonly items: readonly string[];
  /** Whether it goes to several slots, so that a cluster is another matter. */
  readonly hops?: true;
}

const GUEST = identityOf({ sessionId: 's' });
const CUSTOMER = identityOf({ customerId: 'c' });
const BOTH = identityOf({ sessionId: 's', customerId: 'c' });

async function add(server: Server, who = GUEST, product = '1', quantity = 1) {
  const { profileId } = await server.visitors.enter('resolve', who, true);
  return server.items.add(profileId, who, contentOf(product, quantity));
}

async function remove(server: Server, who = GUEST, product = '1', type: 'remove' | 'moveToCart' = 'remove') {
  const { profileId } = await server.visitors.resolveKnown(who, true);
  return (await server.items.remove(profileId, who, product, null, type)).removed;
}

async function share(server: Server, who = GUEST) {
  const { profileId } = await server.visitors.enter('resolve', who, true);
  return (await server.shares.share(profileId, who, 'Link')).code;
}

/** Codes are drawn anew in each run, so it is what they lead to that is compared. */
async function followShare(server: Server, code: unknown) {
  const found = await server.shares.find(String(code));
  return (await server.items.list(found ?? 'nobody')).items.map(({ productId }) => productId);
}

async function buy(server: Server, who = GUEST) {
  const lines = ['1', '2', '3'].map((productId) => ({
    productId,
    variantId: null,
    quantity: 1,
    price: '1.00',
  }));
  const { profileId } = await server.visitors.find(who, false);
  const request = { orderId: '1', identity: who, lines };
  await server.purchases.remove(profileId, who, { id: 'delivery-1', at: 1_700_000_000_000, request });
}

const nothing = async () => {};
const same = async (_server: Server, answer: unknown) => answer;

const CASES: readonly Case[] = [
  {
    name: 'add',
    prepare: nothing,
    act: async (server) => (await add(server)).item.productId,
    events: ['add'],
    items: ['1'],
  },
  {
    name: 'add again with another quantity',
    prepare: (server) => add(server),
    act: async (server) => (await add(server, GUEST, '1', 7)).item.quantity,
    events: ['add', 'add'],
    items: ['1'],
  },
  {
    name: 'add the very same again',
    prepare: (server) => add(server),
    act: async (server) => (await add(server)).item.productId,
    events: ['add', 'add'],
    items: ['1'],
  },
  {
    name: 'remove',
    prepare: (server) => add(server),
    act: (server) => remove(server),
    events: ['add', 'remove'],
    items: [],
  },
  {
    name: 'move to cart',
    prepare: (server) => add(server),
    act: (server) => remove(server, GUEST, '1', 'moveToCart'),
    events: ['add', 'moveToCart'],
    items: [],
  },
  {
    name: 'remove what is not there',
    prepare: (server) => add(server),
    act: (server) => remove(server, GUEST, '2'),
    events: ['add'],
    items: ['1'],
  },
  {
    name: 'share for the first time',
    prepare: (server) => add(server),
    act: (server) => share(server),
    see: followShare,
    events: ['add', 'share'],
    hops: true,
    items: ['1'],
  },
  {
    name: 'share again',
    prepare: async (server) => {
      await add(server);
      await share(server);
    },
    act: (server) => share(server),
    see: followShare,
    events: ['add', 'share', 'share'],
    items: ['1'],
  },
  {
    name: 'buy two of three items',
    prepare: async (server) => {
      for (const product of ['1', '2', '4']) await add(server, GUEST, product);
    },
    act: (server) => buy(server),
    events: ['add', 'add', 'add', 'autoRemoveAfterPurchase', 'autoRemoveAfterPurchase'],
    items: ['4'],
  },
  {
    name: 'add in both names, which merges two profiles first',
    prepare: async (server) => {
      await add(server, GUEST, '2');
      await add(server, CUSTOMER, '3');
    },
    act: async (server) => (await add(server, BOTH, '1')).item.productId,
    events: ['add', 'add', 'add'],
    hops: true,
    items: ['1', '3', '2'],
  },
  {
    name: 'remove in both names, which merges two profiles first',
    prepare: async (server) => {
      await add(server, GUEST, '2');
      await add(server, CUSTOMER, '3');
    },
    act: (server) => remove(server, BOTH, '2'),
    events: ['add', 'add', 'remove'],
    hops: true,
    items: ['3'],
  },
];

async function products(server: Server, who = GUEST): Promise<string[]> {
  const { profileId } = await server.visitors.find(who, true);
  return (await server.items.list(profileId)).items.map(({ productId }) => productId);
}

async function outboxes(redis: Redis, prefix: string): Promise<Record<string, string>> {
  const dump = await dumpRedis(redis, prefix);
  return Object.fromEntries(
    Object.entries(dump)
      .filter(([key]) => /:(o|jo):/.test(key))
      .flatMap(([, hash]) => Object.entries((hash ?? {}) as Record<string, string>)),
  );
}

/** What both runs must end in. */
async function outcome(redis: Redis, prefix: string, server: Server, answer: unknown) {
  return {
    answer,
    items: (await products(server)).sort(),
    events: (await shownEvents(redis, prefix)).map(({ type }) => type).sort(),
    pending: await outboxes(redis, prefix),
  };
}

eachRedis(t, async (t, redis) => {
  const cases = redis.urls.length === 1 ? CASES : CASES.filter(({ hops }) => hops);
  for (const { name, prepare, act, see = same, events, items } of cases) {
    t.test(`${name}: ended after any step and sent again, it is done once`, async (t) => {
      const start = async (): Promise<[string, Server, Server]> => {
        const prefix = `w${worlds++}`;
        return [prefix, await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
      };
      const [prefix, calm] = await start();
      await prepare(calm);
      const expected = await outcome(redis, prefix, calm, await see(calm, await act(calm)));
      t.same(expected, {
        answer: expected.answer,
        items: [...items].sort(),
        events: [...events].sort(),
        pending: {},
      });

      const [stutterer, stutters] = await start();
      await prepare(stutters);
      stutters.sendTwice();
      const stuttered = await outcome(redis, stutterer, stutters, await see(stutters, await act(stutters)));
      t.same(stuttered, expected, 'each script called twice');

      let crashes = 0;
      for (let steps = 1; ; steps++) {
        if (steps > MAX_STEPS) throw new Error('the request never ends');
        for (const lastIsDone of [false, true]) {
          const [prefix, ending, other] = await start();
          await prepare(other);
          ending.crashAfter(steps, lastIsDone);
          const first = await act(ending).then(
            (answer) => ({ answer }),
            (error) => {
              t.equal(error.code, 'unavailable');
              return undefined;
            },
          );
          if (!ending.recover()) {
            t.ok(crashes >= 2, `${crashes} crashes`);
            return;
          }
          crashes++;
          // Who got an answer does not send again.
          const { answer } = first ?? { answer: await act(steps % 2 ? other : ending) };
          while (Object.keys(await outboxes(redis, prefix)).length > 0) await sleep(5);
          const what = `ended after step ${steps}${lastIsDone ? ', which was done' : ''}`;
          t.same(await outcome(redis, prefix, other, await see(other, answer)), expected, what);
        }
      }
    });
  }

  t.test('an event that is still pending when its profile is merged away goes along', async (t) => {
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
        server.onAppend = () => Promise.reject(new Error('the stream is gone'));
        await t.rejects(remove(server, GUEST, '1'), { message: 'the stream is gone' });
        server.onAppend = nothing;
        await link();
        t.equal(await remove(server, GUEST, '1'), true, 'as the first time would have answered');
      }
      t.equal(await remove(server, GUEST, '1'), false);
      t.same(await products(server, CUSTOMER), ['2'], merges);
      t.same(
        (await shownEvents(redis, prefix)).map(({ type }) => type),
        ['add', 'add', 'remove'],
      );
      t.same(await outboxes(redis, prefix), {});
    }
  });

  t.test('an event left behind is brought to the stream by the next change, a minute later', async (t) => {
    const prefix = `w${worlds++}`;
    const server = await startServer(t, redis, prefix);
    server.onAppend = () => Promise.reject(new Error('the stream is gone'));
    await t.rejects(add(server, GUEST, '1'));
    server.onAppend = nothing;
    await add(server, GUEST, '2');
    const payloads = async () => (await shownEvents(redis, prefix)).map(({ product_id }) => product_id);
    t.same(await payloads(), ['2'], 'until then its own client may come back for it');
    t.equal(Object.keys(await outboxes(redis, prefix)).length, 1);

    await age(redis, prefix, 61_000);
    await remove(server, GUEST, 'nothing there');
    t.same(await payloads(), ['2', '1']);
    t.same(await outboxes(redis, prefix), {});
    t.same((await products(server)).sort(), ['1', '2']);
  });

  t.test(
    'a full stream refuses, lets no outbox grow without bound, and all is made up for later',
    async (t) => {
      const prefix = `w${worlds++}`;
      const server = await startServer(t, redis, prefix, { highWater: 1 });
      for (let i = 0; i < 70; i++) await t.rejects(add(server, GUEST, String(i)), { code: 'overloaded' });
      t.equal(Object.keys(await outboxes(redis, prefix)).length, 64);
      t.equal((await products(server)).length, 64, 'what was refused is not on the list');

      const drained = await startServer(t, redis, prefix);
      await add(drained, GUEST, '70');
      t.equal((await products(server)).length, 65);
      t.same(await outboxes(redis, prefix), {});
      t.equal((await shownEvents(redis, prefix)).length, 65);
    },
  );

  t.test('what failed is not under way any more: its retry does not wait', async (t) => {
    const prefix = `w${worlds++}`;
    const server = await startServer(t, redis, prefix, { underWayMs: 60_000 });
    server.onAppend = () => Promise.reject(new Error('the stream is gone'));
    for (let tries = 0; tries < 3; tries++) await t.rejects(add(server), { message: 'the stream is gone' });
    server.onAppend = nothing;
    await add(server);
    t.equal((await shownEvents(redis, prefix)).length, 1);
  });

  t.test('who still believes in a profile that was merged away changes its heir', async (t) => {
    const prefix = `w${worlds++}`;
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await add(other, GUEST, '1');
    await add(other, CUSTOMER, '2');
    const { profileId: gone } = await server.visitors.find(GUEST, true);
    const { profileId: heir, merged } = await other.visitors.link({ customerId: 'c', sessionId: 's' });
    t.ok(merged);
    t.equal((await server.items.add(gone, GUEST, contentOf('3'))).profileId, heir);
    t.equal((await server.items.list(gone)).items.length, 3);
    t.same(await server.items.remove(gone, GUEST, '1', null, 'remove'), { profileId: heir, removed: true });
    const { code } = await server.shares.share(gone, GUEST, 'Link');
    t.equal((await other.shares.share(heir, CUSTOMER, 'Link')).code, code);
    const lines = [{ productId: '2', variantId: null, quantity: 1, price: '1.00' }];
    const request = { orderId: '1', identity: GUEST, lines };
    await server.purchases.remove(gone, GUEST, { id: 'delivery', at: Date.now(), request });
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
      const patient = { underWayMs: 2_000 };
      const servers = [
        await startServer(t, redis, prefix, patient),
        await startServer(t, redis, prefix, patient),
      ];
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
      t.same(await outboxes(redis, prefix), {});
      const lists = await Promise.all(
        [CUSTOMER, ...guests.map((sessionId) => identityOf({ sessionId }))].map((who) =>
          products(servers[0] as Server, who),
        ),
      );
      for (const list of lists) t.same(list, lists[0], 'they are one visitor in the end');
    },
  );

  t.test('a request whose like is under way waits for it, and is one of its own', async (t) => {
    const prefix = `w${worlds++}`;
    const [one, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await add(one);
    let second: Promise<boolean> | undefined;
    one.onAppend = async () => {
      one.onAppend = nothing;
      second = remove(other);
    };
    t.equal(await remove(one), true);
    t.equal(await second, false, 'there was nothing left to remove');
    t.equal((await shownEvents(redis, prefix)).length, 2);
  });
});

/** Makes pending events older. */
async function age(redis: Redis, prefix: string, ms: number): Promise<void> {
  for (const url of redis.urls) {
    const client = connectTo(url);
    for (const key of await client.keys(`${prefix}:*:o:*`)) {
      for (const [id, entry] of Object.entries(await client.hgetall(key))) {
        const [since, ...rest] = entry.split('\n');
        await client.hset(key, id, [Number(since) - ms, ...rest].join('\n'));
      }
    }
    client.disconnect();
  }
}
