// Servers end after any step of a change of a wishlist or of an alert: the index has each profile, and each gets one alert.

import t, { type Test } from 'tap';
import { ServiceError } from '../../../src/errors.js';
import { alertKeys } from '../../../src/extras/alerts/keys.js';
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
import { product, subscribersIn } from './fixtures.js';

const MAX_STEPS = 60;
type Act = (server: Server, visitor: Visitor) => Promise<unknown>;
/** Saved at 1.00. */
const wish: Act = (server, { guest }) => add(server, guest);
const wishAgain: Act = (server, { guest }) => add(server, guest, '1', 2);
const wishCheaper: Act = (server, { guest }) =>
  server.visitors.change(guest, true, (location) =>
    server.items.add(location, guest, { ...contentOf('1'), price: '0.40' }),
  );
const customerWishes: Act = (server, { customer }) => add(server, customer);
const customerHasOther: Act = (server, { customer }) => add(server, customer, '2');
const unwish: Act = (server, { guest }) => remove(server, guest);
const buyIt: Act = (server, { guest }) => buy(server, guest);
const logIn: Act = (server, { both }) => server.visitors.login(both, true);
const eraseGuest: Act = (server, { ids }) => server.eraser.erase(identityName('s', ids.sessionId));
const eraseCustomer: Act = (server, { ids }) => server.eraser.erase(identityName('c', ids.customerId));
/** As the service does in the background, but waits until all subscribers are alerted. */
const putProduct = async ({ products }: Server, asked: ReturnType<typeof product>) => {
  await products?.journal(asked);
  await products?.send(asked.productId);
};
const putAt = (server: Server, price: string) => putProduct(server, product(price));
const drop: Act = (server) => putAt(server, '0.50');
const all =
  (...acts: readonly Act[]): Act =>
  async (server, visitor) => {
    for (const act of acts) await act(server, visitor);
  };

/** Alerts after product 1 was put at 0.50, and profiles then in the index. */
type Case = readonly [name: string, prepare: Act, act: Act, alerts: number, subscribers: number];
const CASES: readonly Case[] = [
  ['add', all(), wish, 1, 1],
  ['add again, after an alert', all(wish, drop), wishAgain, 2, 1],
  ['remove', wish, unwish, 0, 0],
  ['buy', wish, buyIt, 0, 0],
  ['log in, the first time', wish, logIn, 1, 1],
  ['log in: the customer has another item', all(wish, customerHasOther), logIn, 1, 2],
  ['log in: both have the item', all(wish, customerWishes), logIn, 1, 1],
  ['erase a guest', wish, eraseGuest, 0, 0],
  ['erase a customer', all(wish, customerWishes, logIn), eraseCustomer, 0, 0],
  ['put', all(wish, customerWishes), drop, 2, 2],
  ['put while a merge is pending', all(wish, customerHasOther), all(logIn, drop), 1, 2],
];
/** Profiles with items that are not in the index, except merged sessions: `<profile> <items> <entries>`. */
function missing(dump: Dump, prefix: string): string[] {
  const keys = createKeys(prefix);
  const isItems = keyPattern(keys.items('*.*'));
  const isMerged = (profileId: string) => {
    const { target = '' } = (dump[keys.profile(profileId)] ?? {}) as Record<string, string>;
    const members = dump[keys.members(target.split(' ')[0] as string)] as Record<string, string> | undefined;
    return members?.[profileId]?.endsWith('\nmerged') ?? false;
  };
  const entries = subscribersIn(dump, prefix);
  return Object.entries(dump).flatMap(([key, items]) => {
    if (!isItems.test(key)) return [];
    const [, bucket, id] = /\{([^}]+)\}:i:(.+)$/.exec(key) as unknown as [string, string, string];
    const profileId = `${bucket}.${id}`;
    if (isMerged(profileId)) return [];
    const count = entries.filter((one) => one === profileId).length;
    const wanted = Object.keys(items as object).length;
    return count >= wanted ? [] : [`${key}: ${wanted} items, ${count} entries`];
  });
}
const alertsIn = async (redis: Redis, prefix: string) =>
  (await shownEvents(redis, prefix)).filter(({ origin }) => origin === 'alert');
