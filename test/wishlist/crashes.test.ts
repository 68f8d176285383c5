// A change of a wishlist and its event are one, through crashes at any step, full streams and lost replies.

import t from 'tap';
import { ServiceError } from '../../src/errors.js';
import type { KeyedOperation } from '../../src/redis/requests.js';
import type { Added } from '../../src/wishlist/items.js';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { itemOf } from '../http/wishlist.js';
import {
  add,
  buy,
  clear,
  followShare,
  keyed,
  listOf,
  newVisitor,
  products,
  type Redis,
  remove,
  type Server,
  share,
  shownEvents,
  shownMerges,
  startServer,
  type Visitor,
} from './fixtures.js';

const MAX_STEPS = 40;
const MAX_CONCURRENT_TESTS = 6;
interface Case {
  readonly name: string;
  prepare?(server: Server, visitor: Visitor): Promise<unknown>;
  /** The request, under its key; its answer is compared with that of a run without a crash. */
  act(server: Server, visitor: Visitor, operation: KeyedOperation): Promise<unknown>;
  /** What the answer leads to, if the answer itself differs in each run. */
  see?(server: Server, answer: unknown, visitor: Visitor): Promise<unknown>;
  /** Skipped on a cluster, which is slower: another case takes the same way. */
  readonly onOneServer?: true;
  readonly merges?: number;
  readonly events: readonly string[];
  readonly items: readonly string[];
}
async function added(server: Server, answer: unknown, { guest }: Visitor) {
  const { items } = await listOf(server, guest);
  const item = items.find(({ itemId }) => itemId === (answer as Added).itemId);
  return [item?.productId, item?.quantity];
}
const addOne = (server: Server, { guest }: Visitor) => add(server, guest);
const addToBoth = async (server: Server, { guest, customer }: Visitor) => {
  await add(server, guest, '2');
  await add(server, customer, '3');
};
const adding =
  (quantity: number): Case['act'] =>
  (server, { guest }, operation) =>
    add(server, guest, '1', quantity, operation);
const removing =
  (product: string, type?: 'moveToCart'): Case['act'] =>
  (server, { guest }, operation) =>
    remove(server, guest, product, type, operation);
