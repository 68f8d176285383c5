// What a failover may lose. The link to a replica is severed, its master is killed some requests later, the replica is
// promoted: with REDIS_REPLICAS=1 nothing that was acknowledged is lost, without it the requests in between are. Reads wait
// for no replica. And a slot on the move: what got 503 is not applied late, or twice. FAULTS=full: five times, and 20.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { createKeys } from '../../src/redis/keys.js';
import { slotOf } from '../../src/redis/node-markers.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, connectToEach, startTestCluster, startTestRedis } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';
import { slotsOf } from '../harness/slots.js';
import { until } from '../harness/until.js';
import { redisCluster } from './redis-cluster.js';
import { FULL, MOST_PATIENT_MS } from './service.js';

const TIMES = FULL ? 5 : 1;
/** Requests that are answered between the loss of the link and that of the master. */
const SEVERED = 10;
const CONNECTIONS = 8;
/** Acknowledged before anything fails. */
const WARM = 30;

/** Resolves with what was acknowledged, and how much of it is gone. */
async function failOver(
  t: Test,
  replicas: number,
): Promise<{ acknowledged: number; refused: number; lost: number }> {
  const [master, replica] = await Promise.all(
    [1, 2].map(async () => startTestRedis(t, { port: await freePort(), restart: false })),
  );
  if (master === undefined || replica === undefined) throw new Error('no Redis');
  const [toMaster, toReplica] = [connectTo(t, master.url), connectTo(t, replica.url)];
  await toMaster.config('SET', 'repl-diskless-sync-delay', '0');
  // Each has a password of its own, and one address needs one for both.
  for (const redis of [toMaster, toReplica]) await redis.config('SET', 'requirepass', '');
  const link = await startProxy(t, master.url);
  const address = await startProxy(t, master.url);
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

for (let time = 1; time <= TIMES; time++) {
  t.test(`REDIS_REPLICAS=1 loses nothing, ${time} of ${TIMES}`, { timeout: 120_000 }, async (t) => {
    const { lost, refused } = await failOver(t, 1);
    t.equal(lost, 0);
    t.ok(refused > 0, 'while the link was severed writes were refused');
  });
}

// Else the test above would show nothing.
t.test('without it what came in between is lost', { timeout: 120_000 }, async (t) => {
  const { lost } = await failOver(t, 0);
  t.ok(lost > 0);
});

t.test('a process that only reads waits for no replica', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const writer = await startApp(t, redis);
  const guests = Array.from({ length: 20 }, (_, n) => ({ sessionId: `seen-${n}` }));
  for (const guest of guests) await writer.shop.visit(guest);
  // There is none, so that what waits for one is refused.
  const env = { REDIS_REPLICAS: '1' };
  const reader = await startApp(t, redis, { prefix: writer.prefix, timeoutMs: 1_000, env });
  for (const guest of guests)
    t.equal(await until('it is read', () => reader.shop.count(guest).catch(() => undefined)), 1);
  t.notMatch(await client.info('commandstats'), /^cmdstat_wait:/m);
  await t.rejects(reader.shop.visit({ sessionId: 'new' }), /503/, 'a visit is refused');
  t.match(await client.info('commandstats'), /^cmdstat_wait:/m);
});

/** Moves that are called off. */
const ROUNDS = FULL ? 20 : 1;
/** ioredis would send again for 1.6 s, longer than the time-out. */
const LATE_MS = 2_000;
const SLOTS = 16_384;

