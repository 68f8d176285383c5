// A backup while visitors log in: between any two steps of a merge, what it restores has each count and each item once.

import { join } from 'node:path';
import t, { type Test } from 'tap';
import { dumpRedis } from '../../src/extras/backup/dump-redis.js';
import { restoreRedis, verifyRedis } from '../../src/extras/backup/restore-redis.js';
import { Merger } from '../../src/profiles/merge.js';
import { Pending } from '../../src/profiles/pending.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { tempDir } from '../cli/wishmeter.js';
import { eachRedis } from '../harness/app.js';
import { allKeys } from '../harness/dump.js';
import { startTestCluster, startTestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import {
  add,
  countOf,
  products,
  type Redis,
  type Server,
  startServer,
  startTwo,
} from '../wishlist/fixtures.js';

const HANDLE = 'x';
const SESSIONS = ['s1', 's2', 's3'];
/** Of three sessions and two customers: every sum of some of them is another number. */
const VISITS = { s1: 1, s2: 2, s3: 4, c: 8, d: 16 };
/** On one Redis each of the steps that a merge is stopped at, once. */
const roundsOn = ({ urls }: Redis) => (urls.length === 1 ? 14 : 4);
const READS = ['callBuffer', 'hmget', 'hget', 'hscanStream', 'zscanStream'];

const whoIs = (name: string) => identityOf(name.startsWith('s') ? { sessionId: name } : { customerId: name });

/** A client whose reads come one after the other; `before` is called with the number of each. */
function slowed(client: RedisClient, before: (read: number) => Promise<void>): RedisClient {
  let reads = 0;
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(act: () => T): Promise<Awaited<T>> => {
    const read = last.then(() => before(reads++)).then(act);
    last = read.catch(() => {});
    return read as Promise<Awaited<T>>;
  };
  return new Proxy(client, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (!READS.includes(String(name))) return value.bind(target);
      if (!String(name).endsWith('Stream'))
        return (...args: unknown[]) => inTurn(() => value.apply(target, args));
      return async function* (...args: unknown[]) {
        yield* await inTurn(() => value.apply(target, args).toArray());
      };
    },
  });
}

async function begin(server: Server): Promise<void> {
  for (const [name, visits] of Object.entries(VISITS)) {
    for (let i = 0; i < visits; i++) await server.visitors.enter('visit', whoIs(name), true, HANDLE);
    await add(server, whoIs(name), `of-${name}`);
  }
}

async function sumOf(server: Server): Promise<{ count: number; items: string[] }> {
  // A read may complete a merge, so the last one of a profile counts.
  const found = new Map<string, { count: number; items: string[] }>();
  for (const who of Object.keys(VISITS).map(whoIs)) {
    const { profileId } = await server.visitors.find(who, true);
    const count = await countOf(server, who, HANDLE);
    found.set(profileId, { count, items: await products(server, who) });
  }
  const all = [...found.values()];
  const count = all.reduce((sum, one) => sum + one.count, 0);
  return { count, items: all.flatMap(({ items }) => items).sort() };
}

const ALL = { count: 31, items: ['of-c', 'of-d', 'of-s1', 'of-s2', 'of-s3'] };

/** A backup of a deployment into an empty one. @param before called with the number of each read */
async function copy(
  t: Test,
  from: Server,
  to: Redis,
  prefix: string,
  before: (read: number) => Promise<void>,
) {
  const folder = await tempDir(t);
  const paths = [join(folder, 'all'), join(folder, 'again')] as const;
  const keys = createKeys(prefix);
  const onProgress = () => {};
  await dumpRedis(slowed(from.store.client, before), keys, { prefix, paths }, onProgress);
  const client = await connectRedis({ urls: to.urls, name: 'restore', timeoutMs: 20_000 }, () => {});
  await restoreRedis({ client, keys, prefix, paths, onProgress });
  await verifyRedis({ client, prefix, paths, onProgress });
  client.disconnect();
}

const link = (server: Server, sessionId: string, customerId: string) =>
  server.visitors.link({ sessionId, customerId });

/** A customer's profile goes into another one's, as a failover may make it necessary. */
async function mergeCustomers(server: Server): Promise<void> {
  const [from, into] = await Promise.all(['c:d', 'c:c'].map((name) => server.redirects.stateOf(name)));
  const [its, theirs] = [from?.link, into?.link];
  if (its === undefined || theirs === undefined || its.field === theirs.field) return;
  const merger = new Merger({ ...server, pending: new Pending(server.store), append: async () => {} });
  await server.links.join(theirs, its.profileId, `+${its.generation}`);
  await merger.merge(its, 'c:d', theirs);
}

const unfinished = async (redis: Redis, prefix: string) =>
  (await allKeys(redis, prefix)).filter((key) => /}:(x|j.|z.):/.test(key));

let worlds = 0;

eachRedis(t, async (t, redis) => {
  const target = redis.urls.length === 1 ? await startTestCluster(t) : await startTestRedis(t);

  const rounds = roundsOn(redis);
  let acted = 0;
  /** @param acts take location before reads of the backup, each so many reads after the one before */
  const backUp = async (
    t: Test,
    round: number,
    acts: (server: Server, other: Server) => (() => Promise<unknown>)[],
  ) => {
    const prefix = `b${worlds++}`;
    const [server, other] = await startTwo(t, redis, prefix);
    await begin(server);
    const left = acts(server, other);
    const all = left.length;
    const [first, gap] = [1 + (round % 9), 1 + (round % 4)];
    await copy(t, other, target, prefix, async (read) => {
      if (read >= first && (read - first) % gap === 0) await left.shift()?.();
    });
    acted += all - left.length;
    const restored = await startServer(t, target, prefix);
    return { prefix, restored };
  };

  t.test('a merge is finished although it left the list of pending ones before that was read', async (t) => {
    const prefix = `b${worlds++}`;
    const [server, other] = await startTwo(t, redis, prefix);
    await begin(server);
    server.crashAfter(5, true);
    await link(server, 's1', 'c').catch(() => {});
    t.not((await unfinished(redis, prefix)).length, 0);
    await copy(t, other, target, prefix, async () => {
      for (const key of await allKeys(redis, prefix))
        if (key.includes('pending')) await other.store.client.del(key);
    });
    const restored = await startServer(t, target, prefix);
    for (let scan = 0; scan < 2; scan++) await restored.resume.run();
    t.same(await unfinished(target, prefix), []);
  });

  t.test('of merges has all once, whichever of their steps it lies between', async (t) => {
    for (let round = 0; round < rounds; round++) {
      const steps = 1 + ((round * 5) % 14);
      const stop = async (server: Server, act: () => Promise<unknown>) => {
        server.crashAfter(steps, true);
        await act().catch(() => {});
        server.recover();
      };
      const { prefix, restored } = await backUp(t, round, (server, other) => [
        () => stop(server, () => link(server, 's1', 'c')),
        ...(round % 3 === 0 ? [] : [() => link(other, 's1', 'c')]),
        () => link(other, 's2', 'd'),
        () => stop(server, () => mergeCustomers(server)),
        () => link(other, 's3', 'c'),
      ]);
      t.same(await sumOf(restored), ALL, `round ${round}`);
      for (let scan = 0; scan < 2; scan++) await restored.resume.run();
      t.same(await unfinished(target, prefix), [], 'nothing is left unfinished');
      for (const session of SESSIONS) await link(restored, session, 'c');
      t.same(await sumOf(restored), ALL, `round ${round}, all logged in`);
    }
    t.ok(acted > 3 * rounds, `${acted} steps during backups`);
  });
});
