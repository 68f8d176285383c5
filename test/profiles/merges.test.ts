// Large merges: pages, limits, and requests during a merge. Steps and crashes: crashes.test.ts.

import type { Redis as Client } from 'ioredis';
import t, { type Test } from 'tap';
import type { Link } from '../../src/profiles/link.js';
import { createKeys } from '../../src/redis/keys.js';
import { parseItem } from '../../src/wishlist/item.js';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { monitorRedis } from '../harness/monitor.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { contentOf, storedItem } from '../harness/samples.js';
import {
  add,
  atEachStep,
  login,
  newVisitor,
  passTime,
  resume,
  type Server,
  shownMerges,
  startServer,
  startTwo,
  type Visitor,
} from '../wishlist/fixtures.js';

const FULL = process.env['FAULTS'] === 'full';
/** Products and items of the session: three pages each, of at most 500. */
const PRODUCTS = 1_300;
const ITEMS = 1_200;
/** Products and items of the customer; the session has half of them, too. */
const OWN = 100;

type Fields = Readonly<Record<string, string | number>>;

function itemsOf(from: number, to: number, owner: string): Record<string, string> {
  const items: Record<string, string> = {};
  // A higher index is newer.
  for (let i = from; i < to; i++)
    items[`${i}:`] = storedItem(
      `${owner}-${i}`,
      contentOf(String(i)),
      new Date(1.7e12 + i * 1_000).toISOString(),
    );
  return items;
}

function countsOf(from: number, to: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: to - from }, (_, i) => [`p-${from + i}`, 1 + (i % 3)]));
}

const bytesOf = (items: Fields) =>
  Object.values(items).reduce<number>((sum, one) => sum + String(one).length, 0);

/** Stores counts and items as operations would have done. */
async function fill({ store }: Server, profileId: string, counts: Fields, items: Fields): Promise<void> {
  const { keys } = store;
  const facts = { itemBytes: bytesOf(items), email: `${profileId}@merged.example` };
  await store.call((client) => client.hset(keys.counts(profileId), counts));
  await store.call((client) => client.hset(keys.items(profileId), items));
  await store.call((client) => client.hset(keys.profile(profileId), facts));
}

const profilesOf = ({ locator }: Server, { ids }: Visitor) =>
  [locator.profileOf(`c:${ids.customerId}`), locator.profileOf(`s:${ids.sessionId}`)] as const;

async function contentIn({ store }: Server, profileId: string) {
  const { keys, client } = store;
  const counts = await client.hgetall(keys.counts(profileId));
  const items = await client.hgetall(keys.items(profileId));
  const bytes = Number(await client.hget(keys.profile(profileId), 'itemBytes'));
  return {
    counts: Object.fromEntries(Object.entries(counts).map(([key, n]) => [key, Number(n)])),
    items,
    bytes,
  };
}

function sumOf(a: Record<string, number>, b: Record<string, number>): Record<string, number> {
  const sum = { ...a };
  for (const [key, n] of Object.entries(b)) sum[key] = (sum[key] ?? 0) + n;
  return sum;
}

let worlds = 0;
const nextPrefix = () => `m${worlds++}`;

