// A failover forgets a node's last moments: nothing is lost or doubled. Here keys are put back; test/faults has real replicas.

import type { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import type { Linked } from '../../src/profiles/link.js';
import { bucketOf } from '../../src/redis/keys.js';
import { wishersOf } from '../extras/alerts/fixtures.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import { add, atEachStep, countOf, products, type Server, startServer } from '../wishlist/fixtures.js';

const HANDLE = 'x';
/** A guest who is not linked ends. */
const GUESTS_S = 1_000;
let worlds = 0;

type Ids = Parameters<typeof identityOf>[0];

class Visitor {
  constructor(
    readonly server: Server,
    readonly ids: Ids,
  ) {}

  get who() {
    return identityOf(this.ids);
  }

  async visit(times: number): Promise<string> {
    let profileId = '';
    for (let i = 0; i < times; i++)
      ({ profileId } = await this.server.visitors.enter('visit', this.who, true, HANDLE));
    return profileId;
  }

  async add(product: string): Promise<void> {
    await add(this.server, this.who, product);
  }

  async see(): Promise<{ count: number; items: string[] }> {
    const count = await countOf(this.server, this.who, HANDLE);
    return { count, items: (await products(this.server, this.who)).sort() };
  }
}

/** What one node holds of a bucket; put back, the node has forgotten all since. */
async function remember(client: Redis, prefix: string, bucket: string): Promise<() => Promise<void>> {
  const pattern = `${prefix}:{${bucket}}:*`;
  const keys = (await client.keys(pattern)).filter((key) => !key.includes(':channel:'));
  const kept = await Promise.all(
    keys.map(async (key) => ({ key, dump: await client.dumpBuffer(key), ttl: await client.pttl(key) })),
  );
  return async () => {
    for (const key of await client.keys(pattern)) if (!key.includes(':channel:')) await client.del(key);
    for (const { key, dump, ttl } of kept) await client.restore(key, Math.max(ttl, 0), dump as Buffer);
  };
}

interface World {
  readonly prefix: string;
  readonly customer: Visitor;
  readonly session: Visitor;
  /** The same two, by a server that has seen nothing of what was done before. */
  anew(): Promise<{ customer: Visitor; session: Visitor; server: Server }>;
  link(server?: Server): Promise<Linked>;
  /** Buckets of the customer's and the session's default profiles; they differ. */
  readonly buckets: { readonly customer: string; readonly session: string };
  remember(bucket: string): Promise<() => Promise<void>>;
  /** Profiles that name a target which does not have all of them yet. */
  unfinished(): Promise<number>;
  /** What profiles of a bucket have, beside a guest's counts, that will end. */
  ending(bucket: string): Promise<string[]>;
}

async function startWorld(t: Test, redis: { urls: readonly string[]; url: string }): Promise<World> {
  const prefix = `f${worlds++}`;
  const server = await startServer(t, redis, prefix, { guestsS: GUESTS_S, alerts: true });
  const client = connectTo(t, redis.url);
  const customer = new Visitor(server, { customerId: 'c' });
  const bucketOfVisitor = async ({ who }: Visitor) =>
    bucketOf((await server.visitors.find(who, true)).profileId);
  const home = await bucketOfVisitor(customer);
  let n = 0;
  let session = new Visitor(server, { sessionId: `s${n}` });
  while ((await bucketOfVisitor(session)) === home) session = new Visitor(server, { sessionId: `s${++n}` });
  const both = { customerId: 'c', sessionId: session.ids.sessionId as string };
  return {
    prefix,
    customer,
    session,
    buckets: { customer: home, session: await bucketOfVisitor(session) },
    remember: (bucket) => remember(client, prefix, bucket),
    async unfinished() {
      const targets = await Promise.all(
        (await client.keys(`${prefix}:*:p:*`)).map((key) => client.hget(key, 'target')),
      );
      return targets.filter((target) => target?.startsWith('!')).length;
    },
    async ending(bucket) {
      const keys = (await client.keys(`${prefix}:{${bucket}}:*`)).filter((key) => /}:[rpiog]:/.test(key));
      const ttls = await Promise.all(keys.map(async (key) => [key, await client.ttl(key)] as const));
      return ttls.flatMap(([key, ttl]) => (ttl === -1 ? [] : [key]));
    },
    link: (by = server) => by.visitors.link(both),
    async anew() {
      const fresh = await startServer(t, redis, prefix, { guestsS: GUESTS_S, alerts: true });
      return {
        server: fresh,
        customer: new Visitor(fresh, customer.ids),
        session: new Visitor(fresh, session.ids),
      };
    },
  };
}