async function tries(
  t: Test,
  redis: Redis,
  prefix: string,
  servers: readonly Server[],
  [, prepare, act, alerts, subscribers]: Case,
): Promise<void> {
  const [first, second] = servers as [Server, Server];
  for (let steps = 1, crashed = true; crashed && steps <= MAX_STEPS; steps++) {
    crashed = false;
    for (const isDone of [false, true]) {
      await clear(redis, prefix);
      const visitor = newVisitor();
      await prepare(first, visitor);
      const what = `${steps} steps, ${isDone ? 'the last one done' : 'the last one not'}`;
      first.crashAfter(steps, isDone);
      await act(first, visitor).catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
      });
      const wasGone = first.recover();
      crashed ||= wasGone;
      // A crash may leave a profile that is to be erased without its entries.
      if (act !== eraseCustomer)
        t.same(missing(await dumpRedis(redis, prefix), prefix), [], `${what}: the index`);
      await act(second, visitor);
      await listOf(second, visitor.guest); // completes pending work
      t.same(missing(await dumpRedis(redis, prefix), prefix), [], `${what}: the index, once it was done`);
      for (let i = 0; i < 2; i++) await putAt(second, '0.50');
      const dump = await dumpRedis(redis, prefix);
      t.equal(subscribersIn(dump, prefix).length, subscribers, `${what}: profiles in the index`);
      t.equal((await alertsIn(redis, prefix)).length, alerts, `${what}: alerts`);
      t.equal(dump[alertKeys(createKeys(prefix)).products], undefined, `${what}: removed from the journal`);
      if (t.counts.fail > 0) return;
    }
  }
}
// On a cluster a change has the most steps.
t.test('crashes', async (t) => {
  const redis = await startTestCluster(t);
  const prefix = 'crash';
  const start = () => startServer(t, redis, prefix, { alerts: true });
  const servers = [await start(), await start()];
  for (const one of CASES)
    await t.test(`index and alerts are right if a server ends after any step: ${one[0]}`, (t) =>
      tries(t, redis, prefix, servers, one),
    );
});

/** What another server does just before the first alert at 0.50, and the number of alerts in the end. */
const RACES: readonly (readonly [name: string, meanwhile: Act, drops: number])[] = [
  ['an item saved again at a lower price', wishCheaper, 0],
  ['an item saved again at the same price', wishAgain, 1],
  ['an item removed', unwish, 0],
  ['a guest erased', eraseGuest, 0],
  ['a guest who logs in', logIn, 1],
  ['a guest merged into another profile', all(customerHasOther, logIn), 1],
  ['a product put by another server', drop, 1],
];
eachRedis(t, async (t, redis) => {
  const prefix = 'race';
  const start = () => startServer(t, redis, prefix, { alerts: true });
  const [server, other] = [await start(), await start()];

  for (const [name, meanwhile, drops] of RACES)
    await t.test(`${name} just before an alert gets ${drops} in all`, async (t) => {
      await clear(redis, prefix);
      const visitor = newVisitor();
      await add(server, visitor.guest);
      let isFirst = true;
      server.onChange = async () => {
        if (!isFirst) return;
        isFirst = false;
        await meanwhile(other, visitor);
      };
      await putAt(server, '0.50');
      server.onChange = async () => {};
      const rows = await alertsIn(redis, prefix);
      t.equal(rows.filter(({ type }) => type === 'priceDrop').length, drops);
      t.equal(rows.length, drops);
      const { profileId } = await listOf(server, visitor.guest);
      for (const row of rows) t.equal(row['profile_id'], profileId);
      await putAt(server, '0.50');
      t.equal((await alertsIn(redis, prefix)).length, drops, 'once');
    });

  await t.test(
    'a newer version with unsent alerts stays in the journal when the older one is done',
    async (t) => {
      await clear(redis, prefix);
      await add(server, newVisitor().guest);
      server.onSubscriber = async () => {
        server.onSubscriber = async () => {};
        other.crashAfter(1, true);
        await t.rejects(putAt(other, '0.60'));
        other.recover();
      };
      await putAt(server, '0.70');
      t.match(await other.products?.open(), { products: 1 });
    },
  );

  await t.test('a newer version that is put while an older one is being sent replaces it', async (t) => {
    for (const [older, newer, expected, isPublished = true] of [
      ['0.70', '0.60', ['0.60']],
      // Nothing changes for the subscriber, but the item is stamped with this version.
      ['0.70', '1.00', []],
      ['0.70', '0.70', ['0.70']],
      ['0.70', '0.60', [], false],
    ] as const) {
      await clear(redis, prefix);
      const { guest } = newVisitor();
      const put = (one: Server) => putProduct(one, { ...product(newer), isPublished });
      await add(server, guest);
      server.onSubscriber = async () => {
        server.onSubscriber = async () => {};
        await put(other);
      };
      await putAt(server, older);
      const prices = async () => (await alertsIn(redis, prefix)).map(({ price }) => price);
      t.same(await prices(), expected, `${older}, ${newer}`);
      await put(server);
      t.same(await prices(), expected);
    }
  });
});
