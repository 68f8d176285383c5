// A failover loses the last writes of a node: data from before a login stay, and the session can log in again. These tests
// restore older copies of keys; test/faults has real replicas.

import type { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import type { Link } from '../../src/profiles/link.js';
import { bucketOf } from '../../src/redis/keys.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import {
  add,
  atEachStep,
  countOf,
  followShare,
  login,
  passTime,
  products,
  resume,
  type Server,
  share,
  shownMerges,
  startServer,
} from '../wishlist/fixtures.js';

const HANDLE = 'x';
const MINUTE_MS = 60_000;
let worlds = 0;

/** Copies the keys of a pattern. @returns a function that restores them, so that all later writes are lost */
async function remember(client: Redis, pattern: string): Promise<() => Promise<void>> {
  const keysOf = async () => (await client.keys(pattern)).filter((key) => !key.includes(':channel:'));
  const kept = await Promise.all(
    (await keysOf()).map(async (key) => ({
      ...{ key, dump: await client.dumpBuffer(key), ttl: await client.pttl(key) },
    })),
  );
  return async () => {
    for (const key of await keysOf()) await client.del(key);
    for (const { key, dump, ttl } of kept) await client.restore(key, Math.max(ttl, 0), dump as Buffer);
  };
}

interface Seen {
  readonly count: number;
  readonly items: readonly string[];
}

interface World {
  readonly prefix: string;
  readonly server: Server;
  /** A server with empty caches. */
  anew(): Promise<Server>;
  readonly ids: Record<'toThis' | 'toAnother', { readonly customerId: string; readonly sessionId: string }>;
  readonly customer: ReturnType<typeof identityOf>;
  readonly another: ReturnType<typeof identityOf>;
  readonly session: ReturnType<typeof identityOf>;
  visit(who: World['customer'], times: number): Promise<void>;
  see(by: Server, who: World['customer']): Promise<Seen>;
  /** Customer and session stand for different nodes; pending work is on the session's. */
  remember(whose: 'customer' | 'session'): Promise<() => Promise<void>>;
}