eachRedis(t, async (t, redis) => {
  const OWN_COUNTS = countsOf(PRODUCTS - OWN / 2, PRODUCTS + OWN / 2);
  const OWN_ITEMS = itemsOf(ITEMS - OWN / 2, ITEMS + OWN / 2, 'own');
  const [COUNTS, OF_GUEST] = [countsOf(0, PRODUCTS), itemsOf(0, ITEMS, 'guest')];
  const begin = async (server: Server) => {
    const visitor = newVisitor();
    const [customer, session] = profilesOf(server, visitor);
    await fill(server, session, COUNTS, OF_GUEST);
    await fill(server, customer, OWN_COUNTS, OWN_ITEMS);
    return { visitor, customer, session };
  };

  t.test('a merge of many pages whose servers end at any step loses and doubles nothing', async (t) => {
    const prefix = nextPrefix();
    const [server, other] = await startTwo(t, redis, prefix);
    const third = await startServer(t, redis, prefix);
    const items = { ...OF_GUEST, ...OWN_ITEMS };
    const expected = { counts: sumOf(COUNTS, OWN_COUNTS), items, bytes: bytesOf(items) };
    const steps = await atEachStep(async (step) => {
      const { visitor, customer, session } = await begin(other);
      return {
        server,
        act: () => login(server, visitor.ids),
        check: async () => {
          // A server that resumes ends, too, a page or two later.
          third.crashAfter(5 + (step % 4), true);
          await login(third, visitor.ids).catch(() => {});
          third.recover();
          await login(other, visitor.ids);
          t.same(await contentIn(other, customer), expected, `ended after step ${step}`);
          const link = await other.locator.stateOf(`s:${visitor.ids.sessionId}`);
          t.match(link, { customer, state: 'merged' });
          const merges = (await shownMerges(redis, prefix)).filter(([from]) => from === session);
          t.same(merges, [[session, customer]], 'analysts see one merge');
        },
      };
    });
    t.ok(steps > 10, `${steps} steps`);
  });

  t.test(
    "a merge beyond the limits keeps the customer's own, then the newest items, and counts the rest",
    async (t) => {
      const ofGuest = (n: number) => Object.fromEntries(Object.entries(OF_GUEST).slice(ITEMS - n));
      const ownOnly = (n: number) => ({ ...ofGuest(n), ...OWN_ITEMS });
      const bytes = bytesOf(ownOnly(600));
      for (const [what, limits, newest] of [
        ['items', { items: 700 }, 650],
        // 50 of the newest are the customer's, too.
        ['bytes', { itemBytes: bytes }, 600],
        ['less than the customer has', { items: 30, itemBytes: 2_000 }, 0],
      ] as const) {
        const left = { product: 0, item: 0 };
        const server = await startServer(t, redis, nextPrefix(), {
          limits: { products: 700, ...limits },
          onLeftOut: (kind, fields) => {
            left[kind] += fields;
          },
        });
        const { visitor, customer } = await begin(server);
        t.equal(await login(server, visitor.ids), true);
        const { counts, items, bytes: held } = await contentIn(server, customer);
        const kept = newest === 0 ? OWN_ITEMS : ownOnly(newest);
        t.same(items, kept, what);
        t.equal(held, bytesOf(kept));
        t.equal(Object.keys(counts).length, 700);
        for (const [handle, n] of Object.entries(OWN_COUNTS)) t.ok((counts[handle] as number) >= n, handle);
        t.same(
          left,
          { product: PRODUCTS + OWN / 2 - 700, item: ITEMS + OWN / 2 - Object.keys(kept).length },
          what,
        );
      }
    },
  );

  t.test(
    'a merge beyond the limits keeps the same items, even if its server ends after any step',
    async (t) => {
      const options = { limits: { products: 700, items: 700 } };
      const [server, other] = await startTwo(t, redis, nextPrefix(), options);
      const items = { ...Object.fromEntries(Object.entries(OF_GUEST).slice(ITEMS - 650)), ...OWN_ITEMS };
      const sum = sumOf(COUNTS, OWN_COUNTS);
      await atEachStep(async (step) => {
        const { visitor, customer } = await begin(other);
        return {
          server,
          act: () => login(server, visitor.ids),
          check: async () => {
            await login(other, visitor.ids);
            const found = await contentIn(other, customer);
            t.same([found.items, found.bytes], [items, bytesOf(items)], `ended after step ${step}`);
            const counts = Object.entries(found.counts);
            t.equal(counts.length, 700);
            t.same(Object.fromEntries(counts.map(([handle]) => [handle, sum[handle]])), found.counts);
            for (const handle of Object.keys(OWN_COUNTS)) t.ok(handle in found.counts, handle);
          },
        };
      });
    },
  );

  t.test('a merge at the limits leaves room for the request that causes it', async (t) => {
    const app = await startApp(t, redis, { env: { MAX_ITEMS: '1', MAX_PRODUCTS: '1' } });
    const identity = { customerId: 'c', sessionId: 's' };
    for (const productId of ['1001']) await app.shop.add({ sessionId: 's' }, { productId });
    await app.shop.visit({ sessionId: 's' }, 'of-the-guest');
    await app.shop.add(identity, { productId: '2002' });
    const saved = (await app.shop.items({ customerId: 'c' })).map(({ productId }) => productId);
    t.same(saved, ['2002']);
    t.equal(await app.figure('merge_left_out_total{kind="item"}'), 1);
    await app.shop.visit({ sessionId: 's2' }, 'of-the-guest');
    t.equal(await app.shop.count({ customerId: 'c' }, 'of-the-guest'), 1);
    await app.shop.visit({ customerId: 'd', sessionId: 's2' }, 'x');
    t.same(
      [
        await app.shop.count({ customerId: 'd' }, 'x'),
        await app.shop.count({ customerId: 'd' }, 'of-the-guest'),
      ],
      [1, 0],
    );
    t.equal(await app.figure('merge_left_out_total{kind="product"}'), 1);
  });

  t.test(
    'a login of a customer with 10,000 sessions links nothing, and the session stays a guest',
    async (t) => {
      const app = await startApp(t, redis);
      const server = await startServer(t, redis, app.prefix, { buckets: 16_384 });
      const linked = { customerId: 'c', sessionId: 'linked' };
      await app.shop.visit(linked);
      const { keys, client } = server.store;
      const members = keys.members(server.locator.profileOf('c:c'));
      const notes = Array.from({ length: 9_999 }, (_, i) => [`0.s${i}`, `1.x known s:${i}\n`]).flat();
      await client.hset(members, ...notes);
      const identity = { customerId: 'c', sessionId: 'not-linked' };
      await app.shop.visit({ sessionId: 'not-linked' });
      t.match(await app.shop.visit(identity), { profileId: server.locator.profileOf('c:c'), count: 2 });
      t.match(await app.shop.login(identity), { merged: false });
      t.equal(await app.shop.count({ sessionId: 'not-linked' }), 1);
      t.equal(await server.locator.stateOf('s:not-linked'), 'guest');
      t.ok(Number(await app.figure('sessions_not_linked_total')) >= 2);
      t.equal(await app.shop.count({ sessionId: 'linked' }), 2, 'a linked one stays');
      // As if a failover had lost its member.
      await client.hdel(members, server.locator.profileOf('s:linked'));
      await client.hset(members, '0.sone-more', '1.x known s:one-more\n');
      t.match(await app.shop.visit({ sessionId: 'linked' }), { count: 3 });
    },
  );

  t.test('merges, visits and reads go on while the event stream is full', async (t: Test) => {
    const full = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1' } });
    await full.shop.visit(CUSTOMER);
    await full.shop.visit({ sessionId: 's' });
    t.match(await merge(full), { status: 200, json: { merged: true } });
    for (const identity of [CUSTOMER, { sessionId: 's' }, BOTH]) {
      const before = await full.shop.count(CUSTOMER);
      await full.shop.visit(identity);
      t.equal(await full.shop.count(CUSTOMER), before + 1);
      await full.shop.items(identity);
    }
    await full.shop.reset({ sessionId: 's' });
    t.equal(await full.shop.count(CUSTOMER), 0);
    const origins = (await full.rows()).map(({ origin }) => origin);
    t.same(origins, ['merge'], 'analysts see the merge all the same');
  });

  t.test("a merge completed late keeps the session's data for ten more minutes", async (t) => {
    const [server, other] = await startTwo(t, redis, nextPrefix());
    const { guest, ids } = newVisitor();
    await add(server, guest, '1');
    const [customer, session] = profilesOf(server, { ids } as Visitor);
    server.crashAfter(4, true);
    await t.rejects(login(server, ids));
    server.recover();
    const { id } = (await other.locator.stateOf(`s:${ids.sessionId}`)) as Link;
    // As if the merge had begun 20 minutes ago.
    const [old, { keys, client }] = [`${Number.parseInt(id, 10) - 20 * 60_000}.old`, other.store];
    for (const [key, field] of [
      [keys.counts(session), ''],
      [keys.profile(session), 'target'],
      [keys.members(customer), session],
    ] as const)
      await client.hset(key, field, (await client.hget(key, field))?.replace(id, old) as string);
    await other.pending.begin(session, `merge ${session} ${customer} ${old} again`);
    for (const [minutes, isKept] of [
      [0, 1],
      [9, 1],
      [2, 0],
    ] as const) {
      passTime(other, minutes * 60_000);
      await resume(other);
      t.match(await other.locator.stateOf(`s:${ids.sessionId}`), { customer, state: 'merged' });
      t.equal(await client.exists(keys.items(session)), isKept, `${minutes} minutes later`);
      // After the ten minutes, resume reads the customer once more, and needs the session's data.
      if (isKept === 1) t.ok((await client.pttl(keys.items(session))) > 15 * 60_000);
    }
  });

  t.test('a merge that is incomplete after 30 days frees its session', async (t) => {
    const [server, other] = await startTwo(t, redis, nextPrefix());
    const { guest, ids } = newVisitor();
    await add(server, guest, '1');
    server.crashAfter(4, true);
    await t.rejects(login(server, ids));
    server.recover();
    passTime(other, 31 * 24 * 60 * 60_000);
    await resume(other);
    t.equal(await other.locator.stateOf(`s:${ids.sessionId}`), 'unknown');
    const { profileId } = await other.counter.enter('visit', guest, true, 'x');
    t.equal(profileId, other.locator.profileOf(`s:${ids.sessionId}`));
  });
});

