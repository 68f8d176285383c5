// Writes that a failover may lose: with REDIS_REPLICAS=1 no acknowledged one; without it, those that the
// replica had not received, but no data from before a login. FAULTS=full: more of each.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { createKeys } from '../../src/redis/keys.js';
import { slotOf } from '../../src/redis/node-markers.js';
import { tempDir } from '../cli/wishmeter.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import type { Answer } from '../harness/client.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, connectToEach, startTestRedis, startTestReplica } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';
import { slotsOf } from '../harness/slots.js';
import { until } from '../harness/until.js';
import { type ClusterNode, type Pair as NodePair, redisCluster } from './redis-cluster.js';
import { FULL } from './service.js';

const TIMES = FULL ? 5 : 1;
/** Requests that are answered after the link is cut and before the master is killed. */
const SEVERED = 10;
const CONNECTIONS = 8;
/** Requests that are acknowledged before anything fails. */
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
  // The link is up after the snapshot; later writes come by the stream, which may begin a second later. (WAIT
  // is of no use: it counts a write from before the replica existed as acknowledged.)
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
  t.test(
    `a failover with REDIS_REPLICAS=1 loses nothing, ${time} of ${TIMES}`,
    { timeout: 120_000 },
    async (t) => {
      const { lost, refused } = await failOverOne(t, 1);
      t.equal(lost, 0);
      t.ok(refused > 0, 'while the link was severed writes were refused');
    },
  );

t.test(
  'a failover without REDIS_REPLICAS loses the writes that the replica lacks',
  { timeout: 120_000 },
  async (t) => {
    const { lost } = await failOverOne(t, 0);
    t.ok(lost > 0);
  },
);

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
});

const TOO_FEW = 'Redis takes no writes, because it has too few replicas';
const REFUSED = {
  status: 503,
  headers: { 'retry-after': '1' },
  json: { code: 'unavailable', error: 'Redis has too few replicas; send the request again.' },
};
const visitOf = (sessionId: string) => ({ identity: { sessionId }, productHandle: 'red-shoe' });

t.test('with REDIS_REPLICAS=1 and its replica dead, writes are refused before they are done', async (t) => {
  const master = await startTestRedis(t, { port: await freePort() });
  const replica = await startTestReplica(t, master);
  const lines: string[] = [];
  const onLog = (line: object) => lines.push(JSON.stringify(line));
  const app = await startApp(t, master, { env: { REDIS_REPLICAS: '1' }, onLog });
  const { shop } = app;
  const guest = { sessionId: 's-1' };
  await shop.visit(guest);
  await shop.add(guest);
  const events = (await app.rows()).length;
  await replica.stop();
  await until('it is known', async () => (await app.get('/readyz')).json.troubles);
  const writes = [
    ...Array.from({ length: 24 }, () => app.post('/product/visit', visitOf('s-1'))),
    app.post('/item/add', { ...ITEM, identity: guest, productId: '2' }, TRUSTED),
    app.post('/event', { identity: guest, type: 'add' }, TRUSTED),
    app.del('/profile', { identity: guest }, TRUSTED),
  ];
  const reads = [shop.count(guest), shop.items(guest)] as const;
  for (const answer of await Promise.all(writes)) t.match(answer, REFUSED);
  t.same(await reads[0], 1);
  t.equal((await reads[1]).length, 1);
  t.equal((await app.rows()).length, events);
  t.match(await app.get('/readyz'), { status: 200, json: { troubles: [TOO_FEW] } });
  t.equal(await app.figure('redis_masters{state="too_few_replicas"}'), 1);
  t.equal(await app.figure('redis_masters{state="away"}'), 0);
  t.equal(await app.figure('redis_up'), 0);
  t.equal(await app.figure('http_refused_total{code="unavailable",why="replicas"}'), writes.length);
  await until('the log says it', () => lines.some((line) => line.includes(TOO_FEW)));
  t.notMatch(lines.join(), /does not answer|did not answer/);
  await startTestReplica(t, master);
  await until('a replica is back', async () => !(await app.get('/readyz')).json.troubles);
  await shop.visit(guest);
  t.equal(await shop.count(guest), 2);
});

