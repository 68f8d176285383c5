// Merges across a failover, with real replicas: the replica of one side misses the last moments (it is frozen and its connection is
// cut), its master is killed, and the replica takes over. Each merge loses and doubles nothing. FAULTS=full: three times for each side.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { slotOf } from '../../src/redis/node-markers.js';
import { tempDir } from '../cli/wishmeter.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { ITEM } from '../harness/shop.js';
import { until } from '../harness/until.js';
import { type ClusterNode, redisCluster } from './redis-cluster.js';
import { FULL } from './service.js';

/** Of what this machine may be slow at. */
const LIMIT_MS = 300_000;
const ROUNDS = FULL ? 3 : 1;
const PAIRS = 20;
/** Far longer than a merge takes that is not waited for. */
const WHILE_MERGING_MS = 500;

type Who = { readonly customerId: string } | { readonly sessionId: string };
type SlotRange = [from: number, to: number, ...owners: [host: string, port: number][]];

/** The master of a slot, and its replica. */
async function ownersOf(nodes: readonly ClusterNode[], slot: number): Promise<[ClusterNode, ClusterNode]> {
  return until('a master and its replica are known', async () => {
    const ranges = (await nodes[0]?.command('CLUSTER', 'SLOTS')) as SlotRange[];
    const [, , ...owners] = ranges.find(([from, to]) => from <= slot && slot <= to) ?? [];
    const [master, replica] = owners.map(([, port]) => nodes.find((node) => node.port === port));
    return master && replica && ([master, replica] as [ClusterNode, ClusterNode]);
  });
}

/** @returns the bytes of its history that a node has, as its `ROLE` tells them */
async function offsetOf(node: ClusterNode): Promise<number> {
  const [role, ...said] = (await node.command('ROLE')) as [string, ...unknown[]];
  return Number(role === 'master' ? said[0] : said[3]);
}

/**
 * A fail-over to a replica that lacks the last moments: what `before` does it has, what `during` does it has not.
 * @returns the node that was the master
 */
async function failOver(
  nodes: readonly ClusterNode[],
  slot: number,
  before: () => Promise<void>,
  during: () => Promise<void>,
): Promise<ClusterNode> {
  const [master, replica] = await ownersOf(nodes, slot);
  await before();
  const written = await offsetOf(master);
  await until('the replica has what came before', async () => (await offsetOf(replica)) >= written);
  process.kill(replica.pid as number, 'SIGSTOP');
  try {
    await master.command('CLIENT', 'KILL', 'TYPE', 'replica');
    await during();
    process.kill(master.pid as number, 'SIGKILL');
  } finally {
    process.kill(replica.pid as number, 'SIGCONT');
  }
  await until('the replica took over', async () => (await replica.role()) === 'master', LIMIT_MS);
  await master.stop();
  return master;
}

t.test('a merge across a failover', { timeout: 1_800_000 }, async (t) => {
  const cluster = await redisCluster(await tempDir(t));
  t.teardown(() => cluster.stop());
  await cluster.start();
  const urls = cluster.url().split(',');
  const app = await startApp(t, { urls }, { timeoutMs: 1_000 });
  const { shop } = app;
  const keys = createKeys(app.prefix);

  /** Sends again what is answered 503, as a client does, and as one thing: a visit that was refused may have been counted. */
  const done = async (path: string, body: object): Promise<{ profileId?: string }> => {
    const headers = { ...TRUSTED, 'idempotency-key': randomUUID() };
    const send = async () => {
      const answer = await app.post(path, body, headers);
      if (answer.status !== 503 && answer.status !== 200) throw new Error(answer.text);
      return answer.status === 200 && answer;
    };
    return (await until(`${path} is done`, send, LIMIT_MS)).json;
  };
  const visit = (identity: Who) => done('/product/visit', { identity, productHandle: 'red-shoe' });
  const add = (identity: Who, productId = '1001') => done('/item/add', { ...ITEM, identity, productId });
  const see = async (who: Who) => ({
    count: await shop.count({ ...who }),
    items: (await shop.items(who)).length,
  });
  const untilSeen = (who: Who, count: number) => {
    const isSeen = async () => (await see(who).catch(() => undefined))?.count === count;
    return until(`${JSON.stringify(who)} has ${count}`, isSeen, LIMIT_MS);
  };
  const profileOf = async (who: Who) => String((await visit(who)).profileId);
  const slotOfProfile = (profileId: string) => slotOf(keys.profile(profileId));
  const nodeOf = (profileId: string) => Math.floor((slotOfProfile(profileId) * 3) / 16_384);

  let names = 0;
  /** A customer who has one visit and a session on another node that has five, and an item. */
  const startPair = async () => {
    const customer = { customerId: `c${names}` };
    const query = `/product/visit?customerId=${customer.customerId}&productHandle=red-shoe`;
    const target: string = (await app.get(query, TRUSTED)).json.profileId;
    for (;;) {
      const session = { sessionId: `s${names++}` };
      const guest = await profileOf(session);
      if (nodeOf(guest) === nodeOf(target)) continue;
      for (let i = 1; i < 5; i++) await visit(session);
      await add(session);
      await visit(customer);
      return { customer, session, target, guest, link: { identity: { ...customer, ...session } } };
    }
  };

  type Pair = Awaited<ReturnType<typeof startPair>>;
  /** Pairs with this side on one node. */
  const pairs = async (count: number, side: 'target' | 'guest'): Promise<Pair[]> => {
    const found: Pair[] = [];
    while (found.length < count) {
      const pair = await startPair();
      if (nodeOf(pair[side]) === nodeOf((found[0] ?? pair)[side])) found.push(pair);
    }
    return found;
  };

  for (let round = 0; round < ROUNDS; round++)
    for (const side of ['target', 'guest'] as const)
      t.test(
        `the master of the ${side}s is killed amid ${PAIRS} merges, and its replica lacks some, round ${round}`,
        async (t) => {
          const [first, ...others] = await pairs(PAIRS, side);
          const all = [first as Pair, ...others];
          await cluster.whole();
          const merging: Promise<unknown>[] = [];
          const merge = async (some: readonly Pair[]) => {
            for (const { link } of some) {
              merging.push(done('/profile/merge', link));
              await sleep(2);
            }
          };
          const slot = slotOfProfile((first as Pair)[side]);
          const killed = await failOver(
            cluster.nodes,
            slot,
            () => merge(all.slice(0, PAIRS / 2)),
            async () => {
              await merge(all.slice(PAIRS / 2));
              await sleep(WHILE_MERGING_MS);
            },
          );
          await Promise.all(merging);
          for (const { customer, session } of all)
            for (const who of [customer, session]) {
              await untilSeen(who, 6);
              t.same(await see(who), { count: 6, items: 1 });
            }
          await killed.start();
          await cluster.whole();
          for (const { customer } of all) t.same(await see(customer), { count: 6, items: 1 });
        },
      );
});
