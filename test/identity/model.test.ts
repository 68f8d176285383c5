// The identity rules and merges against a simple model: random sequences of visits, resets, links and crashes
// in the middle of links, by several servers with caches of their own, end in the model's counts and keep its ids.

import fc from 'fast-check';
import t from 'tap';
import { ServiceError } from '../../src/errors.js';
import { appendFormat } from '../../src/events/appender.js';
import { recordingFormat } from '../../src/events/recording.js';
import type { IdentityParts } from '../../src/identity/open.js';
import { openIdentity } from '../../src/identity/open.js';
import type { Identity } from '../../src/identity-rules.js';
import { Store } from '../../src/redis/store.js';
import { visitFormat } from '../../src/visits/visit-batch.js';
import { WishlistBatch } from '../../src/wishlist/wishlist-batch.js';
import { startTestCluster, startTestRedis, type TestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';

const SERVERS = 3;
const RUNS = Number(process.env['MODEL_RUNS'] ?? 60);

interface Server extends IdentityParts {
  /** The script call, counted from now, after which this server loses Redis for the rest of the request. */
  crashAfter: number;
  close(): Promise<void>;
}

async function startServer(redis: TestRedis, keyPrefix: string): Promise<Server> {
  const store = await Store.open({
    urls: redis.urls,
    name: 'model test',
    timeoutMs: 60_000,
    keyPrefix,
    buckets: 16,
    onError: () => {},
  });
  const visits = store.batcher(visitFormat(store.keys, 10_000, 0));
  const appends = store.batcher(appendFormat(store.keys, 'events', Number.MAX_SAFE_INTEGER));
  const recordings = store.batcher(recordingFormat(store, Number.MAX_SAFE_INTEGER));
  const wishlists = new WishlistBatch(store, { highWater: Number.MAX_SAFE_INTEGER });
  const server: Server = {
    ...openIdentity(store, visits, recordings, appends, wishlists, 10_000),
    crashAfter: Number.POSITIVE_INFINITY,
    async close() {
      await visits.close();
      await appends.close();
      await wishlists.close();
      store.close();
    },
  };
  const crashing = (act: Store['run']): Store['run'] => {
    const bound = act.bind(store);
    return async (script, keys, args) => {
      if (server.crashAfter <= 0) throw new ServiceError('unavailable');
      const reply = await bound(script, keys, args);
      if (--server.crashAfter <= 0) throw new ServiceError('unavailable');
      return reply;
    };
  };
  store.run = crashing(store.run);
  store.change = crashing(store.change);
  return server;
}

/** What the contract's table says, with objects instead of Redis. */
class Model {
  readonly customers = new Map<number, Profile>();
  readonly sessions = new Map<number, Profile>();

  profile(who: Who): Profile | undefined {
    return who.customer !== undefined
      ? this.customers.get(who.customer)
      : this.sessions.get(who.session as number);
  }

  make(who: Who): Profile {
    const found = this.profile(who);
    if (found) return found;
    const profile: Profile = { owner: who.customer, counts: new Map() };
    if (who.customer !== undefined) this.customers.set(who.customer, profile);
    else this.sessions.set(who.session as number, profile);
    return profile;
  }

  link(customer: number, session: number): Profile {
    const ofSession = this.sessions.get(session);
    const ofCustomer = this.customers.get(customer);
    if (ofSession && !ofCustomer && ofSession.owner === undefined) {
      ofSession.owner = customer;
      this.customers.set(customer, ofSession);
      return ofSession;
    }
    const target = this.make({ customer, session: undefined });
    if (ofSession && ofSession !== target && ofSession.owner === undefined) {
      for (const [handle, n] of ofSession.counts)
        target.counts.set(handle, (target.counts.get(handle) ?? 0) + n);
    }
    this.sessions.set(session, target);
    return target;
  }
}

interface Profile {
  owner: number | undefined;
  readonly counts: Map<string, number>;
}

interface Who {
  readonly customer: number | undefined;
  readonly session: number | undefined;
}

function identity({ customer, session }: Who): Identity {
  return identityOf({
    customerId: customer === undefined ? null : `customer-${customer}`,
    sessionId: session === undefined ? null : `session-${session}`,
  });
}

const handle = fc.constantFrom('a', 'b');
const server = fc.nat(SERVERS - 1);
const session = fc.nat(3);
const customer = fc.nat(2);
const who = fc.oneof(
  session.map((s): Who => ({ customer: undefined, session: s })),
  customer.map((c): Who => ({ customer: c, session: undefined })),
);
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('visit' as const), server, who, handle }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('link' as const), server, customer, session, handle }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('crash' as const),
      server,
      next: server,
      customer,
      session,
      handle,
      after: fc.integer({ min: 1, max: 8 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reset' as const), server, who, handle }) },
);

async function check(
  servers: readonly Server[],
  steps: readonly (typeof step extends fc.Arbitrary<infer S> ? S : never)[],
) {
  const model = new Model();
  const ids = new Map<Profile, string>();
  /** The id that was answered for a profile is the one that it had before, and no other profile's. */
  const answered = (profile: Profile, id: string) => {
    if ((ids.get(profile) ?? id) !== id)
      throw new Error(`a profile's id is ${id}, and was ${ids.get(profile)}`);
    if (!ids.has(profile) && [...ids.values()].includes(id))
      throw new Error(`two profiles have the id ${id}`);
    ids.set(profile, id);
  };
  const add = (profile: Profile, h: string, { profileId }: { readonly profileId: string }) => {
    profile.counts.set(h, (profile.counts.get(h) ?? 0) + 1);
    answered(profile, profileId);
  };
  const at = (i: number) => servers[i] as Server;
  for (const s of steps) {
    switch (s.do) {
      case 'visit':
        add(
          model.make(s.who),
          s.handle,
          await at(s.server).visitors.enter('visit', identity(s.who), true, s.handle),
        );
        break;
      case 'reset':
        await at(s.server).visitors.enter('reset', identity(s.who), true, s.handle);
        model.profile(s.who)?.counts.delete(s.handle);
        break;
      case 'crash': {
        // The request fails somewhere in the middle; its client sends it again, to another server. The visit
        // is counted by the last script, so a crash in the linking has not counted it.
        const crashing = at(s.server);
        crashing.crashAfter = s.after;
        const both = { customer: `c:customer-${s.customer}`, session: `s:session-${s.session}` };
        await crashing.linker.link(both.customer, both.session).catch((error) => {
          if (!(error instanceof ServiceError)) throw error;
        });
        crashing.crashAfter = Number.POSITIVE_INFINITY;
        const settled = await at(s.next).visitors.enter('visit', identity(s), true, s.handle);
        add(model.link(s.customer, s.session), s.handle, settled);
        break;
      }
      case 'link':
        add(
          model.link(s.customer, s.session),
          s.handle,
          await at(s.server).visitors.enter('visit', identity(s), true, s.handle),
        );
    }
  }
  for (const reader of servers) {
    for (const [kind, known] of [
      ['customer', model.customers],
      ['session', model.sessions],
    ] as const) {
      for (const [id, profile] of known) {
        for (const h of ['a', 'b']) {
          const one: Who = { customer: undefined, session: undefined, [kind]: id };
          const { count, profileId } = await reader.visitors.read(identity(one), true, h);
          answered(profile, profileId);
          const expected = profile.counts.get(h) ?? 0;
          if (count !== expected) throw new Error(`${kind} ${id}, ${h}: ${count} instead of ${expected}`);
        }
      }
    }
  }
}

for (const [name, start] of [
  ['one Redis', startTestRedis],
  ['a cluster', startTestCluster],
] as const) {
  t.test(
    `${name}: visits, resets, links, merges and crashes from several servers end in the model's counts`,
    async (t) => {
      const redis = await start(t);
      let world = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
          const prefix = `m${world++}`;
          const servers = await Promise.all(
            Array.from({ length: SERVERS }, () => startServer(redis, prefix)),
          );
          try {
            await check(servers, steps);
          } finally {
            for (const server of servers) await server.close();
          }
        }),
        { numRuns: RUNS },
      );
    },
  );
}