const sharing: Case['act'] = (server, { guest }, operation) => share(server, guest, operation);
const CASES: readonly Case[] = [
  { name: 'add', act: adding(1), see: added, events: ['add'], items: ['1'] },
  {
    name: 'add again with another quantity',
    onOneServer: true,
    prepare: addOne,
    act: adding(7),
    see: added,
    events: ['add', 'add'],
    items: ['1'],
  },
  { name: 'remove', prepare: addOne, act: removing('1'), events: ['add', 'remove'], items: [] },
  {
    name: 'move to cart',
    onOneServer: true,
    prepare: addOne,
    act: removing('1', 'moveToCart'),
    events: ['add', 'moveToCart'],
    items: [],
  },
  {
    name: 'remove what is not there',
    onOneServer: true,
    prepare: addOne,
    act: removing('2'),
    events: ['add'],
    items: ['1'],
  },
  {
    name: 'share for the first time',
    prepare: addOne,
    act: sharing,
    see: followShare,
    events: ['add', 'share'],
    items: ['1'],
  },
  {
    name: 'buy two of three items',
    prepare: async (server, { guest }) => {
      for (const product of ['1', '2', '4']) await add(server, guest, product);
    },
    act: (server, { guest }) => buy(server, guest),
    events: ['add', 'add', 'add', 'autoRemoveAfterPurchase', 'autoRemoveAfterPurchase'],
    items: ['4'],
  },
  {
    name: 'add in both names, which merges the session first',
    prepare: addToBoth,
    act: (server, { both }, operation) => add(server, both, '1', 1, operation),
    see: added,
    merges: 1,
    events: ['add', 'add', 'add'],
    items: ['1', '2', '3'],
  },
];
/** 1 if the visitor's session was merged. @throws unless analysts see each merge once */
async function mergesOf(redis: Redis, prefix: string, { store, locator }: Server, { ids }: Visitor) {
  const session = locator.profileOf(`s:${ids.sessionId}`);
  const target = await store.client.hget(store.keys.profile(session), 'target');
  const shown = (await shownMerges(redis, prefix)).filter(([from]) => from === session);
  const merges = target === null ? [] : [[session, target.split(' ')[0]]];
  if (`${shown}` !== `${merges}`) throw new Error(`merges: ${merges}, and shown: ${shown}`);
  return merges.length;
}
eachRedis(t, async (t, redis) => {
  t.jobs = MAX_CONCURRENT_TESTS;
  const cases = redis.urls.length === 1 ? CASES : CASES.filter(({ onOneServer }) => !onOneServer);
  if (redis.urls.length === 1)
    t.test(
      'a merge whose row the stream refuses stays pending, and is one row once the stream takes it',
      async (t) => {
        const [server, visitor] = [await startServer(t, redis, 'told'), newVisitor()];
        await addToBoth(server, visitor);
        const inBothNames = () =>
          keyed(server, 'k', (operation) => add(server, visitor.both, '1', 1, operation));
        server.onAppend = async () => {
          throw new ServiceError('unavailable');
        };
        await t.rejects(inBothNames(), { code: 'unavailable' });
        server.onAppend = async () => {};
        await inBothNames();
        t.equal(await mergesOf(redis, 'told', server, visitor), 1);
      },
    );

  for (const [n, { name, prepare, act, see, events, items, merges = 0 }] of cases.entries()) {
    const prefix = `w${n}`;
    const ask = (server: Server, visitor: Visitor) =>
      keyed(server, 'k', (operation) => act(server, visitor, operation));

    /** What a new visitor has after the request. `server` prepares the case and reads the result. */
    const outcome = async (server: Server, request: (visitor: Visitor) => Promise<unknown>) => {
      await clear(redis, prefix);
      const visitor = newVisitor();
      await prepare?.(server, visitor);
      const given = await request(visitor);
      const answer = see === undefined ? given : await see(server, given, visitor);
      return {
        answer,
        merges: await mergesOf(redis, prefix, server, visitor),
        items: (await products(server, visitor.guest)).sort(),
        // Only this visitor's: an event of an earlier one may still arrive.
        events: (await shownEvents(redis, prefix, visitor)).map(({ type }) => type).sort(),
      };
    };

    t.test(
      `a request to ${name} is done once, even if its server ends after any step and it is sent again`,
      { buffered: true },
      async (t) => {
        const start = () => startServer(t, redis, prefix);
        const [ending, other, stuttering] = [await start(), await start(), await start()];
        stuttering.sendTwice();
        const expected = await outcome(other, (visitor) => ask(other, visitor));
        const { answer } = expected;
        t.same(expected, { answer, merges, items, events: [...events].sort() });
        const twice = await outcome(stuttering, (visitor) => ask(stuttering, visitor));
        t.same(twice, expected, 'each script called twice');

        let crashes = 0;
        for (let steps = 1; ; steps++) {
          if (steps > MAX_STEPS) throw new Error('the request never ends');
          for (const lastIsDone of [false, true]) {
            let wasGone = false;
            const ended = await outcome(other, async (visitor) => {
              ending.crashAfter(steps, lastIsDone);
              const first = await ask(ending, visitor).then(
                (answer) => ({ answer }),
                (error) => {
                  t.equal(error.code, 'unavailable');
                  return undefined;
                },
              );
              wasGone = ending.recover();
              // A client that got an answer does not retry.
              return first === undefined ? ask(steps % 2 ? other : ending, visitor) : first.answer;
            });
            t.same(ended, expected, `ended after step ${steps}${lastIsDone ? ', which was done' : ''}`);
            if (!wasGone) {
              t.ok(crashes >= 2, `${crashes} crashes`);
              return;
            }
            crashes++;
          }
        }
      },
    );
  }
});

// Orders: test/http/orders.test.ts.
eachRedis(t, async (t, redis) => {
  t.test(
    'a change at the high-water mark is 503, and its retry is done once when there is room',
    async (t) => {
      /** A request without an answer counts as in flight for a shorter time than by default. */
      const timing = { requestGraceMs: 20 };
      const full = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1' }, timing });
      const roomy = await startApp(t, redis, { prefix: full.prefix, timing });
      const identity = { customerId: '7' };
      const removal = { identity, productId: '1001', variantId: '2002', event: 'moveToCart' };
      const types: string[] = [];
      for (const [type, path, body, items] of [
        ['add', '/item/add', itemOf(identity), 1],
        ['share', '/share', { identity }, 1],
        ['moveToCart', '/item/remove', removal, 0],
      ] as const) {
        const headers = { ...TRUSTED, 'idempotency-key': path };
        const appended = async () => (await full.rows()).map((row) => row['type']);
        for (let tries = 0; tries < 2; tries++) {
          const refused = await full.post(path, body, headers);
          t.match(refused, { status: 503, json: { code: 'overloaded' }, headers: { 'retry-after': '1' } });
          t.same(await appended(), types, 'nothing was appended');
        }
        types.push(type);
        for (let tries = 0; tries < 2; tries++)
          t.match(await roomy.post(path, body, headers), { status: 200 }, path);
        t.same(await appended(), types);
        t.equal((await roomy.shop.items(identity)).length, items, `${path}: items`);
      }
    },
  );
});
