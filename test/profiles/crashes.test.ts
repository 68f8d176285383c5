// A process ends after any step of a login, a merge, an erasure or a visit with an Idempotency-Key, or another server acts
// between two of its steps: each is completed once, no data are lost or doubled, and the visitor can go on.

import t, { type Test } from 'tap';
import { lastErasure } from '../../src/profiles/erased-at.js';
import type { Link } from '../../src/profiles/link.js';
import { eachRedis } from '../harness/app.js';
import { allKeys, tracesOf } from '../harness/dump.js';
import {
  atEachStep,
  betweenSteps,
  clear,
  endAfter,
  followShare,
  login,
  passTime,
  resume,
  type Server,
  share,
  startServer,
  startTwo,
} from '../wishlist/fixtures.js';
import { ERASURES, type Names, newNames, STATES, see, sessionLink, shop, shopMuch } from './people.js';

const COMPLETED_BY = [
  'the same erasure',
  'other processes',
  "the session's next request, and other processes",
];

let worlds = 0;

/** Both servers see the same data under the customer and the session, and can write to them. */
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
    const { profileId } = await server.counter.enter('visit', i === 0 ? session : customer, true, 'more');
    t.equal(profileId, server.locator.profileOf(`c:${customer.customerId}`), when);
  }
  const { counts } = await (servers[0] as Server).counter.readAll(customer, ['more']);
  t.same(counts, [servers.length], when);
}