t.test('a failover that forgets one half', async (t) => {
  const redis = await startTestRedis(t);

  const startMerge = async () => {
    const world = await startWorld(t, redis);
    await world.customer.visit(2);
    await world.customer.add('of-the-customer');
    await world.session.visit(5);
    await world.session.add('of-the-guest');
    return world;
  };
  const ALL = { count: 7, items: ['of-the-customer', 'of-the-guest'] };

  t.test('of an unfinished merge, at the target: it gets again what it was given, once', async (t) => {
    await atEachStep(async (step) => {
      const world = await startMerge();
      const forget = await world.remember(world.buckets.customer);
      return {
        server: world.session.server,
        act: () => world.link(),
        check: async () => {
          // A finished one is on a replica of the target's node.
          if ((await world.unfinished()) > 0) await forget();
          const { server: other, customer, session } = await world.anew();
          await world.link(other);
          for (const one of [customer, session]) t.same(await one.see(), ALL, `crashed after step ${step}`);
        },
      };
    });
  });

  /** Crashes after each step, as long as that leaves an unfinished merge. */
  const amid = async (
    t: Test,
    check: (world: World, forgetCustomer: () => Promise<void>, when: string) => Promise<void>,
  ) => {
    let crashes = 0;
    await atEachStep(async (step) => {
      const world = await startMerge();
      const forgetCustomer = await world.remember(world.buckets.customer);
      return {
        server: world.session.server,
        act: () => world.link(),
        check: async () => {
          // Before that step a replica may lack it, and nothing is given.
          if ((await world.unfinished()) === 0) return;
          crashes++;
          await check(world, forgetCustomer, `crashed after step ${step}`);
        },
      };
    });
    t.ok(crashes >= 3, `${crashes} crashes on the way`);
  };

  t.test('of a begun merge, at the source: it is finished again, and adds nothing', async (t) => {
    await amid(t, async (world, _, when) => {
      const forget = await world.remember(world.buckets.session);
      const { server: other, customer, session } = await world.anew();
      await world.link(other);
      await customer.visit(1);
      await forget();
      for (let scan = 0; scan < 2; scan++) await other.resume.run();
      for (const one of [customer, session]) t.same(await one.see(), { ...ALL, count: 8 }, when);
    });
  });

  t.test('of an unfinished merge whose customer is erased: the index has the guest again', async (t) => {
    await amid(t, async (world, forgetCustomer, when) => {
      const guest = world.session.server.links.defaultProfile(`s:${world.session.ids.sessionId}`);
      await forgetCustomer();
      const { server, session } = await world.anew();
      await server.eraser.erase('c:c');
      for (let scan = 0; scan < 2; scan++) await server.resume.run();
      t.same(await session.see(), { count: 5, items: ['of-the-guest'] }, when);
      t.ok((await wishersOf(redis, world)).includes(guest), when);
    });
  });

  t.test('of the first step, while it waits for a replica: it is refused, and done again', async (t) => {
    const world = await startMerge();
    const { store } = world.session.server;
    const wait = store.onReplica.bind(store);
    const forget = await world.remember(world.buckets.session);
    store.onReplica = () => {
      store.onReplica = wait;
      return forget();
    };
    await t.rejects(world.link(), { code: 'unavailable' });
    t.match(await world.link(), { merged: true });
    for (const one of [world.customer, world.session]) t.same(await one.see(), ALL);
  });

  t.test('of a merge that nothing else came after: a reset stays one', async (t) => {
    const world = await startMerge();
    t.match(await world.link(), { merged: true });
    await world.session.server.visitors.enter('reset', world.session.who, true, HANDLE);
    const { server, customer } = await world.anew();
    await server.resume.run();
    t.match(await customer.see(), { count: 0 }, 'what the target has it does not get again');
  });

  t.test('of an erasure, at the merged guest: what was erased does not come back', async (t) => {
    const world = await startWorld(t, redis);
    await world.customer.visit(2);
    const guest = await world.session.visit(5);
    t.match(await world.link(), { merged: true });
    const forget = await world.remember(world.buckets.session);
    t.equal(await world.customer.server.eraser.erase('c:c'), true);
    await forget();
    const { server, customer, session } = await world.anew();
    await customer.visit(1);
    t.equal(await server.redirects.locate(guest), undefined, 'nor does it lead to who came back');
    t.match(await session.see(), { count: 0 });
    t.match(await customer.see(), { count: 1 });
  });

  t.test('of an adoption, at the customer: the next link brings both together', async (t) => {
    const world = await startWorld(t, redis);
    await world.session.visit(5);
    const forget = await world.remember(world.buckets.customer);
    t.match(await world.link(), { merged: false });
    await world.customer.visit(1);
    await forget();

    const { server, customer, session } = await world.anew();
    t.match(await customer.see(), { count: 0 });
    await customer.visit(4);
    await session.visit(1);
    await world.link(server);
    for (const one of [customer, session]) t.match(await one.see(), { count: 11 }, '5 + 1 + 4 + 1');
  });

  t.test('of an adoption, at the session: the next link brings both together', async (t) => {
    const world = await startWorld(t, redis);
    const ending = () => world.ending(world.buckets.session);
    await world.session.visit(5);
    await world.session.add('of-the-guest');
    t.ok((await ending()).length > 0, 'a guest ends');
    const forget = await world.remember(world.buckets.session);
    const { link } = await world.link();
    t.same(await ending(), [], 'a customer does not');
    await forget();

    const { server, customer, session } = await world.anew();
    t.not(await customer.visit(2), link.profileId, 'there is no such profile any more');
    t.ok((await ending()).length > 0, 'the session is a guest again');
    await session.visit(1);
    await session.add('as-a-guest');
    t.match(await world.link(server), { merged: true });
    for (const one of [customer, session])
      t.same(await one.see(), { count: 8, items: ['as-a-guest', 'of-the-guest'] });
  });
});