t.test(
  'with REDIS_REPLICAS=1, writes are soon refused while the replica is frozen, and /readyz stays 200',
  async (t) => {
    const master = await startTestRedis(t, { port: await freePort() });
    const replica = await startTestReplica(t, master);
    const app = await startApp(t, master, { timeoutMs: 5_000, env: { REDIS_REPLICAS: '1' } });
    await app.shop.visit({ sessionId: 's-1' });
    process.kill(replica.pids[0] as number, 'SIGSTOP');
    const asked: Promise<Answer>[] = [];
    const writes: Promise<Answer>[] = [];
    const ask = async () => {
      for (let i = 0; i < 5; i++) {
        writes.push(app.post('/product/visit', visitOf('s-2')));
        asked.push(app.get('/readyz'));
        await sleep(20); // each in its own tick, which waits for replicas
      }
      for (const { status } of await Promise.all(writes)) t.equal(status, 503);
    };
    for (let i = 0; i < 3; i++) await ask();
    await until('it is known', async () => (await app.get('/readyz')).json.troubles);
    const counted = await app.shop.count({ sessionId: 's-2' });
    t.match(await app.post('/product/visit', visitOf('s-2')), REFUSED);
    t.equal(await app.shop.count({ sessionId: 's-2' }), counted, 'not counted any more');
    for (const { status, json } of await Promise.all(asked)) {
      t.equal(status, 200, JSON.stringify(json));
      if (json.troubles) t.same(json.troubles, [TOO_FEW]);
    }
    process.kill(replica.pids[0] as number, 'SIGCONT');
    await until('it follows', async () => (await app.post('/product/visit', visitOf('s-3'))).status === 200);
  },
);

t.test('serve refuses writes also if Redis has min-replicas-to-write and too few replicas', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);
  await app.shop.visit({ sessionId: 's-1' });
  await connectTo(t, redis.url).config('SET', 'min-replicas-to-write', '1');
  t.match(await app.post('/product/visit', visitOf('s-1')), REFUSED);
  t.equal(await app.shop.count({ sessionId: 's-1' }), 1);
  t.match(await app.get('/readyz'), { status: 200, json: { troubles: [TOO_FEW] } });
  t.equal(await app.figure('redis_masters{state="too_few_replicas"}'), 1);
});

t.test('without REDIS_REPLICAS, logins and visits do not wait for a frozen replica', async (t) => {
  const [master, replica] = await Promise.all(
    [1, 2].map(async () => startTestRedis(t, { port: await freePort(), restart: false })),
  );
  if (master === undefined || replica === undefined) throw new Error('no Redis');
  const [toMaster, toReplica] = [connectTo(t, master.url), connectTo(t, replica.url)];
  for (const redis of [toMaster, toReplica]) await redis.config('SET', 'requirepass', '');
  await toReplica.replicaof('127.0.0.1', Number(new URL(master.url).port));
  await until('it replicates', async () => (await toMaster.info('replication')).includes('state=online'));
  const pid = replica.pids[0] as number;
  process.kill(pid, 'SIGSTOP');
  t.teardown(() => process.kill(pid, 'SIGCONT'));
  const { shop } = await startApp(t, { urls: [master.url] });
  const ids = Array.from({ length: 30 }, (_, i) => ({ customerId: `c${i % 10}`, sessionId: `s${i}` }));
  await Promise.all(ids.map(({ sessionId }) => shop.visit({ sessionId })));
  const logins = ids.map((one) => shop.login(one));
  await Promise.all(ids.map((_, i) => shop.visit({ sessionId: `other-${i}` })));
  for (const login of logins) t.match(await login, { merged: true });
  t.equal(await shop.count({ customerId: 'c0' }), 3);
  t.notMatch(await toMaster.info('commandstats'), /^cmdstat_wait:/m);
});

const MASTERS = 3;
const SLOTS = 16_384;
const LIMIT_MS = 300_000;
const ROUNDS = FULL ? 3 : 1;
const PAIRS = 12;
/** Much longer than a merge takes if it waits for nobody. */
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

