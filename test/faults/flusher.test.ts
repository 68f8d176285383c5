// Flushers that are killed and frozen at exact points, and databases that go away: each event is there once.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { decodeManifest } from '../../src/flush/manifest.js';
import { readBatch } from '../../src/flush/reader.js';
import type { Step } from '../../src/flush/shard-flusher.js';
import { appendEvents, eventRow, pendingOf, until } from '../flush/fixtures.js';
import { openWorld, type Place } from '../flush/world.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import { startStopwatch } from '../harness/stalls.js';
import type { ProcessSpec } from './flusher-process.js';

const PROGRAM = new URL('./flusher-process.js', import.meta.url);
const events = (n: number) => Array.from({ length: n }, () => eventRow());

const world = await openWorld(await startTestRedis());
t.teardown(() => world.close());
const { redis } = world;

/** A flusher in a process of its own. */
function startProcess(t: Test, place: Place, changes: Partial<ProcessSpec> = {}): ChildProcess {
  const spec: ProcessSpec = {
    redisUrls: world.redisUrls,
    prefix: place.prefix,
    shards: place.shards,
    clickhouseUrl: world.clickhouseUrl,
    database: place.database,
    owner: 'process',
    silentMs: 500,
    ...changes,
  };
  const child = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

const manifestOf = (place: Place) => redis.hget(place.keys.eventsState(0), 'manifest');
const ownerOf = (place: Place) => redis.hget(place.keys.eventsState(0), 'owner');

/** What must be true at the moment of the kill, so that the test is known to have hit its point. */
const KILLS: readonly { step: Step; stored: number; manifest: boolean; waiting: number }[] = [
  { step: 'prepared', stored: 0, manifest: true, waiting: 200 },
  { step: 'inserted', stored: 200, manifest: true, waiting: 200 },
  { step: 'finalized', stored: 200, manifest: false, waiting: 0 },
];

for (const { step, stored, manifest, waiting } of KILLS) {
  for (const owner of ['the same flusher, started again', 'another flusher']) {
    t.test(`kill -9 once ${step}, then ${owner}: each event once`, async (t) => {
      const place = await world.fresh();
      await appendEvents(redis, place.keys, 0, events(200));
      const child = startProcess(t, place, { owner: 'a', at: { step, signal: 'SIGKILL' } });
      const [, signal] = await once(child, 'exit');
      t.equal(signal, 'SIGKILL');
      t.equal((await place.counts()).stored, stored);
      t.equal((await manifestOf(place)) !== null, manifest);
      t.equal((await pendingOf(redis, place.keys, 0)).events, waiting);

      // New events must not change the batch that is replayed.
      await appendEvents(redis, place.keys, 0, events(50));
      const flusher = place.flusher(
        // Its own shard it has at once; another's when that one has been silent for long enough.
        owner.startsWith('another') ? { owner: 'b', silentMs: 1_000 } : { owner: 'a', silentMs: 600_000 },
      );
      await place.drained();
      await flusher.close();
      t.same(await place.counts(), { stored: 250, shown: 250, ids: 250 });
    });
  }
}

t.test('killed at any moment, again and again, while events arrive: each once', async (t) => {
  const place = await world.fresh(2);
  let sent = 0;
  for (let round = 0; round < 8; round++) {
    const child = startProcess(t, place);
    await once(child, 'message');
    const until = performance.now() + 30 + Math.random() * 300;
    while (performance.now() < until) {
      await Promise.all([0, 1].map((shard) => appendEvents(redis, place.keys, shard, events(100), 25)));
      sent += 200;
    }
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  const flusher = place.flusher({ owner: 'process' });
  await place.drained();
  await flusher.close();
  t.ok(sent > 1_000);
  t.same(await place.counts(), { stored: sent, shown: sent, ids: sent });
});

/** A flusher freezes with a batch in its hands, another takes over, and the first one wakes up. */
async function freezeAndTakeOver(t: Test, step: Step): Promise<void> {
  const place = await world.fresh();
  await appendEvents(redis, place.keys, 0, events(200));
  const child = startProcess(t, place, { owner: 'older', at: { step, signal: 'SIGSTOP' } });
  await until('the older one has a batch in flight', async () => (await manifestOf(place)) !== null);
  const newer = place.flusher({ owner: 'newer', silentMs: 500 });
  await place.drained();
  await appendEvents(redis, place.keys, 0, events(30));
  await place.drained();
  child.kill('SIGCONT');
  await appendEvents(redis, place.keys, 0, events(30));
  await place.drained();
  // Awake, it stands by: it has the shard again only when the newer one lets go.
  await newer.close();
  await until('the older one owns it', async () => (await ownerOf(place)) === 'older');
  await appendEvents(redis, place.keys, 0, events(30));
  await place.drained();
  child.kill('SIGTERM');
  t.same(await once(child, 'exit'), [0, null]);
  t.same(await place.counts(), { stored: 290, shown: 290, ids: 290 });
}

for (const step of ['prepared', 'inserted'] as const) {
  t.test(`frozen once ${step} and taken over: the older is fenced off, nothing is there twice`, (t) =>
    freezeAndTakeOver(t, step),
  );
}

t.test(
  'an insert that arrives after the table has forgotten its token is stored again and shown once',
  async (t) => {
    const place = await world.fresh();
    const { clickhouse } = place;
    await appendEvents(redis, place.keys, 0, events(200));
    // What an older flusher has on its way when it is taken over.
    let late: { lines: Buffer; token: string } | undefined;
    const flusher = place.flusher({
      onStep: async (step) => {
        if (step !== 'prepared' || late !== undefined) return;
        const manifest = decodeManifest((await manifestOf(place)) ?? '');
        const batch = await readBatch(redis, place.keys.events(0), manifest);
        late = { lines: batch?.lines ?? Buffer.alloc(0), token: manifest.token };
      },
    });
    await place.drained();
    await clickhouse.command({ query: 'SYSTEM STOP MERGES events_stored' });
    const never = new AbortController().signal;
    const arrive = async () =>
      await insertEvents(clickhouse, late?.lines ?? Buffer.alloc(0), late?.token ?? '', never);
    await arrive();
    t.same(await place.counts(), { stored: 200, shown: 200, ids: 200 }, 'the token is remembered');

    const forget = 'ALTER TABLE events_stored MODIFY SETTING non_replicated_deduplication_window = 1';
    await clickhouse.command({ query: forget });
    await appendEvents(redis, place.keys, 0, events(30));
    await place.drained();
    await arrive();
    await flusher.close();
    t.same(await place.counts(), { stored: 430, shown: 230, ids: 230 }, 'the second line of defence');
  },
);

/** A ClickHouse that is this case's alone, for stopping and killing. */
async function ownClickHouse(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'wm-own-'));
  let server = await startTestClickHouse({ dir, databases: ['shop'] });
  const { url } = server;
  const clickhouse = createClickHouse(url, 'shop');
  t.teardown(async () => {
    await clickhouse.close();
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  return {
    clickhouse,
    pid: () => server.pid,
    stop: () => server.stop(),
    async start() {
      server = await startTestClickHouse({ dir, port: Number(new URL(url).port) });
    },
    async counts() {
      const query = `SELECT toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids,
        toUInt32((SELECT count() FROM events_stored)) AS stored FROM events`;
      const answer = await clickhouse.query({ query, format: 'JSONEachRow' });
      return (await answer.json<{ shown: number; ids: number; stored: number }>())[0];
    },
  };
}

t.test('ClickHouse goes away and comes back: everything is there, once', async (t) => {
  const own = await ownClickHouse(t);
  const place = await world.fresh();
  const flusher = place.flusher({ clickhouse: own.clickhouse });
  await appendEvents(redis, place.keys, 0, events(100));
  await place.drained();
  await own.stop();
  await appendEvents(redis, place.keys, 0, events(100));
  await until('the batch is in flight', async () => (await manifestOf(place)) !== null);
  await appendEvents(redis, place.keys, 0, events(100));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  t.equal((await pendingOf(redis, place.keys, 0)).events, 200);

  await own.start();
  await place.drained();
  await flusher.close();
  t.same(await own.counts(), { shown: 300, ids: 300, stored: 300 });
});

t.test('ClickHouse is killed again and again while events arrive: each is shown once', async (t) => {
  const own = await ownClickHouse(t);
  const place = await world.fresh();
  const flusher = place.flusher({ clickhouse: own.clickhouse });
  let sent = 0;
  for (let round = 0; round < 4; round++) {
    const stop = performance.now() + 100 + Math.random() * 300;
    while (performance.now() < stop) {
      await appendEvents(redis, place.keys, 0, events(100), 25);
      sent += 100;
    }
    await until('it is up', () => own.pid() !== undefined);
    process.kill(own.pid() ?? Number.NaN, 'SIGKILL');
  }
  await place.drained();
  await flusher.close();
  t.match(await own.counts(), { shown: sent, ids: sent });
  t.equal(await redis.xlen(place.keys.eventsDead(0)), 0);
});

t.test(
  'close keeps its deadline while ClickHouse is away, and what was in flight stays in Redis',
  async (t) => {
    const place = await world.fresh();
    await appendEvents(redis, place.keys, 0, events(10));
    const unreachable = createClickHouse('http://127.0.0.1:1', place.database);
    t.teardown(() => unreachable.close());
    const flusher = place.flusher({ clickhouse: unreachable });
    await until('the batch is in flight', async () => (await manifestOf(place)) !== null);
    const stopwatch = startStopwatch();
    await flusher.close(300);
    t.ok(stopwatch() < 1_500);
    t.equal((await pendingOf(redis, place.keys, 0)).events, 10);

    const next = place.flusher({ owner: 'next', silentMs: 600_000 });
    await place.drained();
    await next.close();
    t.same(await place.counts(), { stored: 10, shown: 10, ids: 10 });
  },
);

t.test('close lets the batch in flight finish', async (t) => {
  const place = await world.fresh();
  await appendEvents(redis, place.keys, 0, events(10));
  let closing: Promise<void> | undefined;
  const flusher = place.flusher({
    onStep: (step) => {
      if (step === 'prepared') closing = flusher.close();
    },
  });
  await until('closing', () => closing !== undefined);
  await closing;
  t.equal(await manifestOf(place), null);
  t.same(await place.counts(), { stored: 10, shown: 10, ids: 10 });
});

t.test('a materialized view that fails on one row blocks nothing but that row', async (t) => {
  const place = await world.fresh();
  await place.clickhouse.command({
    query: `CREATE MATERIALIZED VIEW picky ENGINE = MergeTree ORDER BY tuple()
      AS SELECT throwIf(profile_id = 'bad') AS x FROM events_stored`,
  });
  await appendEvents(redis, place.keys, 0, [...events(40), eventRow({ profile_id: 'bad' }), ...events(40)]);
  const flusher = place.flusher();
  await place.drained();
  await flusher.close();
  t.equal(await redis.xlen(place.keys.eventsDead(0)), 1);
  // ClickHouse stores a block before it asks the views, so the row itself may be there as well.
  const others = await place.clickhouse.query({
    query: "SELECT toUInt32(count()) AS n FROM events WHERE profile_id != 'bad'",
    format: 'JSONEachRow',
  });
  t.same(await others.json(), [{ n: 80 }]);
});

t.test('Redis is killed and comes back with its append-only file: each event once', async (t) => {
  const server = await startTestRedis({ fsync: 'always' });
  const own = await openWorld(server);
  t.teardown(() => own.close());
  const place = await own.fresh();
  const flusher = place.flusher({ silentMs: 1_000 });
  for (let round = 0; round < 3; round++) {
    await appendEvents(own.redis, place.keys, 0, events(200));
    const [pid] = server.pids;
    if (pid === undefined) throw new Error('no Redis');
    process.kill(pid, 'SIGKILL');
    await until('Redis is back', async () => (await own.redis.ping().catch(() => '')) === 'PONG');
  }
  await place.drained();
  await flusher.close();
  t.same(await place.counts(), { stored: 600, shown: 600, ids: 600 });
});
