// A change of a wishlist and its event are one: servers end after any step of a request, its client sends it again
// to another one, under its key, and the answer, the wishlist and the events are as if nothing had happened.

import t from 'tap';
import type { Operation } from '../../src/redis/requests.js';
import type { Added } from '../../src/wishlist/items.js';
import { eachRedis } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import {
  add,
  age,
  BOTH,
  buy,
  CUSTOMER,
  followShare,
  GUEST,
  keyed,
  outboxes,
  products,
  remove,
  share,
  untilSent,
} from './deeds.js';
import { type Redis, type Server, shownEvents, shownMerges, startServer } from './world.js';

/** More than any request takes. */
const MAX_STEPS = 40;
let worlds = 0;

interface Case {
  readonly name: string;
  prepare(server: Server): Promise<unknown>;
  /** The request, under its key; its answer is compared with that of a run without a crash. */
  act(server: Server, operation: Operation): Promise<unknown>;
  /** What there is to see of the answer, where that is not the answer itself. */
  see?(server: Server, answer: unknown): Promise<unknown>;
  /** Whether a cluster, where all of it takes longer, would only do alike what it does in another case. */
  readonly onOneServer?: true;
  /** Types of all events in the end, in any order. */
  readonly events: readonly string[];
  /** Products on the wishlist in the end. */
  readonly items: readonly string[];
}

const nothing = async () => {};
/** The request of a case, as its client sends it again. */
const ask = (server: Server, { act }: Case) => keyed(server, 'k', (operation) => act(server, operation));
const same = async (_server: Server, answer: unknown) => answer;

/** The item that an answer names. */
async function added(server: Server, answer: unknown) {
  const { profileId } = await server.visitors.find(GUEST, true);
  const { items } = await server.items.list(profileId);
  const item = items.find(({ itemId }) => itemId === (answer as Added).itemId);
  return [item?.productId, item?.quantity];
}

const CASES: readonly Case[] = [
  {
    name: 'add',
    prepare: nothing,
    act: (server, operation) => add(server, GUEST, '1', 1, operation),
    see: added,
    events: ['add'],
    items: ['1'],
  },
  {
    name: 'add again with another quantity',
    onOneServer: true,
    prepare: (server) => add(server),
    act: (server, operation) => add(server, GUEST, '1', 7, operation),
    see: added,
    events: ['add', 'add'],
    items: ['1'],
  },
  {
    name: 'add the very same again',
    onOneServer: true,
    prepare: (server) => add(server),
    act: (server, operation) => add(server, GUEST, '1', 1, operation),
    see: added,
    events: ['add', 'add'],
    items: ['1'],
  },
  {
    name: 'remove',
    prepare: (server) => add(server),
    act: (server, operation) => remove(server, GUEST, '1', 'remove', operation),
    events: ['add', 'remove'],
    items: [],
  },
  {
    name: 'move to cart',
    onOneServer: true,
    prepare: (server) => add(server),
    act: (server, operation) => remove(server, GUEST, '1', 'moveToCart', operation),
    events: ['add', 'moveToCart'],
    items: [],
  },
  {
    name: 'remove what is not there',
    onOneServer: true,
    prepare: (server) => add(server),
    act: (server, operation) => remove(server, GUEST, '2', 'remove', operation),
    events: ['add'],
    items: ['1'],
  },
  {
    name: 'share for the first time',
    prepare: (server) => add(server),
    act: (server, operation) => share(server, GUEST, operation),
    see: followShare,
    events: ['add', 'share'],
    items: ['1'],
  },
  {
    name: 'share again',
    onOneServer: true,
    prepare: async (server) => {
      await add(server);
      await share(server);
    },
    act: (server, operation) => share(server, GUEST, operation),
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
    act: (server, operation) => add(server, BOTH, '1', 1, operation),
    see: added,
    events: ['add', 'add', 'add'],
    items: ['1', '3', '2'],
  },
  {
    name: 'remove in both names, which merges two profiles first',
    onOneServer: true,
    prepare: async (server) => {
      await add(server, GUEST, '2');
      await add(server, CUSTOMER, '3');
    },
    act: (server, operation) => remove(server, BOTH, '2', 'remove', operation),
    events: ['add', 'add', 'remove'],
    items: ['3'],
  },
];

/** What both runs must end in. */
async function outcome(redis: Redis, prefix: string, server: Server, answer: unknown) {
  // What is to be told of a merge waits for no answer: where its first try failed it goes along with a later change.
  await untilSent(redis, prefix, 'merge');
  await age(redis, prefix, 61_000);
  await remove(server, GUEST, 'nothing there');
  await untilSent(redis, prefix);
  return {
    answer,
    merges: await mergesOf(redis, prefix),
    items: (await products(server)).sort(),
    events: (await shownEvents(redis, prefix)).map(({ type }) => type).sort(),
    pending: await outboxes(redis, prefix),
  };
}

/** How many profiles were merged away. @throws where analysts were not told of each one, once */
async function mergesOf(redis: Redis, prefix: string): Promise<number> {
  const dump = (await dumpRedis(redis, prefix)) as Record<string, Record<string, string>>;
  const merges = Object.entries(dump).flatMap(([key, { heir }]) => {
    const [, bucket, hash] = /\{(.+)\}:p:(.+)$/.exec(key) ?? [];
    return bucket === undefined || heir === undefined ? [] : [[`${bucket}.${hash}`, heir]];
  });
  const told = JSON.stringify((await shownMerges(redis, prefix)).sort());
  if (told !== JSON.stringify(merges.sort())) throw new Error(`${merges.join(' ')}, and told: ${told}`);
  return merges.length;
}

eachRedis(t, async (t, redis) => {
  const cases = redis.urls.length === 1 ? CASES : CASES.filter(({ onOneServer }) => !onOneServer);
  for (const one of cases) {
    const { name, prepare, see = same, events, items } = one;
    t.test(`${name}: ended after any step and sent again, it is done once`, async (t) => {
      const start = async (): Promise<[string, Server, Server]> => {
        const prefix = `w${worlds++}`;
        return [prefix, await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
      };
      const [prefix, calm] = await start();
      await prepare(calm);
      const expected = await outcome(redis, prefix, calm, await see(calm, await ask(calm, one)));
      t.same(expected, {
        answer: expected.answer,
        merges: name.includes('merges') ? 1 : 0,
        items: [...items].sort(),
        events: [...events].sort(),
        pending: {},
      });

      const [stutterer, stutters] = await start();
      await prepare(stutters);
      stutters.sendTwice();
      const stuttered = await outcome(
        redis,
        stutterer,
        stutters,
        await see(stutters, await ask(stutters, one)),
      );
      t.same(stuttered, expected, 'each script called twice');

      let crashes = 0;
      for (let steps = 1; ; steps++) {
        if (steps > MAX_STEPS) throw new Error('the request never ends');
        for (const lastIsDone of [false, true]) {
          const [prefix, ending, other] = await start();
          await prepare(other);
          ending.crashAfter(steps, lastIsDone);
          const first = await ask(ending, one).then(
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
          const { answer } = first ?? { answer: await ask(steps % 2 ? other : ending, one) };
          const what = `ended after step ${steps}${lastIsDone ? ', which was done' : ''}`;
          t.same(await outcome(redis, prefix, other, await see(other, answer)), expected, what);
        }
      }
    });
  }
});
