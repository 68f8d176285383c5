// A process ends after any step of a login, a merge, an erasure or a visit under a key: it is completed once, or taken back.

import t from 'tap';
import { namesIn } from '../../src/identity-rules.js';
import { lastErasure } from '../../src/profiles/erasure-times.js';
import { allKeys } from '../harness/dump.js';
import { eachKey, startTestCluster } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import {
  add,
  atEachStep,
  countOf,
  followShare,
  products,
  type Redis,
  type Server,
  share,
  startServer,
  startTwo,
} from '../wishlist/fixtures.js';

const GUESTS_S = 1_000;
const DAY_MS = 86_400_000;
let names = 0;

type Who = ReturnType<typeof identityOf>;

const count = (server: Server, who: Who) => countOf(server, who, 'x');
const visit = (server: Server, who: Who) => server.visitors.enter('visit', who, true, 'x');

/** A session and two customers. Ids may have spaces, and line separators that `.` of a pattern does not match. */
function newNames() {
  const n = names++;
  const ids = { s: `s${n} \u2028\u2029 x`, a: `a${n}\u2028 x`, b: `b${n}` };
  return {
    ...ids,
    session: identityOf({ sessionId: ids.s }),
    first: identityOf({ customerId: ids.a }),
    second: identityOf({ customerId: ids.b }),
  };
}

/** Completes what is left, as each process does within a minute. */
async function resume(server: Server): Promise<void> {
  for (let look = 0; look < 2; look++) await server.resume.run();
}

/** Keys of this prefix that name a session, and do not end. */
async function staying(redis: Redis, prefix: string, profileId: string): Promise<string[]> {
  const hash = profileId.slice(profileId.indexOf('.') + 1);
  const found = await eachKey(redis, `${prefix}:*${hash}*`, async (client, key) =>
    (await client.ttl(key)) < 0 ? [key] : [],
  );
  return found.flat();
}

const passDay = (redis: Redis, prefix: string) =>
  eachKey(redis, `${prefix}:*`, async (client, key) => {
    const ttl = await client.pttl(key);
    if (ttl >= 0 && ttl <= DAY_MS) await client.del(key);
  });

/** A session that has a profile of its own, since its default one is another customer's; and a customer. @returns their profiles */
async function startOwnProfile(server: Server, { s, a, session, first }: ReturnType<typeof newNames>) {
  await visit(server, session);
  for (const customerId of [`${a}-before`, `${a}-gone`])
    await server.visitors.link({ customerId, sessionId: s });
  await server.eraser.erase(`c:${a}-gone`);
  const { profileId } = await visit(server, session);
  const { profileId: into } = await visit(server, first);
  return { profileId, into };
}

