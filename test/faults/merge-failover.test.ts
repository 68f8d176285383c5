// A merge across a failover, with real replicas: the replica of one side misses the merge (it is frozen and its connection
// is cut), its master is killed, and the replica takes over. Only what was acknowledged in between may be lost: the guest's
// history is not, nor is what comes after the failover. FAULTS=full: three times for each side.

import { randomUUID } from 'node:crypto';
import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { slotOf } from '../../src/redis/marks.js';
import { tempDir } from '../cli/wishmeter.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { ITEM } from '../harness/shop.js';
import { until } from '../harness/until.js';
import { type ClusterNode, redisCluster } from './redis-cluster.js';
import { FULL } from './service.js';

/** Of what this machine may be slow at. */
const LIMIT_MS = 300_000;
const ROUNDS = FULL ? 3 : 1;

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

async function failOver(nodes: readonly ClusterNode[], slot: number, during: () => Promise<void>) {
  const [master, replica] = await ownersOf(nodes, slot);
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
  /** A customer and a session on different nodes; the session has a history that replicas have. */
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
      return { customer, session, target, guest, link: { identity: { ...customer, ...session } } };
    }
  };

  for (let round = 0; round < ROUNDS; round++) {
    t.test(
      `the merge target's node forgets the merge, round ${round}: it is applied again, once`,
      async (t) => {
        const { customer, session, target, link } = await startPair();
        await visit(customer);
        await cluster.whole();
        const killed = await failOver(cluster.nodes, slotOfProfile(target), async () => {
          await done('/profile/merge', link);
          t.same(await see(customer), { count: 6, items: 1 });
        });
        await visit(session);
        for (const who of [customer, session]) {
          await untilSeen(who, 7);
          t.same(await see(who), { count: 7, items: 1 });
        }
        await killed.start();
        await cluster.whole();
        t.same(await see(customer), { count: 7, items: 1 });
      },
    );

    t.test(`the target itself is forgotten, round ${round}: the guest has its history again`, async (t) => {
      const { customer, session, target, link } = await startPair();
      await cluster.whole();
      const killed = await failOver(cluster.nodes, slotOfProfile(target), async () => {
        await visit(customer);
        await done('/profile/merge', link);
        t.same(await see(customer), { count: 6, items: 1 });
      });
      await visit(session);
      t.same(await see(session), { count: 6, items: 1 });
      await done('/profile/merge', link);
      for (const who of [customer, session]) t.same(await see(who), { count: 6, items: 1 });
      await killed.start();
      await cluster.whole();
    });

    t.test(
      `the session's node forgets the merge, round ${round}: what comes afterwards is merged, too`,
      async (t) => {
        const { customer, session, guest, link } = await startPair();
        await visit(customer);
        await cluster.whole();
        const killed = await failOver(cluster.nodes, slotOfProfile(guest), async () => {
          await done('/profile/merge', link);
          t.same(await see(customer), { count: 6, items: 1 });
        });
        for (let i = 0; i < 3; i++) await visit(session);
        await add(session, '77');
        await done('/profile/merge', link);
        for (const who of [customer, session]) {
          await untilSeen(who, 9);
          t.same(await see(who), { count: 9, items: 2 });
        }
        await killed.start();
        await cluster.whole();
      },
    );
  }
});