/**
 * Fails over to a replica that has the writes of `before`, and lacks those of `during`. @returns the former
 * master
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

t.test('a Redis Cluster of masters with replicas', { timeout: 1_800_000 }, async (t) => {
  const cluster = await redisCluster(await tempDir(t));
  t.teardown(() => cluster.stop());
  await cluster.start();
  const urls = cluster.url().split(',');
  const app = await startApp(t, { urls }, { timeoutMs: 1_000 });
  const { shop } = app;
  const keys = createKeys(app.prefix);

  /**
   * Repeats a request that is answered 503, as clients do, and under one key, because a refused visit may
   * have been counted.
   */
  const done = async (path: string, body: object, by = app): Promise<{ profileId?: string }> => {
    const headers = { ...TRUSTED, 'idempotency-key': randomUUID() };
    const send = async () => {
      const answer = await by.post(path, body, headers);
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
  const profileOf = async (who: Who) => String((await visit(who)).profileId);
  const slotOfProfile = (profileId: string) => slotOf(keys.profile(profileId));
  const masterOf = (slot: number) => Math.floor((slot * MASTERS) / SLOTS);
  const nodeOf = (profileId: string) => masterOf(slotOfProfile(profileId));

  const masterUrls = urls.slice(0, MASTERS);
  t.test('with REDIS_REPLICAS a visit counts once while the marker of its node migrates', async (t) => {
    const nodes = connectToEach(t, masterUrls);
    const slots = await slotsOf(nodes, masterUrls);
    const app = await startApp(t, { urls }, { timeoutMs: 3_000, env: { REDIS_REPLICAS: '1' } });
    const keys = createKeys(app.prefix);
    const fields = await Promise.all(nodes.map((node) => node.hkeys(keys.meta).catch(() => [])));
    const [marker = 0] = fields.flat().flatMap((name) => Number(/^marker:(.+)$/.exec(name)?.[1] ?? []) || []);
    const [slot, from] = [slotOf(keys.nodeMarker(marker)), masterOf(slotOf(keys.nodeMarker(marker)))];
    const to = (from + 1) % nodes.length;
    let visitor = { sessionId: '', identity: '' };
    for (let i = 0; masterOf(slotOf(visitor.identity)) !== from || slotOf(visitor.identity) === slot; i++) {
      const sessionId = `s${i}`;
      const { json } = await app.get(withQuery('/product/visit', { sessionId, productHandle: 'x' }));
      visitor = { sessionId, identity: keys.counts(json.profileId) };
    }
    const visit = { identity: { sessionId: visitor.sessionId }, productHandle: 'x' };
    await until('a replica keeps up', async () => (await app.post('/product/visit', visit)).status === 200);
    await slots.start(slot, from, to);
    const { port } = new URL(masterUrls[to] as string);
    await nodes[from]?.call('MIGRATE', '127.0.0.1', port, keys.nodeMarker(marker), 0, 5_000);
    // With a key, because a visit may have been counted although too few replicas made its answer 503.
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

  t.test(
    'with REDIS_REPLICAS, a master without its replica refuses only the writes of its own visitors',
    async (t) => {
      const app = await startApp(t, { urls }, { timeoutMs: 900, env: { REDIS_REPLICAS: '1' } });
      const ids = Array.from({ length: 30 }, (_, i) => `lone-${i}`);
      const visitAll = () => Promise.all(ids.map((id) => app.post('/product/visit', visitOf(id))));
      const profiles = await until('all are counted', async () => {
        const answers = await visitAll();
        return answers.every(({ status }) => status === 200) && answers.map(({ json }) => json.profileId);
      });
      const counts = () => Promise.all(ids.map((sessionId) => app.shop.count({ sessionId })));
      const before = await counts();
      const [{ master, replica }] = (await cluster.pairs()) as [NodePair, ...NodePair[]];
      const isLone = profiles.map(
        (id) => Number(new URL(masterUrls[nodeOf(id)] as string).port) === master.port,
      );
      t.equal(new Set(isLone).size, 2);
      await replica.stop();
      await until('it is known', async () => (await app.get('/readyz')).json.troubles);
      for (const [i, answer] of (await visitAll()).entries())
        t.match(answer, isLone[i] ? REFUSED : { status: 200 });
      t.same(
        await counts(),
        before.map((count, i) => (isLone[i] ? count : count + 1)),
      );
      t.match(await app.get('/readyz'), { status: 200, json: { troubles: [`1 of 3 masters: ${TOO_FEW}`] } });
      await replica.start();
      await cluster.whole();
      await until('all are counted', async () => (await visitAll()).every(({ status }) => status === 200));
    },
  );

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

  const replicated = await startApp(
    t,
    { urls },
    {
      ...{ prefix: app.prefix, timeoutMs: 1_000, env: { REDIS_REPLICAS: '1' } },
    },
  );
  for (let round = 0; round < ROUNDS; round++)
    for (const replicas of [0, 1])
      for (const side of ['target', 'guest'] as const)
        t.test(
          `with REDIS_REPLICAS=${replicas}, merges ${replicas ? 'are exact' : 'lose nothing'} when the ${side}s' master dies, round ${round}`,
          async (t) => {
            const [first, ...others] = await pairs(PAIRS, side);
            const all = [first as Pair, ...others];
            await cluster.whole();
            const merging: Promise<unknown>[] = [];
            const login = ({ link }: Pair) => done('/profile/merge', link, replicas > 0 ? replicated : app);
            const merge = async (some: readonly Pair[]) => {
              for (const pair of some) {
                merging.push(login(pair));
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
            const restart = async () => {
              await killed.start();
              await cluster.whole();
            };
            if (replicas > 0) await restart(); // its writes are refused before
            await Promise.all(merging);
            // The session's next request repeats a merge that the customer's node has lost. The next login
            // repeats a merge that the session's node has lost, and the customer then counts the same visits
            // twice.
            if (replicas === 0) for (const pair of all) await login(pair);
            const exact = { count: 6, items: 1 };
            const twice = side === 'guest' && replicas === 0 ? [{ count: 11, items: 1 }] : [];
            const areRight = async ({ customer, session }: Pair) => {
              const [one, other] = [await see(session), await see(customer)];
              t.same(one, other);
              t.ok(
                [exact, ...twice].some((seen) => JSON.stringify(seen) === JSON.stringify(one)),
                JSON.stringify(one),
              );
            };
            for (const pair of all) {
              await until('the session is read', () => see(pair.session).catch(() => undefined), LIMIT_MS);
              await areRight(pair);
            }
            if (replicas === 0) await restart();
            for (const pair of all) await areRight(pair);
          },
        );
});
