// A merge ends as if it had not been interrupted: far above the caps, with a full stream, after a crash at any step.

import type { Redis as Client } from 'ioredis';
import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { parseItem } from '../../src/wishlist/item.js';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import type { Answer } from '../harness/client.js';
import { monitorRedis } from '../harness/monitor.js';
import { connectTo, eachKey, startTestRedis } from '../harness/redis.js';
import { contentOf, identityOf, storedItem } from '../harness/samples.js';
import { atEachStep, countOf, shownMerges, startServer, startTwo, VISITOR } from '../wishlist/fixtures.js';

const FULL = process.env['FAULTS'] === 'full';
/** A profile from before there were caps. */
const PRODUCTS = FULL ? 300_000 : 12_000;
const ITEMS = FULL ? 100_000 : 2_000;
const MAX_TRIES = 200;

const BOTH = { customerId: 'c', sessionId: 's' };
/** Its name has a hash. */
const LONG = 's'.repeat(63);
const CUSTOMER_IDS = { customerId: 'c' };

const merge = (app: TestApp) => app.post('/profile/merge', { identity: BOTH }, TRUSTED);

async function untilDone(send: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const answer = await send();
    if (answer.status !== 503) return answer;
  }
  throw new Error(`503 for ${MAX_TRIES} times`);
}

async function inPages(n: number, write: (from: number, to: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < n; i += 1_000) await write(i, Math.min(i + 1_000, n));
}

/** Fills a guest's profile, as an older version may have left it. */
async function fill(client: Client, prefix: string, profileId: string): Promise<void> {
  const keys = createKeys(prefix);
  await inPages(PRODUCTS, (from, to) => {
    const fields = Array.from({ length: to - from }, (_, i) => [`product-${from + i}`, 2]).flat();
    return client.hset(keys.identity(profileId), ...fields);
  });
  await inPages(ITEMS, (from, to) => {
    const fields = Array.from({ length: to - from }, (_, i) => {
      const content = contentOf(String(from + i));
      return [`${from + i}:`, storedItem(`item-${from + i}`, content, '2026-01-01T00:00:00.000Z')];
    }).flat();
    return client.hset(keys.items(profileId), ...fields);
  });
}

t.test('a profile far above the caps is merged in pieces, and others go on meanwhile', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const app = await startApp(t, redis, { timeoutMs: 2_000 });
  const others = await startApp(t, redis, { prefix: app.prefix });
  await app.shop.visit({ customerId: 'c' }, 'product-7');
  const { profileId: guest } = await app.shop.visit({ sessionId: 's' }, 'x');
  await fill(client, app.prefix, guest);
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
  const answer = await untilDone(() => merge(app)).finally(() => {
    isMerging = false;
  });
  t.equal(answer.status, 200);
  const statuses = await watching;
  t.same([...statuses.keys()], [200], 'each visit of the others was counted');
  t.ok((statuses.get(200) ?? 0) > 10, 'while the merge was under way');
  t.ok(scripts > PRODUCTS / 1_000, `${scripts} script calls`);
  t.ok(longest < 1_200, `no step takes more than a page: ${longest} arguments at most`);

  const counts = createKeys(app.prefix).counts(answer.json.profileId);
  t.equal(await client.hlen(counts), PRODUCTS + 1);
  t.equal(await app.shop.count(CUSTOMER_IDS, 'product-7'), 3);
  t.equal(await app.shop.count(CUSTOMER_IDS, `product-${PRODUCTS - 1}`), 2);
  t.equal(new Set((await app.shop.items(CUSTOMER_IDS)).map(({ itemId }) => itemId)).size, ITEMS);
  t.ok(parseItem((await client.hget(createKeys(app.prefix).items(answer.json.profileId), '1:')) as string));

  // A guest without counts has a field of its own kind, which is not a customer's.
  const profileOf = (profileId: string) => createKeys(app.prefix).profile(profileId);
  const made = await app.shop.event({ sessionId: 'registered' });
  t.equal(await client.hget(profileOf(made.profileId), 'registered'), '1');
  const both = { ...CUSTOMER_IDS, sessionId: 'registered' };
  t.match((await app.post('/profile/merge', { identity: both }, TRUSTED)).json, { merged: true });
  t.equal(await client.hexists(profileOf(answer.json.profileId), 'registered'), 0);
});