t.test('a failover', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);

  const startWorld = async (t: Test): Promise<World> => {
    const prefix = `f${worlds++}`;
    const server = await startServer(t, redis, prefix, { guestsS: 1_000 });
    const bucket = (name: string) => bucketOf(server.locator.profileOf(name));
    let n = 0;
    while (bucket(`s:s${n}`) === bucket('c:c')) n++;
    const sessionId = `s${n}`;
    const [customer, another, session] = [{ customerId: 'c' }, { customerId: 'd' }, { sessionId }].map(
      identityOf,
    );
    return {
      ...{ prefix, server, customer, another, session },
      ids: { toThis: { customerId: 'c', sessionId }, toAnother: { customerId: 'd', sessionId } },
      anew: () => startServer(t, redis, prefix, { guestsS: 1_000 }),
      async visit(who, times) {
        for (let i = 0; i < times; i++) await server.counter.enter('visit', who, true, HANDLE);
      },
      see: async (by, who) => ({
        count: await countOf(by, who, HANDLE),
        items: (await products(by, who)).sort(),
      }),
      async remember(whose) {
        if (whose === 'customer') return remember(client, `${prefix}:{${bucket('c:c')}}:*`);
        const parts = [`${prefix}:{${bucket(`s:${sessionId}`)}}:*`, `${prefix}:{${prefix}:meta}:pending`];
        const forget = await Promise.all(parts.map((pattern) => remember(client, pattern)));
        return async () => void (await Promise.all(forget.map((one) => one())));
      },
    } as World;
  };

  /** Customer and guest both have data before the login. */
  const startMerge = async (t: Test) => {
    const world = await startWorld(t);
    const { server, customer, session } = world;
    await world.visit(customer, 2);
    await add(server, customer, 'of-the-customer');
    await world.visit(session, 5);
    await add(server, session, 'of-the-guest');
    return world;
  };
  const ALL = { count: 7, items: ['of-the-customer', 'of-the-guest'] };

  /** Ends a login after each step; then the nodes of `lost` lose it. @param check is called with a server with empty caches */
  const afterEachStep = (
    t: Test,
    lost: readonly ('customer' | 'session')[],
    check: (world: World, other: Server, when: string) => Promise<void>,
  ) =>
    atEachStep(async (step) => {
      const world = await startMerge(t);
      const forget = await Promise.all(lost.map((whose) => world.remember(whose)));
      return {
        server: world.server,
        act: () => login(world.server, world.ids.toThis),
        check: async () => {
          for (const one of forget) await one();
          await check(world, await world.anew(), `ended after step ${step}`);
        },
      };
    });

  const NOTICED: Readonly<Record<string, (by: Server, world: World) => Promise<unknown>>> = {
    "the session's next request": async (by, { session, see }) => {
      // A login that ended before it froze anything has changed nothing.
      if ((await by.locator.stateOf(`s:${session.sessionId}`)) !== 'guest') await see(by, session);
    },
    'another process ten minutes later': async (by) => {
      passTime(by, 11 * MINUTE_MS);
      await resume(by);
    },
  };
  for (const [by, notice] of Object.entries(NOTICED))
    t.test(`a merge that a failover lost at the customer is repeated exactly once, by ${by}`, async (t) => {
      const steps = await afterEachStep(t, ['customer'], async (world, other, when) => {
        const third = await world.anew();
        await notice(other, world);
        const link = await third.locator.stateOf(`s:${world.session.sessionId}`);
        if (link === 'guest') {
          t.same(await world.see(other, world.session), { count: 5, items: ['of-the-guest'] }, when);
          await login(other, world.ids.toThis);
        }
        for (const server of [other, third, world.server])
          for (const who of [world.customer, world.session]) t.same(await world.see(server, who), ALL, when);
        t.equal((await shownMerges(redis, world.prefix)).length, 1, when);
      });
      t.ok(steps >= 6, `${steps} steps`);
    });

  t.test('a login that a failover lost at the session loses no data, and can be repeated', async (t) => {
    let doubled = 0;
    await afterEachStep(t, ['session'], async (world, other, when) => {
      t.same(
        await world.see(other, world.session),
        { count: 5, items: ['of-the-guest'] },
        `${when}: a guest`,
      );
      await resume(other);
      await login(other, world.ids.toThis);
      for (const server of [other, world.server])
        for (const who of [world.customer, world.session]) {
          const { count, items } = await world.see(server, who);
          t.same(items, ALL.items, when);
          // The customer counts merged visits twice if its node has kept them.
          t.ok(count === 7 || count === 12, `${when}: ${count}`);
          if (count === 12) doubled++;
        }
      await world.visit(world.session, 1);
    });
    t.ok(doubled > 0);
  });

  t.test('a login that a failover lost on both sides loses nothing when it is repeated', async (t) => {
    await afterEachStep(t, ['customer', 'session'], async (world, other, when) => {
      t.equal(await login(other, world.ids.toThis), true);
      for (const who of [world.customer, world.session]) t.same(await world.see(other, who), ALL, when);
    });
  });

  t.test('a merge that a failover kept is not repeated: a reset count stays 0', async (t) => {
    const world = await startMerge(t);
    t.equal(await login(world.server, world.ids.toThis), true);
    await world.server.counter.enter('reset', world.session, true, HANDLE);
    const other = await world.anew();
    passTime(other, 11 * MINUTE_MS);
    await resume(other);
    t.match(await world.see(other, world.customer), { count: 0 });
  });

  t.test('an erasure that a failover lost at the merged session brings nothing back', async (t) => {
    const world = await startMerge(t);
    await login(world.server, world.ids.toThis);
    const forget = await world.remember('session');
    t.equal(await world.server.eraser.erase('c:c'), true);
    await forget();
    const other = await world.anew();
    await other.counter.enter('visit', world.customer, true, HANDLE);
    t.same(await world.see(other, world.session), { count: 0, items: [] });
    t.same(await world.see(other, world.customer), { count: 1, items: [] });
    t.equal(
      await other.presentOf(other.locator.profileOf(`s:${world.session.sessionId}`)),
      other.locator.profileOf(`s:${world.session.sessionId}`),
      'its profile id leads to no customer',
    );
  });

  t.test(
    'a failover that loses a link without a merge, or its member, is repaired by the next request',
    async (t) => {
      for (const whose of ['customer', 'session'] as const) {
        const world = await startWorld(t);
        await world.visit(world.customer, 2);
        const forget = await world.remember(whose);
        await login(world.server, world.ids.toThis);
        await forget();
        const other = await world.anew();
        for (const server of [other, world.server]) {
          await server.counter.enter('visit', world.session, true, HANDLE);
          await login(server, world.ids.toThis);
        }
        for (const server of [other, world.server])
          for (const who of [world.customer, world.session])
            t.match(await world.see(server, who), { count: 4 }, whose);
      }
    },
  );

  t.test(
    'a move that a failover lost leaves the session with one of its customers, and can be repeated',
    async (t) => {
      for (const whose of ['customer', 'session'] as const) {
        const world = await startMerge(t);
        await login(world.server, world.ids.toThis);
        await world.visit(world.another, 1);
        const forget = await world.remember(whose);
        await login(world.server, world.ids.toAnother);
        await forget();
        const other = await world.anew();
        const [first, second] = [ALL, { count: 1, items: [] }];
        const present = whose === 'customer' ? second : first;
        t.same(await world.see(other, world.session), present, whose);
        await login(other, world.ids.toAnother);
        t.same(await world.see(other, world.session), second, whose);
        await resume(other);
        await login(other, world.ids.toThis);
        t.same(await world.see(other, world.session), first, `${whose}: nothing is merged twice`);
      }
    },
  );

  t.test("a guest's address and share code survive a failover that loses the merge", async (t) => {
    const world = await startMerge(t);
    const forget = await world.remember('customer');
    const email = 'guest@failover.example';
    await world.server.profiles.keep({ ...world.session, email }, true, true);
    const code = await share(world.server, world.session);
    await login(world.server, world.ids.toThis);
    await forget();
    const other = await world.anew();
    await world.see(other, world.session);
    const link = (await other.locator.stateOf(`s:${world.session.sessionId}`)) as Link;
    t.same(await other.emails.findOwners(other.emails.digest(email)), [link.customer]);
    t.match(await client.hgetall(other.store.keys.profile(link.customer)), { email });
    t.same((await followShare(other, code)).sort(), ALL.items);
  });

  t.test('a login waits for no replica without REDIS_REPLICAS', async (t) => {
    const world = await startMerge(t);
    await client.config('RESETSTAT');
    await login(world.server, world.ids.toThis);
    await login(world.server, world.ids.toAnother);
    const stats = await client.info('commandstats');
    t.match(stats, /^cmdstat_fcall|^cmdstat_evalsha/m);
    t.notMatch(stats, /^cmdstat_wait/m);
  });
});
