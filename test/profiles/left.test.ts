// What a process leaves half done is completed, by a request or by none. What was erased takes nothing of another visitor along,
// and what was only begun is taken back.

import t from 'tap';
import { eachRedis } from '../harness/app.js';
import { openRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import { add, followShare, type Redis, type Server, share, startServer } from '../wishlist/fixtures.js';

const GUESTS_S = 1_000;
/** More than any of these takes. */
const MAX_STEPS = 60;

let names = 0;

type Who = ReturnType<typeof identityOf>;

const count = async (server: Server, who: Who) => (await server.visitors.read(who, true, 'x')).count;
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

/** Ends a process after each step of what it does. @param round prepares, and answers what it does and what is true then */
async function atEachStep(
  server: Server,
  round: () => Promise<readonly [act: () => Promise<unknown>, then: (step: number) => Promise<void>]>,
): Promise<void> {
  for (let step = 1; step <= MAX_STEPS; step++) {
    const [act, then] = await round();
    server.crashAfter(step, true);
    await act().catch(() => {});
    const hasEnded = server.recover();
    await then(step);
    if (!hasEnded) return;
  }
  throw new Error('it never ends');
}

/** Keys of this prefix that name a session, and do not end. */
async function staying(redis: Redis, prefix: string, profileId: string): Promise<string[]> {
  const hash = profileId.slice(profileId.indexOf('.') + 1);
  const keys: string[] = [];
  for (const url of redis.urls) {
    const client = openRedis(url);
    for (const key of await client.keys(`${prefix}:*${hash}*`))
      if ((await client.ttl(key)) < 0) keys.push(key);
    client.disconnect();
  }
  return keys;
}

eachRedis(t, async (t, redis) => {
  t.test(
    'a merge is begun, its customer is erased, and the guest never comes back: the guest ends',
    async (t) => {
      const prefix = 'begun';
      const [server, other] = [
        await startServer(t, redis, prefix, { guestsS: GUESTS_S }),
        await startServer(t, redis, prefix, { guestsS: GUESTS_S }),
      ];
      // As `wishmeter erase` and `deliver` open Redis: they are not told GUEST_RETENTION_DAYS.
      const command = await startServer(t, redis, prefix);
      for (const eraser of [other, command])
        await atEachStep(server, async () => {
          const { s, a, session, first } = newNames();
          await visit(other, session);
          await visit(other, first);
          const link = () => server.visitors.link({ customerId: a, sessionId: s });
          return [
            link,
            async (step) => {
              await eraser.eraser.erase(`c:${a}`);
              await resume(eraser);
              const own = other.links.defaultProfile(`s:${s}`);
              t.same(await staying(redis, prefix, own), [], `after step ${step}`);
              const seen = await count(other, session);
              t.ok(seen <= 1, `${seen} visits after step ${step}`);
            },
          ];
        });
    },
  );

  t.test('an adoption is begun, and its process dies: the customer is locked out of nothing', async (t) => {
    const prefix = 'adopted';
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await atEachStep(server, async () => {
      const { s, a, session, first } = newNames();
      await visit(other, session);
      return [
        () => server.visitors.link({ customerId: a, sessionId: s }),
        async (step) => {
          await visit(other, first);
          const seen = await count(other, first);
          t.ok(seen === 1 || seen === 2, `${seen} visits after step ${step}`);
          const both = { customerId: a, sessionId: s };
          const { profileId } = await other.visitors.link(both);
          t.equal(await count(other, first), 2, `after step ${step}`);
          t.equal((await visit(other, session)).profileId, profileId);
          t.equal(await other.eraser.erase(`c:${a}`), true);
          t.same([await count(other, first), await count(other, session)], [0, 0], 'erased, both');
        },
      ];
    });
  });

  t.test('a merge that was begun for one customer takes nothing of the next one', async (t) => {
    const prefix = 'next';
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await atEachStep(server, async () => {
      const { s, a, b, session, first, second } = newNames();
      // The session has a profile of its own: its default one is another customer's.
      await visit(other, session);
      await other.visitors.link({ customerId: `${a}-before`, sessionId: s });
      await other.visitors.link({ customerId: `${a}-gone`, sessionId: s });
      await other.eraser.erase(`c:${a}-gone`);
      await visit(other, session);
      await visit(other, first);
      const link = () => server.visitors.link({ customerId: a, sessionId: s });
      return [
        link,
        async (step) => {
          await other.visitors.link({ customerId: b, sessionId: s });
          await visit(other, second);
          const before = await count(other, second);
          await other.eraser.erase(`c:${a}`);
          await resume(other);
          t.equal(await count(other, second), before, `after step ${step}`);
        },
      ];
    });
  });

  t.test('a profile that was about to be merged is erased with the customer', async (t) => {
    const prefix = 'about';
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    let joined = 0;
    await atEachStep(server, async () => {
      const { s, a, session, first } = newNames();
      // The session has a profile of its own: its default one is another customer's.
      await visit(other, session);
      await other.visitors.link({ customerId: `${a}-before`, sessionId: s });
      await other.visitors.link({ customerId: `${a}-gone`, sessionId: s });
      await other.eraser.erase(`c:${a}-gone`);
      const { profileId } = await visit(other, session);
      const { profileId: into } = await visit(other, first);
      const link = () => server.visitors.link({ customerId: a, sessionId: s });
      return [
        link,
        async (step) => {
          const members = other.store.keys.members(into);
          const wasJoined = await other.store.call((client) => client.hexists(members, profileId));
          joined += wasJoined;
          await other.eraser.erase(`c:${a}`);
          t.equal(await count(other, session), wasJoined ? 0 : 1, `after step ${step}`);
        },
      ];
    });
    t.ok(joined > 1, `${joined} times it was about to be merged`);
  });

  t.test('an erasure that is completed late takes nothing of one who came back', async (t) => {
    const prefix = 'late';
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await atEachStep(server, async () => {
      const { s, a, session } = newNames();
      const email = `${s}@late.example`;
      await visit(other, session);
      await other.visitors.link({ customerId: a, sessionId: s });
      await other.profiles.keep({ ...session, email }, true, true);
      return [
        () => server.eraser.erase(`c:${a}`),
        async (step) => {
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
      ];
    });
  });

  t.test('an erasure that is completed late takes rows up to its moment, and no later ones', async (t) => {
    const prefix = 'moment';
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
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

  t.test('a share code leads on while its profile is merged, and not to one who came back', async (t) => {
    const prefix = 'code';
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    const { s, a, session, first } = newNames();
    await add(other, session, '1');
    await visit(other, first);
    const code = await share(other, session);
    const { redirects } = server;
    const placeOf = redirects.placeOf.bind(redirects);
    let isMerged = false;
    redirects.placeOf = async (profileId) => {
      const place = await placeOf(profileId);
      if (!isMerged) await other.visitors.link({ customerId: a, sessionId: s });
      isMerged = true;
      return place;
    };
    t.same(await followShare(server, code), ['1']);
    t.same(await followShare(other, code), ['1'], 'the code is still there');

    // Erased, and back with wishes, after the request for a code has seen the old one.
    const guest = newNames();
    await add(other, guest.session, '2');
    const old = await share(other, guest.session);
    let asked = 0;
    server.onChange = async () => {
      if (++asked !== 2) return;
      await other.eraser.erase(`s:${guest.s}`);
      await add(other, guest.session, '3');
    };
    const fresh = await share(server, guest.session);
    t.not(fresh, old);
    t.same(await followShare(other, old), []);
    t.same(await followShare(other, fresh), ['3']);
  });
});