eachRedis(t, async (t, redis) => {
  /** A cluster takes longer, and has the same scripts in the same order. */
  const isOneServer = redis.urls.length === 1;
  const openTwo = () => startTwo(t, redis, `c${worlds++}`);
  const openThree = async () =>
    [...(await openTwo()), await startServer(t, redis, `c${worlds - 1}`)] as const;

  for (const { name, prepare, gains = '', others = '' } of STATES)
    t.test(
      `a login of a session that is ${name} is done once, even if its server ends after any step`,
      async (t) => {
        const [server, other] = await openTwo();
        for (const isKnown of isOneServer ? [false, true] : [true])
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

  /** Acts of another server between two steps of a login. */
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
  for (const [between, act] of Object.entries(BETWEEN).slice(isOneServer ? 0 : -3))
    t.test(`a login interrupted by ${between} loses and doubles nothing, and can be repeated`, async (t) => {
      const [server, other, ending] = await openThree();
      for (const { name, prepare, gains, others } of STATES)
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
                await server.counter.enter('visit', who, true, 'more');
              }
              const all = [...new Set([...had].join(''))].sort().join('');
              if (!/erasure/.test(between)) t.equal(all, gains || others ? 'cds' : 'cd', when);
              await login(other, names.toThis);
              const { profileId } = await server.counter.enter('visit', names.session, true, 'more');
              t.equal(profileId, server.locator.profileOf(`c:${names.c}`), when);
            },
          };
        });
    });

  const isErased = async ({ store, locator }: Server, name: string) =>
    (await store.client.exists(store.keys.erasedAt(locator.profileOf(name)))) === 1;
  const isQueued = async ({ store }: Server, name: string) =>
    (await store.client.hexists(store.keys.erasures, name)) === 1;

  for (const { name, prepare, erases, rows, others, session } of ERASURES)
    for (const by of COMPLETED_BY.slice(isOneServer ? 0 : -1))
      t.test(
        `an erasure of ${name} that ends after any step is completed by ${by}, and leaves no key`,
        async (t) => {
          const prefix = `c${worlds++}`;
          const [server, other] = await startTwo(t, redis, prefix);
          await atEachStep(async (step) => {
            await clear(redis, prefix);
            const names = newNames();
            const name = `${erases}:${names[erases]}`;
            await shop(other, names, 'd');
            const traces = await prepare(other, names, server);
            const [ofSession, ofErased] = [`s:${names.s}`, name].map((one) => other.locator.profileOf(one));
            const when = `after step ${step}`;
            return {
              server,
              act: () => server.eraser.erase(name),
              check: async () => {
                const wasErased = await isErased(other, name);
                if (by === 'the same erasure') await other.eraser.erase(name);
                else {
                  const isRequested = by.includes('request') && session !== 'retired';
                  if (isRequested) await other.counter.enter('visit', names.session, true, 'new');
                  await resume(other);
                  const sees = await see(other, erases === 's' ? names.session : names.customer);
                  if (!wasErased) return void t.not(sees, '', when);
                  if (isRequested && session === 'unknown') {
                    const { counts } = await other.counter.readAll(names.session, ['new']);
                    t.same(counts, [1], `${when}: the new visitor`);
                    await other.eraser.erase(`s:${names.s}`);
                  }
                }
                const needles = [ofErased as string, name, ...traces];
                if (session === 'unknown') needles.push(ofSession as string, `s:${names.s}`);
                const left = await tracesOf(redis, prefix, ...needles);
                t.same(
                  left.filter((one) => !/^\S+:(e:|pending)/.test(one)),
                  [],
                  when,
                );
                await resume(other);
                // The other customer's merge is pending for ten minutes.
                const unfinished = session === 'retired' ? /:x:/ : /:(pending|x|j)(:|$)/;
                t.same(
                  (await allKeys(redis, prefix)).filter((key) => unfinished.test(key)),
                  [],
                  when,
                );
                for (const own of rows) {
                  const whose = own === 's' ? ofSession : other.locator.profileOf(`c:${names.c}`);
                  t.ok(await isQueued(other, whose as string), `${when}: rows of ${own}`);
                }
                if (erases === 'c') t.ok(await isQueued(other, name), `${when}: the customer's orders`);
                t.equal(await see(other, names.another), others, when);
                const state = await other.locator.stateOf(`s:${names.s}`);
                t.equal(typeof state === 'object' ? 'linked' : state, session, when);
                if (session !== 'retired') return;
                await other.eraser.erase(`c:${names.d}`);
                t.equal(await other.locator.stateOf(`s:${names.s}`), 'unknown', `${when}: free again`);
              },
            };
          });
        },
      );

  t.test(
    'late steps of an erasure spare a visitor who has returned, and the next erasure is complete',
    async (t) => {
      const prefix = `c${worlds++}`;
      const [server, other] = await startTwo(t, redis, prefix);
      const ending = await startServer(t, redis, prefix);
      for (const isErasedAgain of [false, true])
        await betweenSteps(async (step) => {
          await clear(redis, prefix);
          const names = newNames();
          const [ofCustomer, ofSession] = [`c:${names.c}`, `s:${names.s}`].map((one) =>
            other.locator.profileOf(one),
          );
          const erase = () => ending.eraser.erase(`c:${names.c}`);
          const visitAndLogin = async () => {
            const traces = await shopMuch(other, names, 's');
            await login(other, names.toThis);
            return traces;
          };
          await visitAndLogin();
          await endAfter(ending, 'eraseProfile', erase);
          let traces: readonly string[] = [];
          let erasedAt = 0;
          return {
            server,
            act: () => server.eraser.completeSetAside(ofCustomer as string),
            between: async () => {
              await other.eraser.completeSetAside(ofCustomer as string);
              traces = await visitAndLogin();
              if (!isErasedAgain) return;
              await endAfter(ending, 'eraseProfile', erase);
              erasedAt = Number(
                await other.store.client.hget(other.store.keys.setAside(ofCustomer as string), 'at'),
              );
              t.ok(erasedAt > 0);
            },
            check: async (hasPaused) => {
              await resume(other);
              const when = `before step ${step}`;
              const left = await tracesOf(redis, prefix, ofSession as string, names.s, ...traces);
              if (!hasPaused || isErasedAgain)
                t.same(
                  left.filter((one) => !/^\S+:e:/.test(one)),
                  [],
                  when,
                );
              else {
                t.equal(await see(other, names.session), 's', when);
                t.equal(await see(server, names.customer), 's', when);
                const [, digest = '', code = ''] = traces;
                t.same(await other.emails.findOwners(digest), [ofCustomer], when);
                t.same(await followShare(other, code), ['s'], when);
              }
              for (const profileId of [ofCustomer, ofSession]) {
                const queued = await other.store.client.hget(other.store.keys.erasures, profileId as string);
                t.ok(Number(queued?.split(' ')[1]) >= erasedAt, `${when}: ${queued}, erased at ${erasedAt}`);
              }
            },
          };
        });
    },
  );

  t.test('an erasure completed late erases rows up to its own time, and no later ones', async (t) => {
    const [server, other] = await openTwo();
    const names = newNames();
    for (const own of ['s', 'c'] as const) await shop(other, names, own);
    await login(other, names.toThis);
    await endAfter(server, 'eraseProfile', () => server.eraser.erase(`c:${names.c}`));
    const { keys, client } = other.store;
    const setAside = keys.setAside(other.locator.profileOf(`c:${names.c}`));
    t.match(await client.hget(setAside, 'at'), /^\d{13}$/);
    await client.hset(setAside, 'at', 5_000);
    await resume(other);
    const queued = Object.values(await client.hgetall(keys.erasures));
    t.equal(queued.length, 3, 'the customer, its profile, the profile of its session');
    // A second of grace; the clocks of the two may differ by milliseconds.
    for (const until of queued) t.match(until, /^[56]\d{3} [56]\d{3}$/);
  });

  t.test('an erased visitor has a time of erasure, whichever step the server ended at', async (t) => {
    const [server, other] = await openTwo();
    for (const isLinked of [false, true])
      await atEachStep(async (step) => {
        const names = newNames();
        await shop(other, names, 's');
        if (isLinked) await login(other, names.toThis);
        return {
          server,
          act: () => server.eraser.erase(`s:${names.s}`),
          check: async () => {
            for (const who of isLinked ? [names.customer, names.session] : [names.session]) {
              const { exists, own } = await other.visitors.find(who);
              t.ok(exists || (await lastErasure(other.store, own)) > 0, `${own} after step ${step}`);
            }
          },
        };
      });
  });

  t.test('a share code leads to its list while another server merges its profile', async (t) => {
    const [server, other] = await openTwo();
    await betweenSteps(async (step) => {
      const names = newNames();
      for (const own of ['s', 'c'] as const) await shop(other, names, own);
      const code = await share(other, names.session);
      let found: readonly string[] = [];
      return {
        server,
        act: async () => {
          found = await followShare(server, code);
        },
        between: () => login(other, names.toThis),
        check: async (hasPaused) => {
          t.ok(
            `${found}` === 's' || (hasPaused && `${[...found].sort()}` === 'c,s'),
            `${found} before step ${step}`,
          );
          if (hasPaused) t.same((await followShare(other, code)).sort(), ['c', 's']);
        },
      };
    });
  });

  t.test(
    'ten minutes after a merge, the session has only its link, and the customer has its facts and share code',
    async (t) => {
      const prefix = `c${worlds++}`;
      const [server, other] = await startTwo(t, redis, prefix);
      const names = newNames();
      const [email = '', digest = '', code = ''] = await shopMuch(server, names, 's');
      await login(server, names.toThis);
      const frozen = async () =>
        (await allKeys(redis, prefix)).filter((key) => /:[jig]:s/.test(key)).map((key) => key.at(-18));
      const { keys, client } = other.store;
      const [ofSession, ofCustomer] = [`s:${names.s}`, `c:${names.c}`].map((one) =>
        other.locator.profileOf(one),
      ) as [string, string];
      const untilEnd = [0, 9, 11];
      for (const minutes of untilEnd) {
        passTime(other, minutes * 60_000);
        await resume(other);
        const stays = minutes < 10 && !untilEnd.slice(0, untilEnd.indexOf(minutes)).includes(11);
        t.equal((await frozen()).length, stays ? 3 : 0, `after ${minutes} minutes`);
      }
      const { id } = (await sessionLink(other, names)) as Link;
      t.same(await client.hgetall(keys.profile(ofSession)), { target: `${ofCustomer} ${id}` });
      t.same(await client.hgetall(keys.counts(ofSession)), { '': `${ofCustomer} ${id} merged` });
      t.equal(await client.ttl(keys.counts(ofSession)), -1);
      t.same(
        (await allKeys(redis, prefix)).filter((key) => key.endsWith(':pending')),
        [],
      );
      t.match(await client.hgetall(keys.profile(ofCustomer)), { email });
      t.same(await other.emails.findOwners(digest), [ofCustomer]);
      t.same(await followShare(other, code), ['s']);
      t.equal(await see(other, names.session), 's');
    },
  );

  t.test(
    'a visit under a key counts once, even if two tries end early, each at another customer',
    async (t) => {
      const [server, other] = await openTwo();
      const visitOnce = (by: Server, { s, session }: Names) =>
        by.deliveries.run(
          { scope: 'test', key: s, fingerprint: '' },
          by.visitors.likelyProfile(session),
          async (operation) =>
            JSON.stringify(
              await by.counter.enterOnce(session, true, { kind: 'visit', handle: 's' }, operation),
            ),
        );
      for (const later of [2, 4, 6])
        await atEachStep(async (step) => {
          const names = newNames();
          await login(other, names.toThis);
          return {
            server,
            act: () => visitOnce(server, names),
            check: async () => {
              await login(other, names.toAnother);
              server.crashAfter(later, true);
              await visitOnce(server, names).catch(() => {});
              server.recover();
              await login(other, names.toThis);
              const answer = await visitOnce(other, names);
              t.match(JSON.parse(answer), { count: 1 });
              t.equal(await visitOnce(other, names), answer);
              const counts = [names.customer, names.another].map(
                async (who) => (await other.counter.readAll(who, ['s'])).counts[0],
              );
              t.same(
                (await Promise.all(counts)).sort(),
                [0, 1],
                `ended after step ${step}, and after ${later}`,
              );
            },
          };
        });
    },
  );

  t.test(
    'a merge loses nothing if its customer has a note of an earlier link that has expired',
    async (t) => {
      const [server, other] = await openTwo();
      await atEachStep(async (step) => {
        const names = newNames();
        await login(other, names.toThis);
        // As if the link had expired, or its process had ended before it wrote the link.
        const { keys, client } = other.store;
        const [customer, session] = [`c:${names.c}`, `s:${names.s}`].map((name) =>
          other.locator.profileOf(name),
        );
        const members = keys.members(customer as string);
        const note = (await client.hget(members, session as string)) as string;
        const old = note.replace(/^\d+/, (at) => `${Number(at) - 40 * 24 * 60 * 60 * 1_000}`);
        await client.hset(members, session as string, old);
        await client.del(keys.counts(session as string));
        await shop(other, names, 's');
        return {
          server,
          act: () => login(server, names.toThis),
          check: async () => {
            await resume(other);
            await login(other, names.toThis);
            await areOne(t, [server, other], names, 's', `ended after step ${step}`);
          },
        };
      });
    },
  );
});
