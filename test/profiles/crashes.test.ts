// A process ends after any step of a login, a merge, an erasure or a visit under a key, or another server does something
// between two of its steps: each is completed once, nothing is lost or doubled, and nobody is locked out.

import t, { type Test } from 'tap';
import { eachRedis } from '../harness/app.js';
import { identityOf } from '../harness/samples.js';
import {
  add,
  atEachStep,
  betweenSteps,
  login,
  products,
  resume,
  type Server,
  startServer,
  startTwo,
} from '../wishlist/fixtures.js';

let names = 0;
let worlds = 0;

/** A session and three customers. Ids may have spaces, and line separators that `.` of a pattern does not match. */
function newNames() {
  const n = names++;
  const ids = { s: `s${n} \u2028\u2029 x`, c: `c${n}\u2028 x`, d: `d${n}`, e: `e${n}` };
  const { s, c, d, e } = ids;
  return {
    ...ids,
    session: identityOf({ sessionId: s }),
    customer: identityOf({ customerId: c }),
    another: identityOf({ customerId: d }),
    toThis: { customerId: c, sessionId: s },
    toAnother: { customerId: d, sessionId: s },
    toThird: { customerId: e, sessionId: s },
  };
}

type Names = ReturnType<typeof newNames>;
type Who = Names['session'];

/** Each visits a product of its own once, and saves it. */
const OWN = ['s', 'c', 'd'] as const;
type Own = (typeof OWN)[number];

async function shop(server: Server, names: Names, own: Own): Promise<void> {
  const who = { s: names.session, c: names.customer, d: names.another }[own];
  await server.visitors.enter('visit', who, true, own);
  await add(server, who, own);
}

/** What a visitor has, by whose it was. Counts and items agree. */
async function see(server: Server, who: Who): Promise<string> {
  const { counts } = await server.visitors.readAll(who, OWN);
  const items = await products(server, who);
  const counted = OWN.flatMap((own, i) => Array<string>(counts[i] as number).fill(own)).sort();
  if (`${items.sort()}` !== `${counted}`) throw new Error(`counts of ${counted}, but items of ${items}`);
  return counted.join('');
}

/** Both servers see this customer's and the session's data as one, and can go on. */
async function areOne(
  t: Test,
  servers: readonly Server[],
  { session, customer }: Names,
  has: string,
  when: string,
) {
  for (const server of servers)
    for (const who of [customer, session]) t.equal(await see(server, who), has, when);
  for (const [i, server] of servers.entries()) {
    const { profileId } = await server.visitors.enter('visit', i === 0 ? session : customer, true, 'more');
    t.equal(profileId, server.locator.profileOf(`c:${customer.customerId}`), when);
  }
  const { counts } = await (servers[0] as Server).visitors.readAll(customer, ['more']);
  t.same(counts, [servers.length], when);
}

const sessionLink = async (server: Server, { s }: Names) => {
  const state = await server.locator.stateOf(`s:${s}`);
  return typeof state === 'object' ? state : undefined;
};

/** Ends a login as soon as the session's data are frozen. */
async function beginMerge(ending: Server, names: Names, ids: Names['toThis']): Promise<void> {
  await shop(ending, names, 's');
  for (let step = 1; (await sessionLink(ending, names)) === undefined; step++) {
    ending.crashAfter(step, true);
    await login(ending, ids).catch(() => {});
    ending.recover();
  }
  if ((await sessionLink(ending, names))?.state !== 'merging') throw new Error('the merge has ended');
}

interface State {
  readonly name: string;
  prepare?(server: Server, names: Names, ending: Server): Promise<unknown>;
  /** What becomes the customer's. */
  readonly gains?: 's';
  /** What another customer has of the session. */
  readonly others?: 's';
}

/** The contract's table of identities. */
const STATES: readonly State[] = [
  { name: 'unknown' },
  { name: 'guest', prepare: (server, names) => shop(server, names, 's'), gains: 's' },
  { name: 'linked to this customer', prepare: (server, { toThis }) => login(server, toThis) },
  {
    name: 'merged into this customer',
    prepare: async (server, names) => {
      await shop(server, names, 's');
      await login(server, names.toThis);
    },
    gains: 's',
  },
  { name: 'linked to another', prepare: (server, { toAnother }) => login(server, toAnother) },
  {
    name: 'merged into another',
    prepare: async (server, names) => {
      await shop(server, names, 's');
      await login(server, names.toAnother);
    },
    others: 's',
  },
  {
    name: 'retired',
    prepare: async (server, names) => {
      await shop(server, names, 's');
      for (const ids of [names.toAnother, names.toThird]) await login(server, ids);
      await server.eraser.erase(`c:${names.e}`);
    },
    others: 's',
  },
  {
    name: 'being merged into this customer',
    prepare: (_, names, ending) => beginMerge(ending, names, names.toThis),
    gains: 's',
  },
  {
    name: 'being merged into another',
    prepare: (_, names, ending) => beginMerge(ending, names, names.toAnother),
    others: 's',
  },
];

