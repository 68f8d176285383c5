// The identity rules and merges against a simple model: random sequences of visits, resets, links and crashes
// in the middle of links, by several servers with caches of their own, end in the model's counts and keep its ids.

import fc from 'fast-check';
import t from 'tap';
import { ServiceError } from '../../src/errors.js';
import type { Identity } from '../../src/identity-rules.js';
import { eachRedis } from '../harness/app.js';
import { identityOf } from '../harness/samples.js';
import { type Server, startServer } from '../wishlist/fixtures.js';

const SERVERS = 3;
const RUNS = Number(process.env['MODEL_RUNS'] ?? 60);

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

/** Ids of one run: no server has seen them before. */
function idsOf(run: number) {
  const ids = {
    customer: (customer: number) => `customer-${run}-${customer}`,
    session: (session: number) => `session-${run}-${session}`,
    of: ({ customer, session }: Who): Identity =>
      identityOf({
        customerId: customer === undefined ? null : ids.customer(customer),
        sessionId: session === undefined ? null : ids.session(session),
      }),
  };
  return ids;
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
      after: fc.integer({ min: 1, max: 12 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reset' as const), server, who, handle }) },
);

async function check(
  servers: readonly Server[],
  name: ReturnType<typeof idsOf>,
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
          await at(s.server).visitors.enter('visit', name.of(s.who), true, s.handle),
        );
        break;
      case 'reset':
        await at(s.server).visitors.enter('reset', name.of(s.who), true, s.handle);
        model.profile(s.who)?.counts.delete(s.handle);
        break;
      case 'crash': {
        // The request fails somewhere in the middle; its client sends it again, to another server. The visit
        // is counted by the last script, so a crash in the linking has not counted it.
        const crashing = at(s.server);
        crashing.crashAfter(s.after, true);
        const both = { customerId: name.customer(s.customer), sessionId: name.session(s.session) };
        await crashing.visitors.link(both).catch((error) => {
          if (!(error instanceof ServiceError)) throw error;
        });
        crashing.recover();
        const settled = await at(s.next).visitors.enter('visit', name.of(s), true, s.handle);
        add(model.link(s.customer, s.session), s.handle, settled);
        break;
      }
      case 'link':
        add(
          model.link(s.customer, s.session),
          s.handle,
          await at(s.server).visitors.enter('visit', name.of(s), true, s.handle),
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
          const { count, profileId } = await reader.visitors.read(name.of(one), true, h);
          answered(profile, profileId);
          const expected = profile.counts.get(h) ?? 0;
          if (count !== expected) throw new Error(`${kind} ${id}, ${h}: ${count} instead of ${expected}`);
        }
      }
    }
  }
}

eachRedis(t, async (t, redis) => {
  t.test(
    "visits, resets, links, merges and crashes from several servers end in the model's counts",
    async (t) => {
      const starting = Array.from({ length: SERVERS }, () => startServer(t, redis, 'model'));
      const servers = await Promise.all(starting);
      let runs = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), (steps) =>
          check(servers, idsOf(runs++), steps),
        ),
        { numRuns: RUNS },
      );
    },
  );
});