t.test('a cluster whose slots are on the move', { timeout: 200_000 }, async (t) => {
  const cluster = await startTestCluster(t);
  const nodes = connectToEach(t, cluster.urls);
  const ids = await Promise.all(nodes.map(async (node) => String(await node.call('CLUSTER', 'MYID'))));
  const app = await startApp(t, cluster, { timeoutMs: Number(MOST_PATIENT_MS) });

  /** The slot of a profile, the number of the node that has it, and of another one. */
  const placeOf = (profileId: string) => {
    const slot = slotOf(`{${profileId.slice(0, profileId.indexOf('.'))}}`);
    const from = Math.floor((slot * nodes.length) / SLOTS);
    return { slot, from, to: (from + 1) % nodes.length };
  };
  const setSlot = (node: number, slot: number, ...words: string[]) =>
    nodes[node]?.call('CLUSTER', 'SETSLOT', slot, ...words);
  const startMove = async ({ slot, from, to }: ReturnType<typeof placeOf>) => {
    await setSlot(to, slot, 'IMPORTING', ids[from] as string);
    await setSlot(from, slot, 'MIGRATING', ids[to] as string);
  };
  /** Sent again while it gets 503, as clients do: the machine may be slow. */
  const done = (path: string, body: object) =>
    until(`${path} is done`, async () => {
      const answer = await app.post(path, body, TRUSTED);
      if (answer.status !== 200 && answer.status !== 503) throw new Error(answer.text);
      return answer.status === 200 && answer;
    });

  // Only the service sends anything again, and a script refuses what comes after its deadline.
  t.test(`a change that got 503 is not applied after later ones, ${ROUNDS} times`, async (t) => {
    const late = [];
    for (let round = 0; round < ROUNDS; round++) {
      const identity = { sessionId: `m${round}` };
      const other = { ...ITEM, identity, productId: '7' };
      const { profileId } = (await done('/item/add', other)).json;
      await done('/item/remove', { identity, productId: '7' });
      const place = placeOf(profileId);
      await startMove(place);
      const refused = await app.post('/item/add', { ...ITEM, identity }, TRUSTED);
      t.match(refused, { status: 503, json: { code: 'unavailable' } }, 'add while the slot is on the move');
      await setSlot(place.from, place.slot, 'STABLE');
      await setSlot(place.to, place.slot, 'STABLE');
      await done('/item/add', { ...ITEM, identity });
      await done('/item/remove', { identity, productId: '1001' });
      late.push(identity);
    }
    await sleep(LATE_MS);
    for (const identity of late)
      t.same(await app.shop.items(identity), [], `${identity.sessionId}: the item stays away`);
  });

  t.test('a slot that has moved is found at its new node, and its visits go on', async (t) => {
    const identity = { sessionId: 'moved' };
    const visit = () => done('/product/visit?count=true', { identity, productHandle: 'x' });
    const { profileId } = (await visit()).json;
    const place = placeOf(profileId);
    const [from, to] = [nodes[place.from], nodes[place.to]];
    await startMove(place);
    const { host = '', port = 0 } = to?.options ?? {};
    const keys = (await from?.call('CLUSTER', 'GETKEYSINSLOT', place.slot, 1_000)) as string[];
    t.ok(keys.length > 0);
    await from?.call('MIGRATE', host, port, '', 0, 5_000, 'KEYS', ...keys);
    for (const i of nodes.keys()) await setSlot(i, place.slot, 'NODE', ids[place.to] as string);
    t.ok((await visit()).json.count >= 2, 'MOVED is followed, and the count goes on');
    await until('it is ready', async () => (await app.get('/readyz')).status === 200);
  });
});

t.test('with REDIS_REPLICAS a visit counts once while the mark of its node is on the move', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'wm-replicas-'));
  const cluster = await redisCluster(dir);
  await cluster.start();
  t.teardown(async () => {
    await cluster.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const urls = cluster.nodes.slice(0, 3).map(({ port }) => `redis://127.0.0.1:${port}`);
  const nodes = connectToEach(t, urls);
  const slots = await slotsOf(nodes, urls);
  const nodeOf = (key: string) => Math.floor((slotOf(key) * nodes.length) / SLOTS);
  const app = await startApp(t, { urls }, { timeoutMs: 3_000, env: { REDIS_REPLICAS: '1' } });
  const keys = createKeys(app.prefix);
  const fields = await Promise.all(nodes.map((node) => node.hkeys(keys.meta).catch(() => [])));
  const [mark = 0] = fields.flat().flatMap((name) => Number(/^marker:(.+)$/.exec(name)?.[1] ?? []) || []);
  const [slot, from] = [slotOf(keys.nodeMarker(mark)), nodeOf(keys.nodeMarker(mark))];
  const to = (from + 1) % nodes.length;
  // Reading makes nothing, and tells where a visitor will be.
  let visitor = { sessionId: '', identity: '' };
  for (let i = 0; nodeOf(visitor.identity) !== from || slotOf(visitor.identity) === slot; i++) {
    const sessionId = `s${i}`;
    const { json } = await app.get(withQuery('/product/visit', { sessionId, productHandle: 'x' }));
    visitor = { sessionId, identity: keys.identity(json.profileId) };
  }
  const visit = { identity: { sessionId: visitor.sessionId }, productHandle: 'x' };
  t.equal((await app.post('/product/visit', visit)).status, 200);
  await slots.start(slot, from, to);
  // Its batch has its record there still, and is done; then replicas are waited for with a write to the mark.
  const { port } = new URL(urls[to] as string);
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