eachRedis(t, async (t, redis) => {
  const openTwo = () => startTwo(t, redis, `c${worlds++}`);
  const openThree = async () =>
    [...(await openTwo()), await startServer(t, redis, `c${worlds - 1}`)] as const;

  for (const { name, prepare, gains = '', others = '' } of STATES)
    t.test(
      `a login with a session that is ${name} ends after any step, and is repeated: it is done once`,
      async (t) => {
        const [server, other] = await openTwo();
        for (const isKnown of [false, true])
          for (const isResumed of [false, true])
            await atEachStep(async (step) => {
              const names = newNames();
              const had = isKnown ? 'c' : '';
              await shop(other, names, 'd');
              if (isKnown) await shop(other, names, 'c');
              await prepare?.(other, names, server);
              const when = `${isKnown ? 'known' : 'unknown'}, ended after step ${step}${isResumed ? ', resumed' : ''}`;
              return {
                server,
                act: () => login(server, names.toThis),
                check: async () => {
                  if (isResumed) {
                    await resume(other);
                    const link = await sessionLink(other, names);
                    const isDone = link?.customer === other.locator.profileOf(`c:${names.c}`);
                    const has = isDone || name.startsWith('being merged into this') ? had + gains : had;
                    t.equal(await see(other, names.customer), [...has].sort().join(''), when);
                  }
                  await login(other, names.toThis);
                  await areOne(t, [server, other], names, [...(had + gains)].sort().join(''), when);
                  t.equal(await see(other, names.another), `d${others}`, when);
                },
              };
            });
      },
    );

  /** What another server does between two steps of a login. */
  const BETWEEN: Readonly<Record<string, (other: Server, names: Names, ending: Server) => Promise<unknown>>> =
    {
      'the same login': (other, { toThis }) => login(other, toThis),
      "another customer's login": (other, { toAnother }) => login(other, toAnother),
      "another customer's login, and this one's again": async (other, { toAnother, toThis }) => {
        for (const ids of [toAnother, toThis]) await login(other, ids);
      },
      "the customer's erasure": (other, { c }) => other.eraser.erase(`c:${c}`),
      "the customer's erasure, and the same login": async (other, { c, toThis }) => {
        await other.eraser.erase(`c:${c}`);
        await login(other, toThis);
      },
      "the customer's erasure, and the beginning of the same login": async (other, { c, toThis }, ending) => {
        await other.eraser.erase(`c:${c}`);
        ending.crashAfter(1, true);
        await login(ending, toThis).catch(() => {});
        ending.recover();
      },
      "the customer's erasure, and another customer's login": async (other, { c, toAnother }) => {
        await other.eraser.erase(`c:${c}`);
        await login(other, toAnother);
      },
      "the session's erasure, and the same login": async (other, { s, toThis }) => {
        await other.eraser.erase(`s:${s}`);
        await login(other, toThis);
      },
    };
  for (const [between, act] of Object.entries(BETWEEN))
    t.test(
      `between any two steps of a login comes ${between}: nobody is locked out, nothing is doubled`,
      async (t) => {
        const [server, other, ending] = await openThree();
        for (const { name, prepare, others } of STATES)
          await betweenSteps(async (step) => {
            const names = newNames();
            for (const own of ['c', 'd'] as const) await shop(other, names, own);
            await prepare?.(other, names, ending);
            const when = `${name}, before step ${step}`;
            return {
              server,
              act: () => login(server, names.toThis),
              between: () => act(other, names, ending),
              check: async () => {
                const had = new Set<string>();
                const isRetired = (await other.locator.stateOf(`s:${names.s}`)) === 'retired';
                if (isRetired) t.equal(others, 's', when);
                for (const who of [names.session, names.customer, names.another].slice(isRetired ? 1 : 0)) {
                  const seen = await Promise.all([see(server, who), see(other, who)]);
                  t.equal(seen[0], seen[1], when);
                  t.equal(new Set(seen[0]).size, seen[0].length, `${when}: ${seen[0]}`);
                  had.add(seen[0]);
                  await server.visitors.enter('visit', who, true, 'more');
                }
                const erased = /erasure/.test(between);
                if (!erased) t.equal([...new Set([...had].join(''))].length >= 2, true, when);
                await login(other, names.toThis);
                const { profileId } = await server.visitors.enter('visit', names.session, true, 'more');
                t.equal(profileId, server.locator.profileOf(`c:${names.c}`), when);
              },
            };
          });
      },
    );
});
