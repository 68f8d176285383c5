// Batches of each format and for each node: their bounds, what a script may touch, and slots that migrate. All is done once.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster, Redis } from 'ioredis';
import t from 'tap';
import { ownLocation } from '../../src/redis/location.js';
import { LUA } from '../../src/redis/lua-codes.js';
import { slotOf } from '../../src/redis/node-markers.js';
import { type VisitEntry, visitFormat } from '../../src/visits/visit-batch.js';
import { type Change, type PendingEvent, WishlistBatch } from '../../src/wishlist/wishlist-batch.js';
import { connectTo, connectToEach, startTestCluster, startTestRedis } from '../harness/redis.js';
import { slotsOf } from '../harness/slots.js';
import { openStore } from '../harness/store.js';
import { until } from '../harness/until.js';

const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
const BUCKETS = 60;
const NODES = 3;
const SLOTS = 16_384;
const HANDLE = 'red-shoe';
/** How long a slot stays half migrated: batches must wait, as Redis asks by TRYAGAIN. */
const WHILE_MOVING_MS = 200;
const MOVES = 12;
const VISITS = 1_000;
t.test('batches on a cluster', { timeout: 120_000 }, async (t) => {
  const cluster = await startTestCluster(t);
  const nodes = connectToEach(t, cluster.urls);
  const slots = await slotsOf(nodes, cluster.urls);
  const store = await openStore(t, cluster, {
    buckets: BUCKETS,
    onError: (error) => t.comment(error.message),
  });
  const sizes: number[] = [];
  const batcher = store.batcher(visitFormat({ keys: store.keys, maxProducts: 10_000, guestsS: 0 }), (size) =>
    sizes.push(size),
  );
  t.teardown(() => batcher.close());
  t.beforeEach(() => {
    sizes.length = 0;
  });

  const nodeOf = (slot: number) => Math.floor((slot * NODES) / SLOTS);
  const locations = Array.from({ length: BUCKETS }, (_, bucket) => {
    const tag = bucket.toString(36);
    const slot = slotOf(`{${tag}}`);
    return { tag, slot, node: nodeOf(slot), profileId: `${tag}.s1` };
  });
  type Location = (typeof locations)[number];
  const enter = (
    { profileId }: Pick<Location, 'profileId'>,
    kind: 'visit' | 'count' | 'read' | 'reset' | 'peek' = 'count',
  ) => batcher.run({ kind, handle: HANDLE, device: null, ...ownLocation(profileId) });
  const enterAll = (kind?: Parameters<typeof enter>[1]) =>
    Promise.all(locations.map((location) => enter(location, kind)));
  const { start: startMove, moveKeys, end: endMove, settled: allKnowTheEpoch, move } = slots;
  const portOf = (node: number) => new URL(cluster.urls[node] as string).port;
  const anotherNode = (node: number) => (node + 1) % NODES;
  const atNode = (node: number) => locations.filter((location) => location.node === node);

  t.test('operations of one tick are one call for each node, whatever their slots', async (t) => {
    const ones = locations.map(() => 1);
    t.same(await enterAll(), ones);
    t.equal(sizes.length, NODES);
    t.equal(sum(sizes), BUCKETS);
    t.same(await enterAll('read'), ones, 'and so are reads');
  });

  t.test('an operation whose slot has moved, and migrates again, is done once', async (t) => {
    const [moved] = atNode(0) as [Location];
    const before = (await enter(moved, 'read')) as number;
    await move(moved.slot, 0, 1);
    await startMove(moved.slot, 1, 2);
    t.equal(await enter(moved), before + 1);
    await endMove(moved.slot, 1);
    await allKnowTheEpoch();
    t.equal(await enter(moved, 'read'), before + 1);
    await move(moved.slot, 1, 0);
  });

  t.test('a batch whose reply is lost is done once while its record migrates', async (t) => {
    const at = slotOf(store.keys.events(store.streamAt(store.addressOf((locations[0] as Location).tag))));
    const [location] = atNode(nodeOf(at)).filter(({ slot }) => slot !== at) as [Location];
    const [from, to] = [location.node, anotherNode(location.node)];
    const before = (await enter(location, 'read')) as number;
    const [ours] = (store.client as Cluster)
      .nodes('master')
      .filter(({ options }) => String(options.port) === portOf(from)) as [Redis];
    ours.stream.pause();
    const answer = enter(location);
    const identity = store.keys.counts(location.profileId);
    await until('it is counted', async () => Number(await nodes[from]?.hget(identity, HANDLE)) > before);
    await startMove(at, from, to);
    await moveKeys(at, from, to);
    ours.stream.destroy();
    await sleep(WHILE_MOVING_MS);
    await endMove(at, to);
    await allKnowTheEpoch();
    t.equal(await answer, before + 1);
    t.equal(await enter(location, 'read'), before + 1);
    await move(at, to, from);
  });

  t.test("a linked session's visit waits until every key of its customer has migrated", async (t) => {
    const [{ tag, slot }] = atNode(2) as [Location];
    const [profileId, session] = [`${tag}.c234567890123456`, '1.s1'];
    const { keys } = store;
    const from = nodes[2] as Redis;
    await from.hset(keys.members(profileId), session, '1.a known s:1\n');
    await from.hset(keys.counts(profileId), HANDLE, 7);
    const to = anotherNode(2);
    await startMove(slot, 2, to);
    await from.call('MIGRATE', '127.0.0.1', portOf(to), keys.members(profileId), 0, 5_000);
    const answer = batcher.run({
      profileId,
      session,
      linkId: '1.a',
      kind: 'count',
      handle: HANDLE,
      device: null,
    });
    await sleep(WHILE_MOVING_MS);
    await moveKeys(slot, 2, to);
    await endMove(slot, to);
    await allKnowTheEpoch();
    t.equal(await answer, 8);
    await move(slot, to, 2);
  });

  for (const kind of ['profile', 'items', 'members'] as const)
    t.test(
      `a visit of a guest whose key of ${kind} has migrated is done once, when all keys have`,
      async (t) => {
        const [stays, { tag, slot }] = atNode(2) as [Location, Location];
        const { keys } = store;
        const profileId = `${tag}.${kind}`;
        const from = nodes[2] as Redis;
        for (const keyOf of [keys.counts, keys.profile, keys.items, keys.members])
          await from.hset(keyOf(profileId), HANDLE, 7);
        await from.expire(keys.counts(profileId), 600); // as under another GUEST_RETENTION_DAYS: the next write corrects it
        const before = (await enter(stays, 'read')) as number;
        const to = anotherNode(2);
        await startMove(slot, 2, to);
        await from.call('MIGRATE', '127.0.0.1', portOf(to), keys[kind](profileId), 0, 5_000);
        const answers = Promise.allSettled([enter(stays), enter({ profileId }), enter(stays)]);
        await sleep(WHILE_MOVING_MS);
        await moveKeys(slot, 2, to);
        await endMove(slot, to);
        await allKnowTheEpoch();
        const values = (await answers).map((one) =>
          one.status === 'fulfilled' ? one.value : `${one.reason}`,
        );
        t.same(values, [before + 1, 8, before + 2]);
        t.equal(await nodes[to]?.ttl(keys.counts(profileId)), -1);
        await move(slot, to, 2);
      },
    );

  t.test('a reset of the last key of a migrating slot is done, with the rest of its batch', async (t) => {
    const [stays, moves] = atNode(2) as [Location, Location];
    const one = { profileId: `${moves.tag}.s2` };
    const before = (await enter(stays, 'read')) as number;
    await enter(one, 'visit');
    const to = anotherNode(2);
    await startMove(moves.slot, 2, to);
    const answers = Promise.allSettled([enter(stays), enter(one, 'reset'), enter(stays)]);
    await sleep(WHILE_MOVING_MS);
    await moveKeys(moves.slot, 2, to);
    await endMove(moves.slot, to);
    await allKnowTheEpoch();
    const values = (await answers).map((one) => (one.status === 'fulfilled' ? one.value : `${one.reason}`));
    t.same(values, [before + 1, 0, before + 2]);
    t.equal(await enter(stays, 'read'), before + 2);
    t.equal(await enter(one, 'read'), 0);
    t.equal(await enter(one, 'peek'), LUA.GUEST, 'it stays known');
    await move(moves.slot, to, 2);
  });

  t.test('an acknowledged visit is counted once while slots move under load', async (t) => {
    const before = (await enterAll('read')) as number[];
    const acknowledged = locations.map(() => 0);
    const refused = locations.map(() => 0);
    let running = true;
    const visit = async (first: number) => {
      for (let n = first; running; n = (n + 7) % BUCKETS) {
        try {
          await enter(locations[n] as Location, 'visit');
          (acknowledged[n] as number)++;
        } catch {
          (refused[n] as number)++;
        }
      }
    };
    const visitors = Array.from({ length: 32 }, (_, i) => visit(i));
    for (const { slot, node } of locations.slice(0, MOVES)) await move(slot, node, anotherNode(node));
    await until('many are acknowledged', () => sum(acknowledged) >= VISITS);
    running = false;
    await Promise.all(visitors);
    const after = (await enterAll('read')) as number[];
    const counted = after.map((count, i) => count - (before[i] as number));
    const wrong = counted.filter((count, i) => {
      const least = acknowledged[i] as number;
      return count < least || count > least + (refused[i] as number);
    });
    t.same(wrong, [], `${sum(acknowledged)} acknowledged, ${sum(refused)} refused`);
  });
});

