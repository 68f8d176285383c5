// Servers end after any step of what changes wishlists or tells wishers. Whatever they leave, the index has every profile whose
// wishlist has an item, and once the request is sent again, or another server has gone on with it, each wisher was told once.

import t, { type Test } from 'tap';
import { ServiceError } from '../../src/errors.js';
import { identityName } from '../../src/identity-rules.js';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis } from '../harness/app.js';
import { type Dump, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import { until } from '../harness/until.js';
import {
  add,
  buy,
  clear,
  listOf,
  newVisitor,
  type Redis,
  remove,
  type Server,
  shownEvents,
  startServer,
  type Visitor,
} from '../wishlist/fixtures.js';
import { product, wishersIn } from './fixtures.js';

/** More than any of these takes. */
const MAX_STEPS = 60;

const putAt = (server: Server, price: string) => server.products?.put(product(price));

interface Case {
  readonly name: string;
  prepare?(server: Server, visitor: Visitor): Promise<unknown>;
  act(server: Server, visitor: Visitor): Promise<unknown>;
  /** Whether the profile is written down to be erased before its entries go: with a crash, it goes a little later. */
  readonly isErased?: true;
  /** Alerts in the end, once product 1, wished at 1.00, was put at 0.50. */
  readonly alerts: number;
  /** Profiles in the index in the end. */
  readonly wishers: number;
}

const both = async (server: Server, { guest, customer }: Visitor) => {
  await add(server, guest);
  await add(server, customer);
};
const CASES: readonly Case[] = [
  { name: 'add', act: (server, { guest }) => add(server, guest), alerts: 1, wishers: 1 },
  {
    name: 'add again, after it was told',
    prepare: async (server, { guest }) => {
      await add(server, guest);
      await putAt(server, '0.50');
    },
    act: (server, { guest }) => add(server, guest, '1', 2),
    alerts: 2,
    wishers: 1,
  },
  {
    name: 'remove',
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { guest }) => remove(server, guest),
    alerts: 0,
    wishers: 0,
  },
  {
    name: 'buy',
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { guest }) => buy(server, guest),
    alerts: 0,
    wishers: 0,
  },
  {
    name: "log in: the guest's profile becomes the customer's",
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { ids }) => server.visitors.link(ids),
    alerts: 1,
    wishers: 1,
  },
  {
    name: 'log in: two profiles are merged',
    prepare: async (server, { guest, customer }) => {
      await add(server, guest);
      await add(server, customer, '2');
    },
    act: (server, { ids }) => server.visitors.link(ids),
    alerts: 1,
    wishers: 2,
  },
  {
    name: 'log in: both have the item',
    prepare: both,
    act: (server, { ids }) => server.visitors.link(ids),
    alerts: 1,
    wishers: 1,
  },
  {
    name: 'erase a guest',
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { ids }) => server.eraser.erase(identityName('s', ids.sessionId)),
    alerts: 0,
    wishers: 0,
  },
  {
    name: 'erase a customer',
    prepare: async (server, { ids, ...visitor }) => {
      await both(server, { ids, ...visitor });
      await server.visitors.link(ids);
    },
    act: (server, { ids }) => server.eraser.erase(identityName('c', ids.customerId)),
    isErased: true,
    alerts: 0,
    wishers: 0,
  },
  {
    name: 'put',
    prepare: both,
    act: (server) => putAt(server, '0.50') as Promise<unknown>,
    alerts: 2,
    wishers: 2,
  },
  {
    name: 'put, where a merge is to be finished',
    prepare: async (server, visitor) => {
      await add(server, visitor.guest);
      await add(server, visitor.customer, '2');
    },
    act: async (server, { ids }) => {
      await server.visitors.link(ids);
      await putAt(server, '0.50');
    },
    alerts: 1,
    wishers: 2,
  },
];

/** Profiles with items that are not in the index: `<profile> <items> <entries>` of each kind of key. */
function missing(dump: Dump, prefix: string): string[] {
  const isItems = keyPattern(createKeys(prefix).items('*.*'));
  const entries = wishersIn(dump, prefix);
  return Object.entries(dump).flatMap(([key, items]) => {
    if (!isItems.test(key)) return [];
    const [, bucket, id] = /\{([^}]+)\}:i:(.+)$/.exec(key) as unknown as [string, string, string];
    const count = entries.filter((one) => one === `${bucket}.${id}`).length;
    const wanted = Object.keys(items as object).length;
    return count >= wanted ? [] : [`${key}: ${wanted} items, ${count} entries`];
  });
}

async function tries(
  t: Test,
  redis: Redis,
  prefix: string,
  servers: readonly Server[],
  one: Case,
): Promise<void> {
  const [first, second] = servers as [Server, Server];
  for (let steps = 1, crashed = true; crashed && steps <= MAX_STEPS; steps++) {
    crashed = false;
    for (const isDone of [false, true]) {
      await clear(redis, prefix);
      const visitor = newVisitor();
      await one.prepare?.(first, visitor);
      const what = `${steps} steps, ${isDone ? 'the last one done' : 'the last one not'}`;
      first.crashAfter(steps, isDone);
      await one.act(first, visitor).catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
      });
      const wasGone = first.recover();
      crashed ||= wasGone;
      if (!one.isErased) t.same(missing(await dumpRedis(redis, prefix), prefix), [], `${what}: the index`);
      await one.act(second, visitor);
      await listOf(second, visitor.guest); // finishes what is under way
      t.same(missing(await dumpRedis(redis, prefix), prefix), [], `${what}: the index, once it was done`);
      await putAt(second, '0.50');
      await putAt(second, '0.50');
      const dump = await dumpRedis(redis, prefix);
      t.equal(wishersIn(dump, prefix).length, one.wishers, `${what}: profiles in the index`);
      const alerts = (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'alert');
      t.equal(alerts.length, one.alerts, `${what}: alerts`);
      t.equal(dump[createKeys(prefix).products], undefined, `${what}: struck out`);
      if (t.counts.fail > 0) return;
    }
  }
}

eachRedis(t, async (t, redis) => {
  const prefix = 'crash';
  const servers = [
    await startServer(t, redis, prefix, { alerts: true }),
    await startServer(t, redis, prefix, { alerts: true }),
  ];
  for (const one of CASES) await t.test(one.name, (t) => tries(t, redis, prefix, servers, one));

  await t.test('another server goes on with a product that was left half done', async (t) => {
    const [first, second] = servers as [Server, Server];
    await clear(redis, prefix);
    const names = [newVisitor(), newVisitor(), newVisitor()];
    for (const { guest } of names) await add(first, guest);
    first.crashAfter(6, true);
    await t.rejects(putAt(first, '0.50') as Promise<unknown>, ServiceError);
    t.ok(first.recover());
    const alerts = async () =>
      (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'alert').length;
    t.ok((await alerts()) < 3, 'some were not told');
    await second.products?.look();
    t.ok((await alerts()) < 3, 'it may be under way');
    await second.products?.look();
    await until('all are told', async () => (await alerts()) === 3);
    const { products } = createKeys(prefix);
    await until('it is struck out', async () => (await dumpRedis(redis, prefix))[products] === undefined);
  });
});
