// A backup that is made between any two steps of a login restores each count and item once. Files, kinds of keys and
// processes: test/cli/backup.test.ts.

import { join } from 'node:path';
import t, { type Test } from 'tap';
import { dumpRedis } from '../../src/extras/backup/dump-redis.js';
import { restoreRedis } from '../../src/extras/backup/restore-redis.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { tempDir } from '../cli/wishmeter.js';
import { eachRedis } from '../harness/app.js';
import { eachKey, startTestCluster, startTestRedis } from '../harness/redis.js';
import {
  clear,
  endAfter,
  followShare,
  login,
  type Redis,
  resume,
  type Server,
  startServer,
  startTwo,
} from '../wishlist/fixtures.js';
import { type Names, newNames, see, shop, shopMuch } from './people.js';

/** A client whose reads of profiles and keys come one after the other; `before` is called with the number of each. */
function slowed(client: RedisClient, before: (read: number) => Promise<void>): RedisClient {
  let reads = 0;
  let last: Promise<unknown> = Promise.resolve();
  const read = (...args: unknown[]) => {
    const reading = last
      .then(() => before(reads++))
      .then(() => (client.callBuffer as (...all: unknown[]) => unknown)(...args));
    last = reading.catch(() => {});
    return reading;
  };
  return new Proxy(client, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (name === 'callBuffer') return read;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** A backup of a deployment, restored into an empty one. @param before called with the number of each read */
async function copy(
  t: Test,
  from: Server,
  to: Redis,
  prefix: string,
  before: (read: number) => Promise<void>,
) {
  const path = join(await tempDir(t), 'keys');
  const keys = createKeys(prefix);
  const onProgress = () => {};
  await dumpRedis(slowed(from.store.client, before), keys, { prefix, path }, onProgress);
  const client = await connectRedis({ urls: to.urls, name: 'restore', timeoutMs: 20_000 }, () => {});
  await restoreRedis({ client, keys, prefix, path, onProgress });
  client.disconnect();
}

interface Act {
  readonly server: Server;
  readonly other: Server;
  readonly names: Names;
  /** The last step of the login's server. */
  readonly step: number;
}

async function endedLogin({ server, names, step }: Act): Promise<void> {
  server.crashAfter(step, true);
  await login(server, names.toThis).catch(() => {});
  server.recover();
}

/** Acts during the backup, one after the other. */
const ACTS: Readonly<Record<string, readonly ((act: Act) => Promise<unknown>)[]>> = {
  'a login that ends after any step': [endedLogin],
  'a login that ends after any step, and its completion': [
    endedLogin,
    ({ other, names }) => login(other, names.toThis),
  ],
  "a login that ends after any step, and another customer's": [
    endedLogin,
    ({ other, names }) => login(other, names.toAnother),
  ],
};
/** Number of the read before which the first act happens, and reads between two acts. */
const FIRST = [0, 1, 2, 3];
const GAPS = [1, 2];
const STEPS = [2, 3, 4, 5, 6, 7, 99];

let worlds = 0;

eachRedis(t, async (t, redis) => {
  const target = redis.urls.length === 1 ? await startTestCluster(t) : await startTestRedis(t);

  for (const [during, acts] of Object.entries(ACTS))
    t.test(`a backup during ${during} restores each count and item once`, async (t) => {
      const prefix = `b${worlds++}`;
      const [server, other] = await startTwo(t, redis, prefix);
      let acted = 0;
      for (const step of STEPS)
        for (const first of FIRST)
          for (const gap of acts.length === 1 ? [1] : GAPS) {
            await clear(redis, prefix);
            const names = newNames();
            for (const own of ['c', 'd'] as const) await shop(other, names, own);
            const [, digest = '', code = ''] = await shopMuch(other, names, 's');
            const left = [...acts];
            await copy(t, other, target, prefix, async (read) => {
              if (read < first || (read - first) % gap !== 0) return;
              const act = left.shift();
              if (act !== undefined) acted++;
              await act?.({ server, other, names, step });
            });
            const when = `step ${step}, before read ${first}, and ${gap} later`;
            t.same(left, [], `${when}: all was done during the backup`);
            const restored = await startServer(t, target, prefix);
            const isGuest = (await restored.locator.stateOf(`s:${names.s}`)) === 'guest';
            // Both complete a pending merge.
            const ofSession = acted % 2 === 0 ? await see(restored, names.session) : await resume(restored);
            const all = async () =>
              `${await see(restored, names.customer)}${await see(restored, names.another)}`;
            if (isGuest && ofSession !== undefined) t.equal(ofSession, 's', when);
            t.same([...(await all()), isGuest ? 's' : ''].sort().join(''), 'cds', when);
            const before = await see(restored, names.another);
            await login(restored, names.toThis);
            const has = before === 'd' ? 'cs' : 'c';
            t.equal(await all(), `${has}${before}`, `${when}: logged in`);
            t.equal(await see(restored, names.session), has, when);
            t.equal((await followShare(restored, code)).includes('s'), true, `${when}: the share code`);
            t.equal((await restored.emails.findOwners(digest)).length, 1, `${when}: the address`);
            const profiles = ['c', 'd'].map((one) => restored.locator.profileOf(`c:${names[one as 'c']}`));
            t.ok(profiles.includes((await restored.emails.findOwners(digest))[0] as string), when);
            await restored.close();
            await eachKey(target, `${prefix}:*`, (client, key) => client.del(key));
          }
    });

  for (const isHalfDone of [false, true])
    t.test(
      `a backup during ${isHalfDone ? 'a half-done' : 'a complete'} erasure restores the customer whole or not at all`,
      async (t) => {
        for (const at of [1, 2, 3]) {
          const prefix = `b${worlds++}`;
          const [server, other] = await startTwo(t, redis, prefix);
          const names = newNames();
          for (const own of ['c', 'd'] as const) await shop(other, names, own);
          const traces = await shopMuch(other, names, 's');
          await login(other, names.toThis);
          const erase = () => server.eraser.erase(`c:${names.c}`);
          await copy(t, other, target, prefix, async (read) => {
            if (read === at) await (isHalfDone ? endAfter(server, 'eraseProfile', erase) : erase());
          });
          const restored = await startServer(t, target, prefix);
          const when = `before read ${at}`;
          t.equal(await see(restored, names.another), 'd', when);
          const isErased = (await see(restored, names.customer)) === '';
          // Otherwise the backup has the customer from before the erasure.
          t.ok(isErased || at > 1, when);
          t.equal(await see(restored, names.session), isErased ? '' : 'cs', when);
          await resume(restored);
          const [, digest = '', code = ''] = traces;
          if (isErased) {
            t.same(await restored.emails.find(digest), [], when);
            t.same(await followShare(restored, code), [], when);
          }
          const { profileId } = await restored.counter.enter('visit', names.session, true, 's');
          t.equal(profileId, restored.locator.profileOf(isErased ? `s:${names.s}` : `c:${names.c}`), when);
        }
      },
    );
});