/** Not of sender channels and streams, nor of what is under way. */
const OF_VISITORS = /^(?!.*(\{erasure:|:(channel|meta|marker|events|erasures|e|pending)(:|$)))/;
const keysOf = async (redis: Redis, prefix: string, kinds: RegExp) =>
  (await allKeys(redis, prefix)).filter((key) => kinds.test(key));

// On a cluster, where what is done takes most steps.
t.test('crashes', async (t) => {
  const redis = await startTestCluster(t);
  const openTwo = (prefix: string) => startTwo(t, redis, prefix);

  for (const how of ['a request after a day', 'other processes, and no request'] as const)
    t.test(`a merge left half done is completed by ${how}: counts and items are there, once`, async (t) => {
      const isRequested = how === 'a request after a day';
      const prefix = isRequested ? 'requested' : 'looked';
      const [server, other] = await openTwo(prefix);
      const kept = await atEachStep(async (step) => {
        const { s, a, session, first } = newNames();
        // A product that is named as a fact is.
        for (let i = 0; i < 3; i++) await server.visitors.enter('visit', session, true, 'email');
        await server.visitors.enter('visit', first, true, 'email');
        await server.profiles.keep({ ...session, email: `${s}@merged.example` }, true, true);
        await add(other, session, '1');
        const both = { customerId: a, sessionId: s };
        return {
          server,
          act: () => server.visitors.link(both),
          check: async () => {
            if (isRequested) {
              await passDay(redis, prefix);
              await other.visitors.link(both);
            } else await resume(other);
            const isDone = isRequested || (await other.links.read(`s:${s}`)).link !== undefined;
            const read = (who: Who) => countOf(other, who, 'email');
            t.same([await read(first), await read(session)], isDone ? [4, 4] : [1, 3], `after step ${step}`);
            t.same(await products(other, first), isDone ? ['1'] : []);
            const { profileId } = await other.visitors.find(first, true);
            const email = await other.store.call((client) =>
              client.hget(other.store.keys.profile(profileId), 'email'),
            );
            t.equal(email, isDone ? `${s}@merged.example` : null, `its facts, after step ${step}`);
          },
        };
      });
      t.ok(kept > 8, `${kept} crashes`);
      await resume(other);
      t.same(await keysOf(redis, prefix, /:(x|j.|pending)(:|$)/), [], 'neither journals nor notes are left');
    });

  t.test('a visit under a key counts once, though two tries end, each at another customer', async (t) => {
    const [server, other] = await openTwo('keyed');
    const visitOnce = (by: Server, { s, session }: ReturnType<typeof newNames>) =>
      by.deliveries.run(
        { scope: 'test', key: s, fingerprint: '' },
        by.visitors.likelyProfile(session, true),
        async (operation) => {
          const { profileId, count } = await by.visitors.enterOnce(
            session,
            true,
            { kind: 'visit', handle: 'x' },
            operation,
          );
          return JSON.stringify({ profileId, count });
        },
      );
    for (const later of [2, 4, 6])
      await atEachStep(async (step) => {
        const names = newNames();
        await other.visitors.link({ customerId: names.a, sessionId: names.s });
        return {
          server,
          act: () => visitOnce(server, names),
          check: async () => {
            await other.visitors.link({ customerId: names.b, sessionId: names.s });
            server.crashAfter(later, true);
            await visitOnce(server, names).catch(() => {});
            server.recover();
            await other.visitors.link({ customerId: names.a, sessionId: names.s });
            const answer = await visitOnce(other, names);
            t.match(JSON.parse(answer), { count: 1 });
            t.equal(await visitOnce(other, names), answer);
            const counts = [await count(other, names.first), await count(other, names.second)];
            t.same(counts.sort(), [0, 1], `ended after step ${step}, and after ${later}`);
          },
        };
      });
  });

  t.test('what leads to a profile is among its members, whatever step a login ended at', async (t) => {
    const [server, other] = await openTwo('member');
    for (const known of [[], ['a'], ['s'], ['a', 's']])
      await atEachStep(async (step) => {
        const { s, a, session, first } = newNames();
        for (const one of known) await visit(server, one === 'a' ? first : session);
        return {
          server,
          act: () => server.linker.link(`c:${a}`, `s:${s}`),
          check: async () => {
            for (const name of [`c:${a}`, `s:${s}`]) {
              const { link } = await other.links.read(name);
              if (link === undefined || link.task !== '') continue;
              const members = other.store.keys.members(link.profileId);
              const isMember = await other.store.call((client) => client.hexists(members, name));
              const isOwner = (await other.links.ownerOf(link)) === name;
              t.ok(isMember === 1 || isOwner, `known: ${known}; ended after step ${step}; ${name}`);
            }
          },
        };
      });
  });

  t.test('a session about to be merged is erased with the customer, or goes to the next', async (t) => {
    const [server, other] = await openTwo('about');
    let joined = 0;
    for (const isNext of [false, true])
      await atEachStep(async (step) => {
        const names = newNames();
        const { s, a, b, session, second } = names;
        const { profileId, into } = await startOwnProfile(other, names);
        return {
          server,
          act: () => server.visitors.link({ customerId: a, sessionId: s }),
          check: async () => {
            if (isNext) {
              await other.visitors.link({ customerId: b, sessionId: s });
              await visit(other, second);
              const before = await count(other, second);
              await other.eraser.erase(`c:${a}`);
              await resume(other);
              return void t.equal(await count(other, second), before, `after step ${step}`);
            }
            const members = other.store.keys.members(into);
            const wasJoined = await other.store.call((client) => client.hexists(members, profileId));
            joined += wasJoined;
            await other.eraser.erase(`c:${a}`);
            t.equal(await count(other, session), wasJoined ? 0 : 1, `after step ${step}`);
          },
        };
      });
    t.ok(joined > 1, `${joined} times it was about to be merged`);
  });

  for (const by of ['the next one of the visitor', 'a request of one of its sessions'] as const)
    t.test(`an erasure left half done is completed by ${by}`, async (t) => {
      const isRequest = by === 'a request of one of its sessions';
      const prefix = isRequest ? 'met' : 'again';
      const [server, other] = await openTwo(prefix);
      let dead = 0;
      for (const isMerged of [false, true])
        await atEachStep(async (step) => {
          const { s, a, session, first } = newNames();
          for (const one of isMerged ? [session, first] : [first]) await visit(server, one);
          await server.linker.link(`c:${a}`, `s:${s}`);
          const name = isMerged || isRequest ? `c:${a}` : `s:${s}`;
          return {
            server,
            act: () => server.eraser.erase(name),
            check: async () => {
              const { link } = await other.links.read(`s:${s}`);
              const isDead = link !== undefined && (await other.links.ownerOf(link)) === undefined;
              if (isRequest && isDead) {
                dead++;
                await visit(other, session);
                t.equal(await count(other, session), 1, 'a new visitor');
              } else await other.eraser.erase(name);
              if (isRequest && !isDead) return await resume(other);
              const kinds = isRequest ? /:(zg|pending)(:|$)/ : OF_VISITORS;
              t.same(await keysOf(redis, prefix, kinds), [], `ended after step ${step}`);
            },
          };
        });
      if (isRequest) t.ok(dead >= 3, `${dead} dead links`);
      await resume(other);
      t.same(await keysOf(redis, prefix, /:pending$/), []);
    });

  t.test('the time of an erasure is known once its visitor is gone, whatever step it ended at', async (t) => {
    const [server, other] = await openTwo('timed');
    for (const isLinked of [false, true])
      await atEachStep(async (step) => {
        const { s, a, session, first } = newNames();
        await visit(server, session);
        if (isLinked) await server.linker.link(`c:${a}`, `s:${s}`);
        return {
          server,
          act: () => server.eraser.erase(`s:${s}`),
          check: async () => {
            for (const who of isLinked ? [first, session] : [session]) {
              const { exists } = await other.visitors.find(who, false);
              const at = await lastErasure(other.store, namesIn(who)[0] as string);
              t.ok(exists || at > 0, `${namesIn(who)} after step ${step}`);
            }
          },
        };
      });
  });

  t.test('the guest of a begun merge whose customer is erased ends, though no request comes', async (t) => {
    const prefix = 'begun';
    const [server, other] = await startTwo(t, redis, prefix, { guestsS: GUESTS_S });
    // As `wishmeter erase` and `deliver` open Redis: they are not told GUEST_RETENTION_DAYS.
    const command = await startServer(t, redis, prefix);
    for (const eraser of [other, command])
      await atEachStep(async (step) => {
        const { s, a, session, first } = newNames();
        await visit(other, session);
        await visit(other, first);
        const link = () => server.visitors.link({ customerId: a, sessionId: s });
        return {
          server,
          act: link,
          check: async () => {
            await eraser.eraser.erase(`c:${a}`);
            await resume(eraser);
            const own = other.links.defaultProfile(`s:${s}`);
            t.same(await staying(redis, prefix, own), [], `after step ${step}`);
            const seen = await count(other, session);
            t.ok(seen <= 1, `${seen} visits after step ${step}`);
            if (seen === 0) t.ok(await isQueued(other, own), `its rows, after step ${step}`);
          },
        };
      });
  });

  t.test('an erasure that is completed late takes nothing of one who came back', async (t) => {
    const prefix = 'late';
    const [server, other] = await openTwo(prefix);
    await atEachStep(async (step) => {
      const { s, a, session } = newNames();
      const email = `${s}@late.example`;
      await visit(other, session);
      await other.visitors.link({ customerId: a, sessionId: s });
      await other.profiles.keep({ ...session, email }, true, true);
      return {
        server,
        act: () => server.eraser.erase(`c:${a}`),
        check: async () => {
          const { profileId } = await visit(other, session);
          const before = await count(other, session);
          await other.profiles.keep({ ...session, email }, true, true);
          const digest = other.emails.digest(email);
          await other.resume.run();
          const cameBack = before === 1;
          await resume(other);
          if (!cameBack) return;
          t.equal(await count(other, session), 1, `after step ${step}`);
          t.match(await other.emails.findGiven(digest), [{ profileId }], `its address, after step ${step}`);
        },
      };
    });
  });

  t.test('an erasure that is completed late leaves a later generation of the profile alone', async (t) => {
    const [server, other] = await openTwo('generation');
    await atEachStep(async (step) => {
      const { s, a, session, first } = newNames();
      const login = async () => {
        await visit(other, session);
        await other.visitors.link({ customerId: a, sessionId: s });
      };
      await login();
      return {
        server,
        act: () => server.eraser.erase(`c:${a}`),
        check: async () => {
          await other.eraser.erase(`c:${a}`);
          await login();
          await resume(other);
          t.equal(await count(other, first), 1, `after step ${step}`);
        },
      };
    });
  });

  t.test('an erasure that is completed late takes the rows of a guest who was merged', async (t) => {
    const [server, other] = await openTwo('merged-rows');
    await atEachStep(async (step) => {
      const { s, a, session, first } = newNames();
      await visit(other, session);
      await visit(other, first);
      await other.visitors.link({ customerId: a, sessionId: s });
      return {
        server,
        act: () => server.eraser.erase(`c:${a}`),
        check: async () => {
          await other.eraser.erase(`c:${a}`);
          await resume(other);
          const own = other.links.defaultProfile(`s:${s}`);
          t.ok(await isQueued(other, own), `after step ${step}`);
        },
      };
    });
  });

  t.test('an erasure that is completed late takes rows up to its moment, and no later ones', async (t) => {
    const prefix = 'moment';
    const [server, other] = await openTwo(prefix);
    const { s, a, session, first } = newNames();
    await visit(other, session);
    await visit(other, first);
    const { link } = await other.visitors.link({ customerId: a, sessionId: s });
    const change = server.store.change.bind(server.store);
    server.store.change = async (script, ...call) => {
      if (script.name === 'queueErasures') throw new Error('ended');
      return change(script, ...call);
    };
    await t.rejects(server.eraser.erase(`c:${a}`), { message: 'ended' });
    const { keys, client } = other.store;
    const left = keys.leftovers(link.profileId, link.generation);
    t.match(await client.hget(left, ''), /^\d{13}$/);
    await client.hset(left, '', 5_000);
    await resume(other);
    const queued = Object.entries(await client.hgetall(keys.erasures));
    t.ok(queued.length >= 3, `${queued.length} names`);
    // The clocks of the two may differ by milliseconds.
    for (const [, until] of queued) t.match(until, /^[56]\d{3} [56]\d{3}$/);
  });

  t.test('a share code leads on while its profile is merged', async (t) => {
    const prefix = 'code';
    const [server, other] = await openTwo(prefix);
    const { s, a, session, first } = newNames();
    await add(other, session, '1');
    await visit(other, first);
    const code = await share(other, session);
    const { redirects } = server;
    const locate = redirects.locate.bind(redirects);
    let isMerged = false;
    redirects.locate = async (profileId) => {
      const location = await locate(profileId);
      if (!isMerged) await other.visitors.link({ customerId: a, sessionId: s });
      isMerged = true;
      return location;
    };
    t.same(await followShare(server, code), ['1']);
    t.same(await followShare(other, code), ['1'], 'the code is still there');
  });
});

async function isQueued({ store }: Server, profileId: string): Promise<boolean> {
  return (await store.client.hexists(store.keys.erasures, profileId)) === 1;
}
