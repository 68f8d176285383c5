// What a failover may lose: with REDIS_REPLICAS=1 nothing that was acknowledged, without it what came after the link was lost.
// Merges lose and double nothing. FAULTS=full: more of each.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { createKeys } from '../../src/redis/keys.js';
import { slotOf } from '../../src/redis/node-markers.js';
import { tempDir } from '../cli/wishmeter.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, connectToEach, startTestRedis } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';
import { slotsOf } from '../harness/slots.js';
import { until } from '../harness/until.js';
import { type ClusterNode, redisCluster } from './redis-cluster.js';
import { FULL } from './service.js';

const TIMES = FULL ? 5 : 1;
/** Requests that are answered between the loss of the link and that of the master. */
const SEVERED = 10;
const CONNECTIONS = 8;
/** Acknowledged before anything fails. */
const WARM = 30;

async function failOverOne(t: Test, replicas: number) {
  const [master, replica] = await Promise.all(
    [1, 2].map(async () => startTestRedis(t, { port: await freePort(), restart: false })),
  );
  if (master === undefined || replica === undefined) throw new Error('no Redis');
  const [toMaster, toReplica] = [connectTo(t, master.url), connectTo(t, replica.url)];
  await toMaster.config('SET', 'repl-diskless-sync-delay', '0');
  for (const redis of [toMaster, toReplica]) await redis.config('SET', 'requirepass', '');
  const [link, address] = [await startProxy(t, master.url), await startProxy(t, master.url)];
  await toReplica.replicaof('127.0.0.1', link.port);
  // Up once it has the snapshot; what is written after that comes by the stream, which may begin a second later. (WAIT
  // does not tell: a write from before there was a replica counts as acknowledged.)
  while (!(await toReplica.info('replication')).includes('master_link_status:up')) await sleep(20);
  await toMaster.set('streaming', '1');
  while ((await toReplica.get('streaming')) === null) await sleep(20);

  const env = { REDIS_REPLICAS: String(replicas) };
  const app = await startApp(t, { urls: [address.url] }, { timeoutMs: 500, env });
  const visited: string[] = [];
  const added: string[] = [];
  let refused = 0;
  let running = true;
  const shop = async (connection: number) => {
    for (let n = 0; running; n++) {
      const identity = { sessionId: `c${connection}-${n}` };
      const isItem = n % 5 === 0;
      const { status } = isItem
        ? await app.post('/item/add', { ...ITEM, identity }, TRUSTED)
        : await app.post('/product/visit', { identity, productHandle: ITEM.productHandle });
      if (status === 503) refused++;
      else if (status !== 200) t.fail(`${status}`);
      else (isItem ? added : visited).push(identity.sessionId);
      await sleep(2);
    }
  };
  const shops = Array.from({ length: CONNECTIONS }, (_, i) => shop(i));
  while (visited.length + added.length < WARM) await sleep(20);
  link.freeze();
  const answered = () => (replicas > 0 ? refused : visited.length + added.length);
  const before = answered();
  await until('the service goes on for a moment', () => answered() >= before + SEVERED);
  toMaster.disconnect();
  process.kill(master.pids[0] as number, 'SIGKILL');
  running = false;
  await Promise.all(shops);
  await toReplica.replicaof('NO', 'ONE');
  address.retarget(replica.url);

  const isLost = (sessionId: string, isItem: boolean) =>
    until(`${sessionId} is read`, async () => {
      const read = isItem
        ? app.shop.items({ sessionId }).then(({ length }) => length)
        : app.shop.count({ sessionId });
      return await read.then((n) => ({ lost: n === 0 })).catch(() => undefined);
    });
  let lost = 0;
  for (const id of visited) if ((await isLost(id, false)).lost) lost++;
  for (const id of added) if ((await isLost(id, true)).lost) lost++;
  const acknowledged = visited.length + added.length;
  t.comment(`${replicas} replicas asked for: ${acknowledged} acknowledged, ${refused} refused, ${lost} lost`);
  return { acknowledged, refused, lost };
}

for (let time = 1; time <= TIMES; time++)
  t.test(`REDIS_REPLICAS=1 loses nothing, ${time} of ${TIMES}`, { timeout: 120_000 }, async (t) => {
    const { lost, refused } = await failOverOne(t, 1);
    t.equal(lost, 0);
    t.ok(refused > 0, 'while the link was severed writes were refused');
  });

t.test('without it what came in between is lost', { timeout: 120_000 }, async (t) => {
  const { lost } = await failOverOne(t, 0);
  t.ok(lost > 0);
});

