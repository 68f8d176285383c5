// Every acknowledged visit and event is in a stream once, on every layout of slots and while slots move.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createKeys, PROFILE_KINDS } from '../../src/redis/keys.js';
import { slotOf } from '../../src/redis/node-markers.js';
import { startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { connectToEach, startTestCluster, type TestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import { ITEM } from '../harness/shop.js';
import { slotsOf } from '../harness/slots.js';
import { loggedVisits, rowsOf } from '../harness/stream.js';
import { until } from '../harness/until.js';
import { add, startServer } from '../wishlist/fixtures.js';

const SLOTS = 16_384;
const VISITORS = 60;
const WHILE_MOVING_MS = 300;
const visitors = Array.from({ length: VISITORS }, (_, i) => ({ sessionId: `s${i}` }));

/** Every visitor visits a product and saves it, in alternating order. A 503 is sent again. */
async function act(app: TestApp, round: number): Promise<void> {
  if (round % 2 === 1) await wish(app, round);
  await Promise.all(
    visitors.map((identity) =>
      until('the visit is counted', async () => {
        const { status, text } = await app.post('/product/visit', { identity, productHandle: `p${round}` });
        if (status !== 200 && status !== 503) throw new Error(text);
        return status === 200;
      }),
    ),
  );
  if (round % 2 === 0) await wish(app, round);
}

/** Every visitor saves the product and then records an event; a 503 is sent again under its key. */
async function wish(app: TestApp, round: number): Promise<void> {
  const send = async (path: string, body: object, key: string) => {
    const headers = { ...TRUSTED, 'idempotency-key': `${path} ${key}` };
    await until(`${path} ${key}`, async () => {
      const { status, text } = await app.post(path, body, headers);
      if (status !== 200 && status !== 503) throw new Error(text);
      return status === 200;
    });
  };
  await Promise.all(
    visitors.map(async (identity) => {
      const key = `${round} ${identity.sessionId}`;
      await send('/item/add', { ...ITEM, identity, productId: `${round}` }, key);
      await send('/event', { identity, type: 'share' }, key);
    }),
  );
}

async function expectAll(t: Test, app: TestApp, cluster: TestRedis, rounds: number): Promise<void> {
  await until('all visits are logged', async () => (await logged(cluster, app)) >= rounds * VISITORS);
  t.equal(await logged(cluster, app), rounds * VISITORS);
  const rows = await rowsOf(cluster, app);
  t.equal(rows.length, 2 * rounds * VISITORS, 'an event of each kind');
  t.equal(new Set(rows.map((row) => row['event_id'])).size, rows.length);
  for (const identity of visitors)
    t.equal((await app.shop.items(identity)).length, rounds, identity.sessionId);
}

async function logged(cluster: TestRedis, app: TestApp): Promise<number> {
  return (await loggedVisits(cluster, app)).flat().length;
}

t.test('visits and events are recorded once on masters that have alternating slots', async (t) => {
  const cluster = await startTestCluster(t, { isRagged: true });
  const app = await startApp(t, cluster);
  await act(app, 1);
  await expectAll(t, app, cluster, 1);
});

t.test(
  'visits and events are recorded once while slots of streams and of visitors move',
  { timeout: 180_000 },
  async (t) => {
    const cluster = await startTestCluster(t);
    const nodes = connectToEach(t, cluster.urls);
    const slots = await slotsOf(nodes, cluster.urls);
    const app = await startApp(t, cluster);
    const keys = createKeys(app.prefix);
    const nodeOf = (slot: number) => Math.floor((slot * nodes.length) / SLOTS);
    await act(app, 1);
    const named = await Promise.all(nodes.map((node) => node.hkeys(keys.meta).catch(() => [])));
    const streams = named.flat().flatMap((name) => /^marker:(\d+)$/.exec(name)?.[1] ?? []);
    t.equal(streams.length + 1, nodes.length, 'each node has a stream');
    const moving = [...streams.map((stream) => slotOf(keys.events(Number(stream)))), slotOf(keys.meta)];
    const ofVisitors = await Promise.all(
      visitors.map(async (identity) => {
        const { json } = await app.get(withQuery('/product/visit', { ...identity, productHandle: 'x' }));
        return slotOf(keys.counts(json.profileId));
      }),
    );
    let round = 1;
    for (const slot of moving) {
      const from = nodeOf(slot);
      const to = (from + 1) % nodes.length;
      // Together with a slot of visitors of the same node.
      const theirs = ofVisitors.find((one) => nodeOf(one) === from && !moving.includes(one)) as number;
      for (const one of [slot, theirs]) await slots.start(one, from, to);
      // Either the sender channel has moved, so that no script runs, or only the streams have.
      const stream = slot === slotOf(keys.meta) ? 0 : Number(streams[moving.indexOf(slot)]);
      const ofStream = [keys, keys.visits].flatMap(({ events, eventsState }) => [
        events(stream),
        eventsState(stream),
      ]);
      const { port } = new URL(cluster.urls[to] as string);
      if (slot === moving[0]) await slots.moveKeys(slot, from, to);
      else await nodes[from]?.call('MIGRATE', '127.0.0.1', port, '', 0, 5_000, 'KEYS', ...ofStream);
      const acting = act(app, ++round);
      await sleep(WHILE_MOVING_MS);
      for (const one of [slot, theirs]) await slots.moveKeys(one, from, to);
      await sleep(WHILE_MOVING_MS);
      for (const one of [slot, theirs]) await slots.moveKeys(one, from, to);
      for (const one of [slot, theirs]) await slots.end(one, to);
      await slots.settled();
      await acting;
      await act(app, ++round);
      await slots.move(theirs, to, from);
    }
    await expectAll(t, app, cluster, round);
    t.notMatch(await app.stats(), /visits_not_logged_total [1-9]/);
  },
);

t.test('facts of a guest whose keys are migrating are stored once all of them have moved', async (t) => {
  const cluster = await startTestCluster(t);
  const nodes = connectToEach(t, cluster.urls);
  const slots = await slotsOf(nodes, cluster.urls);
  const server = await startServer(t, cluster, 'facts', { guestsS: 3_600 });
  const { keys } = server.store;
  const who = identityOf({ sessionId: 's', email: 'a@b.example' });
  await server.counter.enter('visit', who, true, 'x');
  await add(server, who);
  const profileId = await server.profiles.keep(who, true, true);
  const slot = slotOf(keys.counts(profileId));
  const from = Math.floor((slot * nodes.length) / SLOTS);
  const to = (from + 1) % nodes.length;
  const ofGuest = keys.allOf(profileId).slice(0, PROFILE_KINDS.length);
  // They expire soon, so that the next write sets another expiry.
  for (const key of ofGuest) t.equal(await nodes[from]?.pexpire(key, 600_000), 1);
  await slots.start(slot, from, to);
  const { port } = new URL(cluster.urls[to] as string);
  await nodes[from]?.call('MIGRATE', '127.0.0.1', port, keys.items(profileId), 0, 5_000);
  const kept = server.profiles.keep(who, true, true).then(
    () => 'kept',
    (error) => `${error}`,
  );
  await sleep(WHILE_MOVING_MS);
  await slots.moveKeys(slot, from, to);
  await slots.end(slot, to);
  await slots.settled();
  t.equal(await kept, 'kept');
  const ends = await Promise.all(ofGuest.map((key) => nodes[to]?.pexpiretime(key)));
  t.equal(new Set(ends).size, 1, 'all end together');
});