const BOTH = { customerId: 'c', sessionId: 's' };
const CUSTOMER = { customerId: 'c' };
const merge = (app: TestApp) => app.post('/profile/merge', { identity: BOTH }, TRUSTED);

t.test('a large merge takes many short steps, and other visitors are answered during it', async (t) => {
  const [products, saved] = FULL ? [300_000, 100_000] : [12_000, 2_000];
  const redis = await startTestRedis(t);
  const client: Client = connectTo(t, redis.url);
  const env = { MAX_PRODUCTS: String(products + 1), MAX_ITEMS: String(saved), MAX_ITEMS_BYTES: '1000000000' };
  const app = await startApp(t, redis, { timeoutMs: 2_000, env });
  const others = await startApp(t, redis, { prefix: app.prefix, env });
  const server = await startServer(t, redis, app.prefix, { buckets: 16_384 });
  await app.shop.visit(CUSTOMER, 'p-7');
  const [customer, session] = ['c:c', 's:s'].map((name) => server.locator.profileOf(name)) as [
    string,
    string,
  ];
  for (let i = 0; i < products; i += 1_000)
    await fill(
      server,
      session,
      countsOf(i, i + 1_000),
      itemsOf(Math.min(i, saved - 1_000), Math.min(i, saved - 1_000) + 1_000, 'guest'),
    );
  let longest = 0;
  let scripts = 0;
  const close = await monitorRedis(redis.url, (command) => {
    if (!/^eval/i.test(command[0] ?? '')) return;
    scripts++;
    longest = Math.max(longest, command.length);
  });
  t.teardown(close);

  let isMerging = true;
  const bystanders = async () => {
    const statuses = new Map<number, number>();
    for (let i = 0; isMerging; i++) {
      const body = { identity: { sessionId: `bystander-${i}` }, productHandle: 'x' };
      const { status } = await others.post('/product/visit', body);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    return statuses;
  };
  const watching = bystanders();
  let answer = await merge(app);
  for (let tries = 1; answer.status === 503 && tries < 200; tries++) answer = await merge(app);
  isMerging = false;
  t.equal(answer.status, 200);
  const statuses = await watching;
  t.same([...statuses.keys()], [200], 'each visit of the others was counted');
  t.ok((statuses.get(200) ?? 0) > 10, 'during the merge');
  t.ok(scripts > products / 1_000, `${scripts} script calls`);
  t.ok(longest < 1_200, `no step takes more than a page: ${longest} arguments at most`);

  const keys = createKeys(app.prefix);
  t.equal(await client.hlen(keys.counts(customer)), products);
  t.equal(await app.shop.count(CUSTOMER, 'p-7'), 3);
  t.equal(new Set((await app.shop.items(CUSTOMER)).map(({ itemId }) => itemId)).size, saved);
  t.ok(parseItem((await client.hget(keys.items(customer), '1:')) as string));

  // The field `registered` of a guest without counts is not copied to the customer.
  const made = await app.shop.event({ sessionId: 'registered' });
  t.equal(await client.hget(keys.profile(made.profileId), 'registered'), '1');
  const both = { ...CUSTOMER, sessionId: 'registered' };
  t.match((await app.post('/profile/merge', { identity: both }, TRUSTED)).json, { merged: true });
  t.equal(await client.hexists(keys.profile(customer), 'registered'), 0);
});