t.test('a process that only reads waits for no replica', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const writer = await startApp(t, redis);
  const guests = Array.from({ length: 20 }, (_, n) => ({ sessionId: `seen-${n}` }));
  for (const guest of guests) await writer.shop.visit(guest);
  const env = { REDIS_REPLICAS: '1' };
  const reader = await startApp(t, redis, { prefix: writer.prefix, timeoutMs: 1_000, env });
  for (const guest of guests)
    t.equal(await until('it is read', () => reader.shop.count(guest).catch(() => undefined)), 1);
  t.notMatch(await client.info('commandstats'), /^cmdstat_wait:/m);
  await t.rejects(reader.shop.visit({ sessionId: 'new' }), /503/, 'a visit is refused');
  t.match(await client.info('commandstats'), /^cmdstat_wait:/m);
});

const MASTERS = 3;
const SLOTS = 16_384;
const LIMIT_MS = 300_000;
const ROUNDS = FULL ? 3 : 1;
const PAIRS = 12;
/** Far longer than a merge takes that is not waited for. */
const WHILE_MERGING_MS = 500;

type Who = { readonly customerId: string } | { readonly sessionId: string };
type SlotRange = [from: number, to: number, ...owners: [host: string, port: number][]];

async function ownersOf(nodes: readonly ClusterNode[], slot: number): Promise<[ClusterNode, ClusterNode]> {
  return until('a master and its replica are known', async () => {
    const ranges = (await nodes[0]?.command('CLUSTER', 'SLOTS')) as SlotRange[];
    const [, , ...owners] = ranges.find(([from, to]) => from <= slot && slot <= to) ?? [];
    const [master, replica] = owners.map(([, port]) => nodes.find((node) => node.port === port));
    return master && replica && ([master, replica] as [ClusterNode, ClusterNode]);
  });
}

async function offsetOf(node: ClusterNode): Promise<number> {
  const [role, ...said] = (await node.command('ROLE')) as [string, ...unknown[]];
  return Number(role === 'master' ? said[0] : said[3]);
}

/** A failover to a replica that has what `before` does and lacks what `during` does. @returns the former master */
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

t.test('a cluster of masters with replicas', { timeout: 1_800_000 }, async (t) => {
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
  const masterOf = (slot: number) => Math.floor((slot * MASTERS) / SLOTS);
  const nodeOf = (profileId: string) => masterOf(slotOfProfile(profileId));

  const masterUrls = urls.slice(0, MASTERS);
  t.test('with REDIS_REPLICAS a visit counts once while the mark of its node is on the move', async (t) => {
    const nodes = connectToEach(t, masterUrls);
    const slots = await slotsOf(nodes, masterUrls);
    const app = await startApp(t, { urls }, { timeoutMs: 3_000, env: { REDIS_REPLICAS: '1' } });
    const keys = createKeys(app.prefix);
    const fields = await Promise.all(nodes.map((node) => node.hkeys(keys.meta).catch(() => [])));
    const [mark = 0] = fields.flat().flatMap((name) => Number(/^marker:(.+)$/.exec(name)?.[1] ?? []) || []);
    const [slot, from] = [slotOf(keys.nodeMarker(mark)), masterOf(slotOf(keys.nodeMarker(mark)))];
    const to = (from + 1) % nodes.length;
    let visitor = { sessionId: '', identity: '' };
    for (let i = 0; masterOf(slotOf(visitor.identity)) !== from || slotOf(visitor.identity) === slot; i++) {
      const sessionId = `s${i}`;
      const { json } = await app.get(withQuery('/product/visit', { sessionId, productHandle: 'x' }));
      visitor = { sessionId, identity: keys.identity(json.profileId) };
    }
    const visit = { identity: { sessionId: visitor.sessionId }, productHandle: 'x' };
    t.equal((await app.post('/product/visit', visit)).status, 200);
    await slots.start(slot, from, to);
    const { port } = new URL(masterUrls[to] as string);
    await nodes[from]?.call('MIGRATE', '127.0.0.1', port, keys.nodeMarker(mark), 0, 5_000);
    // Under a key, since a 503 for want of replicas may have been counted.
    const headers = { 'idempotency-key': 'one' };
    const counting = until(
      'it is counted',
      async () => (await app.post('/product/visit', visit, headers)).status === 200,
    );
    await sleep(500);
    await slots.moveKeys(slot, from, to);
    await slots.end(slot, to);
    await counting;
    t.equal(await nodes[from]?.hget(visitor.identity, 'x'), '2', 'once');
  });

  let names = 0;
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
      t.test(`the ${side}s' master dies amid merges, unreplicated in part, round ${round}`, async (t) => {
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
      });
});
