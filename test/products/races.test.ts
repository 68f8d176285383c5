// What changes between the moment in which a wisher's item is read and the one in which the wisher is told: the item, its
// profile, or the product itself.

import t, { type Test } from 'tap';
import { identityName } from '../../src/identity-rules.js';
import { eachRedis } from '../harness/app.js';
import { contentOf } from '../harness/samples.js';
import {
  add,
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
import { product } from './fixtures.js';

/** Wished at 1.00. */
const RACES: readonly {
  readonly name: string;
  /** By another server, just before the wisher is told of 0.50 for the first time. */
  meanwhile(server: Server, visitor: Visitor): Promise<unknown>;
  readonly drops: number;
}[] = [
  {
    name: 'wished again, at a lower price',
    meanwhile: (server, { guest }) =>
      server.visitors.change(guest, true, (place) =>
        server.items.add(place, guest, { ...contentOf('1'), price: '0.40' }),
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
    // Nothing changes for the wisher, but the item says that this version was there.
    ['0.70', '1.00', []],
    ['0.70', '0.70', ['0.70']],
    ['0.70', '0.60', [], false],
  ] as const) {
    await clear(redis, prefix);
    const { guest } = newVisitor();
    const put = ({ products }: Server) => products?.put({ ...product(newer), isPublished });
    await add(server, guest);
    server.onWisher = async () => {
      server.onWisher = async () => {};
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