// Three of these are too large for one batch, two are not.
const LARGE = 'x'.repeat(100_000);
const PROFILE_ID = '1a.s1';
const EVENT = { id: 'e1', type: 'add', line: '{}\n' };
const LARGE_EVENT: PendingEvent = { ...EVENT, line: `${LARGE}\n` };
const addition = (large: Partial<Change & { kind: 'add' }>): Change => ({
  kind: 'add',
  field: 'f',
  creationLine: 'b',
  others: 'o',
  event: EVENT,
  ...large,
});
const CHANGES: Record<string, Change> = {
  "an item's creation line": addition({ creationLine: LARGE }),
  "an item's other lines": addition({ others: LARGE }),
  "an item's event": addition({ event: LARGE_EVENT }),
  "a removal's events": { kind: 'remove', items: [{ field: 'f', event: LARGE_EVENT, payload: '' }] },
};
t.test('batches', async (t) => {
  const redis = await startTestRedis(t);
  const store = await openStore(t, redis, { buckets: 16, onError: (error) => t.fail(error.message) });
  const { keys } = store;
  const sizes: number[] = [];
  const onBatch = (size: number) => sizes.push(size);
  t.beforeEach(() => {
    sizes.length = 0;
  });

  for (const [what, change] of Object.entries(CHANGES)) {
    t.test(`three changes that are too large together by ${what} go in two calls`, async (t) => {
      const wishlists = new WishlistBatch(store, { highWater: 1e9 }, onBatch);
      t.teardown(() => wishlists.close());
      await Promise.all([1, 2, 3].map(() => wishlists.make(ownLocation(PROFILE_ID), change)));
      t.same(sizes, [2, 1]);
    });
  }

  t.test('a batch of visit operations is numbered unless all of them only read', async (t) => {
    const client = connectTo(t, redis.url);
    const batch = store.batcher(visitFormat({ keys, maxProducts: 3, guestsS: 0 }), onBatch);
    t.teardown(() => batch.close());
    type Kind = VisitEntry['kind'];
    const at = (kind: Kind, handle = 'x') => ({ kind, handle, device: 'tv', ...ownLocation('1.s1') });
    const cases: [numbered: boolean, kinds: Kind[]][] = [
      [false, ['read']],
      [false, ['peek']],
      [false, ['read', 'peek', 'read']],
      [true, ['visit']],
      [true, ['count']],
      [true, ['reset']],
      [true, ['resolve']],
      [true, ['read', 'reset', 'read']],
      [true, ['peek', 'visit']],
    ];
    for (const [isNumbered, kinds] of cases) {
      for (const key of await client.keys('*:channel:*')) await client.del(key);
      sizes.length = 0;
      await Promise.all(kinds.map((kind) => batch.run(at(kind))));
      t.same(sizes, [kinds.length], `${kinds}: one batch`);
      const { length } = await client.keys('*:channel:*');
      t.equal(length, isNumbered ? 1 : 0, `${kinds}: numbered ${isNumbered}`);
    }
  });
});
