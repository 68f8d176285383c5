// A visit under an operation counts once, wherever the operation is taken while one of its tries is under way.

import t, { type Test } from 'tap';
import { ServiceError } from '../../src/errors.js';
import { eachRedis } from '../harness/app.js';
import { identityOf } from '../harness/samples.js';
import { BOTH, GUEST, type Redis, type Server, startServer } from '../wishlist/fixtures.js';

let worlds = 0;
const OTHER = identityOf({ customerId: 'd', sessionId: 's' });

/** Counts under a key, as a request does. */
function visitOnce(server: Server, who = GUEST) {
  const place = server.visitors.likelyProfile(who, true);
  return server.deliveries.run({ scope: 'test', key: 'k', fingerprint: '' }, place, async (operation) => {
    const { profileId, count } = await server.visitors.enterOnce('visit', who, true, 'x', operation);
    return JSON.stringify({ profileId, count });
  });
}

/** The first try stops just before it counts; then `between` happens, a retry answers, and the first try goes on. */
async function isCountedOnce(
  t: Test,
  redis: Redis,
  who = GUEST,
  between: (server: Server) => Promise<unknown>,
) {
  const prefix = `o${worlds++}`;
  const [one, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
  await one.visitors.enter('visit', BOTH, true, 'y');
  const run = one.visits.run.bind(one.visits);
  let isHeld = false;
  let goOn = () => {};
  const retried = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  one.visits.run = async (operation) => {
    if (operation.recordId !== undefined && !isHeld) {
      isHeld = true;
      await retried;
    }
    return run(operation);
  };
  const first = visitOnce(one, who);
  while (!isHeld) await new Promise(setImmediate);
  await between(other);
  const retry = await visitOnce(other, who);
  goOn();
  t.equal(await first, retry, 'both answer alike');
  t.match(JSON.parse(retry), { count: 1, profileId: String });
  const counts = await Promise.all(
    [BOTH, OTHER].map(
      async ({ customerId }) =>
        (await other.visitors.read(identityOf({ customerId: customerId as string }), true, 'x')).count,
    ),
  );
  t.equal((counts[0] as number) + (counts[1] as number), 1, `counted once: ${counts}`);
}

eachRedis(t, async (t, redis) => {
  t.test('the session moves to another customer between the two', async (t) => {
    await isCountedOnce(t, redis, GUEST, (server) =>
      server.visitors.link({ customerId: 'd', sessionId: 's' }),
    );
  });

  t.test('nothing happens between the two', async (t) => {
    await isCountedOnce(t, redis, GUEST, async () => {});
  });

  t.test('it is asked for in both names, and another link takes the session away and back', async (t) => {
    await isCountedOnce(t, redis, BOTH, async (server) => {
      await server.visitors.link({ customerId: 'd', sessionId: 's' });
    });
  });

  t.test(
    'a try ends between fencing one place and recording the next, and the session comes back',
    async (t) => {
      const prefix = `o${worlds++}`;
      const server = await startServer(t, redis, prefix);
      await server.visitors.enter('visit', BOTH, true, 'y');
      const change = server.store.change.bind(server.store);
      const endAt = (name: string) => {
        server.store.change = (script, keys, args) =>
          script.name === name ? Promise.reject(new ServiceError('unavailable')) : change(script, keys, args);
      };
      const run = server.visits.run.bind(server.visits);
      server.visits.run = async (operation) => {
        if (operation.recordId !== undefined) throw new ServiceError('unavailable');
        return run(operation);
      };
      await t.rejects(visitOnce(server), { code: 'unavailable' });
      await server.visitors.link({ customerId: 'd', sessionId: 's' });
      endAt('placeRequest');
      await t.rejects(visitOnce(server), { code: 'unavailable' });
      server.store.change = change;
      server.visits.run = run;
      await server.visitors.link({ customerId: 'c', sessionId: 's' });
      const answer = await visitOnce(server);
      t.match(JSON.parse(answer), { count: 1 });
      t.equal(await visitOnce(server), answer);
      t.equal((await server.visitors.read(GUEST, true, 'x')).count, 1);
    },
  );
});
