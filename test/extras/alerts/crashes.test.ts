// Servers end after any step of a change of a wishlist or of an alert, and items, profiles and products change between two
// steps: the index has every profile whose wishlist has an item, and each of them gets an alert once.

import t, { type Test } from 'tap';
import { ServiceError } from '../../../src/errors.js';
import { identityName } from '../../../src/identity-rules.js';
import { createKeys } from '../../../src/redis/keys.js';
import { eachRedis } from '../../harness/app.js';
import { type Dump, dumpRedis } from '../../harness/dump.js';
import { keyPattern } from '../../harness/key-pattern.js';
import { startTestCluster } from '../../harness/redis.js';
import { contentOf } from '../../harness/samples.js';
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
} from '../../wishlist/fixtures.js';
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
  readonly subscribers: number;
}
const both = async (server: Server, { guest, customer }: Visitor) => {
  await add(server, guest);
  await add(server, customer);
};
const CASES: readonly Case[] = [
  { name: 'add', act: (server, { guest }) => add(server, guest), alerts: 1, subscribers: 1 },
  {
    name: 'add again, after it was told',
    prepare: async (server, { guest }) => {
      await add(server, guest);
      await putAt(server, '0.50');
    },
    act: (server, { guest }) => add(server, guest, '1', 2),
    alerts: 2,
    subscribers: 1,
  },
  {
    name: 'remove',
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { guest }) => remove(server, guest),
    alerts: 0,
    subscribers: 0,
  },
  {
    name: 'buy',
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { guest }) => buy(server, guest),
    alerts: 0,
    subscribers: 0,
  },
  {
    name: "log in: the guest's profile becomes the customer's",
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { ids }) => server.visitors.link(ids),
    alerts: 1,
    subscribers: 1,
  },
  {
    name: 'log in: two profiles are merged',
    prepare: async (server, { guest, customer }) => {
      await add(server, guest);
      await add(server, customer, '2');
    },
    act: (server, { ids }) => server.visitors.link(ids),
    alerts: 1,
    subscribers: 2,
  },
  {
    name: 'log in: both have the item',
    prepare: both,
    act: (server, { ids }) => server.visitors.link(ids),
    alerts: 1,
    subscribers: 1,
  },
  {
    name: 'erase a guest',
    prepare: (server, { guest }) => add(server, guest),
    act: (server, { ids }) => server.eraser.erase(identityName('s', ids.sessionId)),
    alerts: 0,
    subscribers: 0,
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
    subscribers: 0,
  },
  {
    name: 'put',
    prepare: both,
    act: (server) => putAt(server, '0.50') as Promise<unknown>,
    alerts: 2,
    subscribers: 2,
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
    subscribers: 2,
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
      t.equal(wishersIn(dump, prefix).length, one.subscribers, `${what}: profiles in the index`);
      const alerts = (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'alert');
      t.equal(alerts.length, one.alerts, `${what}: alerts`);
      t.equal(dump[createKeys(prefix).products], undefined, `${what}: struck out`);
      if (t.counts.fail > 0) return;
    }
  }
}
// On a cluster, where a change has the most steps.
t.test('crashes', async (t) => {
  const redis = await startTestCluster(t);
  const prefix = 'crash';
  const servers = [
    await startServer(t, redis, prefix, { alerts: true }),
    await startServer(t, redis, prefix, { alerts: true }),
  ];
  for (const one of CASES) await t.test(one.name, (t) => tries(t, redis, prefix, servers, one));
});

/** Wished at 1.00. */
const RACES: readonly {
  readonly name: string;
  /** By another server, just before the subscriber is told of 0.50 for the first time. */
  meanwhile(server: Server, visitor: Visitor): Promise<unknown>;
  readonly drops: number;
}[] = [
  {
    name: 'wished again, at a lower price',
    meanwhile: (server, { guest }) =>
      server.visitors.change(guest, true, (location) =>
        server.items.add(location, guest, { ...contentOf('1'), price: '0.40' }),
      ),
    drops: 0,
  },
  {
    name: 'wished again, at the same price',
    meanwhile: (server, { guest }) => add(server, guest, '1', 2),
    drops: 1,
  },
  { name: 'removed', meanwhile: (server, { guest }) => remove(server, guest), drops: 0 },
  {
    name: 'erased',
    meanwhile: (server, { ids }) => server.eraser.erase(identityName('s', ids.sessionId)),
    drops: 0,
  },
  { name: 'the guest logs in', meanwhile: (server, { ids }) => server.visitors.link(ids), drops: 1 },
  {
    name: 'merged into another profile',
    meanwhile: async (server, { customer, ids }) => {
      await add(server, customer, '2');
      await server.visitors.link(ids);
    },
    drops: 1,
  },
  { name: 'told by another server', meanwhile: (server) => told(server, '0.50'), drops: 1 },
];
const told = (server: Server, price: string, available = true) =>
  server.products?.put(product(price, available)) as Promise<unknown>;
eachRedis(t, async (t, redis) => {
  const prefix = 'race';
  const [server, other] = [
    await startServer(t, redis, prefix, { alerts: true }),
    await startServer(t, redis, prefix, { alerts: true }),
  ];
  const alerts = async () => (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'alert');

  for (const { name, meanwhile, drops } of RACES)
    await t.test(name, async (t) => {
      await clear(redis, prefix);
      const visitor = newVisitor();
      await add(server, visitor.guest);
      let isFirst = true;
      server.onChange = async () => {
        if (!isFirst) return;
        isFirst = false;
        await meanwhile(other, visitor);
      };
      await told(server, '0.50');
      server.onChange = async () => {};
      const rows = await alerts();
      t.same(
        rows.map(({ type }) => type),
        Array.from({ length: drops }, () => 'priceDrop'),
      );
      const { profileId } = await listOf(server, visitor.guest);
      for (const row of rows) t.equal(row['profile_id'], profileId);
      await told(server, '0.50');
      t.equal((await alerts()).length, drops, 'once');
    });

  await t.test('an older version that is still being told', async (t) => {
    await olderVersions(t, redis, prefix, server, other);
  });
});
async function olderVersions(
  t: Test,
  redis: Redis,
  prefix: string,
  server: Server,
  other: Server,
): Promise<void> {
  for (const [older, newer, expected, isPublished = true] of [
    ['0.70', '0.60', ['0.60']],
    // Nothing changes for the subscriber, but the item says that this version was there.
    ['0.70', '1.00', []],
    ['0.70', '0.70', ['0.70']],
    ['0.70', '0.60', [], false],
  ] as const) {
    await clear(redis, prefix);
    const { guest } = newVisitor();
    const put = ({ products }: Server) => products?.put({ ...product(newer), isPublished });
    await add(server, guest);
    server.onSubscriber = async () => {
      server.onSubscriber = async () => {};
      await put(other);
    };
    await told(server, older);
    const rows = await shownEvents(redis, prefix);
    t.same(
      rows.flatMap(({ origin, price }) => (origin === 'alert' ? [price] : [])),
      expected,
      `${older}, ${newer}`,
    );
    // What came last is what holds.
    await put(server);
    t.equal((await shownEvents(redis, prefix)).length, rows.length);
  }
}