eachRedis(t, async (t, redis) => {
  t.test('a full stream locks no visitor out: merges, visits and reads go on', async (t: Test) => {
    const full = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1' } });
    await full.shop.visit({ customerId: 'c' });
    await full.shop.visit({ sessionId: 's' });
    t.match(await merge(full), { status: 200, json: { merged: true } });
    for (const identity of [{ customerId: 'c' }, { sessionId: 's' }, BOTH]) {
      const before = await full.shop.count(CUSTOMER_IDS);
      await full.shop.visit(identity);
      t.equal(await full.shop.count(CUSTOMER_IDS), before + 1);
      await full.shop.items(identity);
    }
    await full.shop.reset({ sessionId: 's' });
    t.equal(await full.shop.count(CUSTOMER_IDS), 0);
    const rows = await full.rows();
    const origins = rows.map(({ origin }) => origin);
    t.same(origins, ['merge'], 'analysts are told of the merge all the same');
  });

  const start = async (t: Test, prefix: string) => {
    const server = await startServer(t, redis, prefix);
    const link = (sessionId: string, customerId = 'c') => server.visitors.link({ customerId, sessionId });
    const [first, second] = [identityOf({ sessionId: 's1' }), identityOf({ sessionId: LONG })];
    return { server, first, second, link };
  };

  const loseCustomers = (prefix: string) =>
    eachKey(redis, `${prefix}:*:v:c*`, (client, key) => client.del(key));

  t.test('after a failover a merge target is merged, too: analysts and erasures know of all', async (t) => {
    const prefix = 'told';
    const { server, first, second, link } = await start(t, prefix);
    for (const who of [first, second]) await server.visitors.enter('visit', who, true, 'x');
    const { profileId: merged } = await server.visitors.find(second, true);
    const {
      link: { profileId: linked },
    } = await link('s1');
    t.match(await link(LONG), { link: { profileId: linked }, merged: true });
    await loseCustomers(prefix);
    await server.visitors.enter('visit', VISITOR.customer, true, 'x');
    const { profileId: own } = await server.visitors.find(VISITOR.customer, true);
    t.not(own, linked);
    t.match(await link('s1'), { link: { profileId: own }, merged: true });
    t.equal(await countOf(server, second, 'x'), 3);
    const told = (await shownMerges(redis, prefix)).map(String).sort();
    t.same(told, [`${merged},${linked}`, `${linked},${own}`, `${merged},${own}`].sort());
    t.equal(await server.eraser.erase('c:c'), true);
    const { keys, client } = server.store;
    const queued = await client.hmget(keys.erasures, own, linked, merged);
    t.notOk(queued.includes(null), 'their rows');
  });

  t.test('a merge after a failover leaves a session alone that another customer has by then', async (t) => {
    const prefix = 'taken-over';
    const { server, first, second, link } = await start(t, prefix);
    await server.visitors.enter('visit', first, true, 'x');
    await link('s1');
    await link(LONG);
    await loseCustomers(prefix);
    await server.visitors.enter('visit', VISITOR.customer, true, 'x');
    const { link: others } = await link('s1', 'd');
    t.match(await link(LONG), { merged: true });
    t.match(await server.visitors.find(first, true), { profileId: others.profileId, exists: true });
    t.equal(await countOf(server, first, 'x'), 0);
    t.equal(await countOf(server, second, 'x'), 2);
  });

  const startWithTwoProfiles = async (t: Test, prefix: string) => {
    const [server, other] = await startTwo(t, redis, prefix);
    await server.visitors.enter('visit', VISITOR.guest, true, 'x');
    const { link: former } = await server.visitors.link(VISITOR.ids);
    await loseCustomers(prefix);
    await server.visitors.enter('visit', VISITOR.customer, true, 'x');
    return { server, other, former };
  };

  t.test('an erasure after a failover erases a profile that a login has listed, too', async (t) => {
    let listed = 0;
    await atEachStep(async (step) => {
      const { server, other, former } = await startWithTwoProfiles(t, `listed-${step}`);
      const { profileId } = await other.visitors.find(VISITOR.customer, true);
      return {
        server,
        act: () => server.visitors.link(VISITOR.ids),
        check: async () => {
          const members = other.store.keys.members(profileId);
          const isListed = await other.store.call((client) => client.hexists(members, former.profileId));
          const source = other.store.keys.profile(former.profileId);
          const isBegun = await other.store.call((client) => client.hexists(source, 'target'));
          t.equal(await other.eraser.erase('c:c'), true);
          if (isListed === 0)
            return void t.equal(isBegun, 0, `listed before it is merged, after step ${step}`);
          listed++;
          t.equal(await countOf(other, VISITOR.guest, 'x'), 0, `after step ${step}`);
          t.match(await other.visitors.find(VISITOR.guest, true), { exists: false }, `after step ${step}`);
        },
      };
    });
    t.ok(listed > 5);
  });

  t.test('a login after a failover loses nothing, though an erasure overtakes it', async (t) => {
    const { server, other } = await startWithTwoProfiles(t, 'overtaken');
    const { links } = server;
    const join = links.join.bind(links);
    links.join = async (...call) => {
      links.join = join;
      await other.eraser.erase('c:c');
      return join(...call);
    };
    await server.visitors.link(VISITOR.ids);
    t.equal(await countOf(other, VISITOR.guest, 'x'), 1);
  });
});
