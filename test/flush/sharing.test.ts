// Several flushers share the streams of a Redis Cluster evenly, take over what another leaves, and learn of new ones while
// they run.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { Flusher, FlusherSpec } from '../../src/flush/flusher.js';
import { changeOfShare } from '../../src/flush/team.js';
import { streamsOf } from '../../src/redis/marks.js';
import type { ProcessSpec } from '../faults/flusher-process.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestCluster } from '../harness/redis.js';
import { appendEvents, eventRows, nameStreams, pendingOf, until } from './fixtures.js';
import { openPipelines, type Pipeline } from './pipelines.js';

const PROGRAM = new URL('../faults/flusher-process.js', import.meta.url);

t.test('shares: in any order of starts, all end with as many streams, and keep them', async (t) => {
  for (const [own, others, streams, change] of [
    [0, [], 16, 16],
    [16, [0], 16, -8],
    [0, [16], 16, 0], // until they are free
    [0, [8], 16, 8],
    [8, [8], 16, 0],
    [2, [2, 0], 4, -1],
    [3, [2], 6, 0], // a free one goes to the one with fewer
    [2, [3], 6, 1],
    [1, [0, 0], 1, 0],
  ] as const)
    t.equal(changeOfShare(own, others, streams), change, `${own} beside ${others} of ${streams}`);
  for (let streams = 1; streams <= 40; streams++) {
    for (let flushers = 1; flushers <= 6; flushers++) {
      const owned = Array.from({ length: flushers }, (_, i) => (i === 0 ? streams : 0));
      settle(owned, streams);
      const [least, most] = [Math.min(...owned), Math.max(...owned)];
      t.ok(
        most - least <= 1 && owned.reduce((a, b) => a + b) === streams,
        `${streams} over ${flushers}: ${owned}`,
      );
    }
  }
});

/** Each in turn does what it is told, until none is told to. */
function settle(owned: number[], streams: number): void {
  for (let quiet = 0, turn = 0; quiet < owned.length && turn < 10_000; turn++) {
    const i = turn % owned.length;
    const own = owned[i] as number;
    const others = owned.filter((_, other) => other !== i);
    const free = streams - owned.reduce((a, b) => a + b);
    const change = Math.min(changeOfShare(own, others, streams), free);
    owned[i] = own + change;
    quiet = change === 0 ? quiet + 1 : 0;
  }
}

interface Row {
  readonly occurred_at: string;
  readonly profile_id: string;
  readonly product_handle: string;
  readonly device: string;
}

const server = await startTestCluster(t);
const pipelines = await openPipelines(t, server);
const { redis } = pipelines;

/** Streams by their owner. */
const ownersOf = async ({ keys, streams }: Pipeline) => {
  const owned: Record<string, number> = {};
  for (const { eventsState } of [keys, keys.visits])
    for (let stream = 0; stream < streams; stream++) {
      const owner = await redis.hget(eventsState(stream), 'owner');
      if (owner !== null) owned[owner] = (owned[owner] ?? 0) + 1;
    }
  return owned;
};
const untilOwned = (what: string, pipeline: Pipeline, counts: readonly number[]) =>
  until(what, async () => {
    const owned = Object.values(await ownersOf(pipeline)).sort((a, b) => b - a);
    return owned.join() === counts.join();
  });
const flusherOf = (t: Test, pipeline: Pipeline, changes: Partial<FlusherSpec>): Flusher => {
  const flusher = pipeline.flusher(changes);
  t.teardown(() => flusher.close(0));
  return flusher;
};
const fill = (pipeline: Pipeline, events = 5) =>
  Promise.all(
    Array.from({ length: pipeline.streams }, (_, stream) =>
      appendEvents(redis, pipeline.keys, stream, eventRows(events)),
    ),
  );

t.test('two have half each, three a third; what one leaves at its close is taken at once', async (t) => {
  const pipeline = await pipelines.fresh(6);
  const a = flusherOf(t, pipeline, { owner: 'a', silentMs: 600_000 });
  await untilOwned('one has all', pipeline, [12]);
  await fill(pipeline);
  const b = flusherOf(t, pipeline, { owner: 'b', silentMs: 600_000 });
  await untilOwned('two have half each', pipeline, [6, 6]);
  await fill(pipeline);
  const c = flusherOf(t, pipeline, { owner: 'c', silentMs: 600_000 });
  await untilOwned('three a third', pipeline, [4, 4, 4]);
  await fill(pipeline);
  await a.close();
  // Ten minutes of silence would not be over: it said that it leaves.
  await untilOwned('two have all', pipeline, [6, 6]);
  await fill(pipeline);
  await pipeline.drained();
  await Promise.all([b.close(), c.close()]);
  t.same(await ownersOf(pipeline), {});
  t.same(await pipeline.counts(), { stored: 120, shown: 120, ids: 120 }, 'each event once');
});

t.test('nothing is claimed in a Redis that has lost the deployment', async (t) => {
  const pipeline = await pipelines.fresh(2);
  const logged: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) });
  flusherOf(t, pipeline, { log });
  await untilOwned('it has all', pipeline, [4]);
  const { meta, eventsState, visits } = pipeline.keys;
  const states = [eventsState, visits.eventsState].flatMap((stateOf) => [stateOf(0), stateOf(1)]);
  for (const key of [meta, ...states]) await redis.del(key);
  await until('it was told so', () => logged.filter((line) => line.includes('not hold')).length > 3);
  t.same(await ownersOf(pipeline), {});
});

t.test('what a killed one had is taken over, with its batches', async (t) => {
  const pipeline = await pipelines.fresh(4);
  await fill(pipeline);
  const spec: ProcessSpec = {
    ...pipeline.processSpec,
    owner: 'killed',
    silentMs: 300,
    at: { step: 'prepared', signal: 'SIGKILL' },
  };
  const killed = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => killed.kill('SIGKILL'));
  await once(killed, 'exit');
  flusherOf(t, pipeline, { owner: 'next', silentMs: 300 });
  await until('the other has them', async () => (await ownersOf(pipeline))['next'] === 8);
  await pipeline.drained();
  t.same(await pipeline.counts(), { stored: 20, shown: 20, ids: 20 });
});

t.test('new streams are flushed without a restart, each by one, and evenly', async (t) => {
  const pipeline = await pipelines.fresh(6);
  await redis.hdel(pipeline.keys.meta, ...[2, 3, 4, 5].map((number) => `mark:${number}`));
  const [a, b] = ['a', 'b'].map((owner) => flusherOf(t, pipeline, { owner }));
  await untilOwned('two each', pipeline, [2, 2]);
  await nameStreams(redis, pipeline.keys, 6);
  await untilOwned('six each', pipeline, [6, 6]);
  await fill(pipeline);
  await pipeline.drained();
  t.same(await pipeline.counts(), { stored: 30, shown: 30, ids: 30 });
  await Promise.all([a?.close(), b?.close()]);
});

t.test('visits are stored once, as the service counted them', async (t) => {
  const pipeline = await pipelines.fresh();
  const app = await startApp(t, { urls: pipelines.redisUrls }, { prefix: pipeline.prefix });
  const streams = await streamsOf(redis, pipeline.keys);
  t.equal(streams.length, 3, 'one for each master');
  const flusher = pipeline.flusher();
  const began = Date.now();
  const expected: Record<string, number> = {};
  for (let round = 0; round < 3; round++) {
    const visits = Array.from({ length: 100 }, (_, i) => ({
      identity: { sessionId: `s${i}`, device: `back\\slash ${round % 2}` },
      productHandle: i === 0 ? '\\'.repeat(255) : `ü"'\\N${i % 7}`,
    }));
    const { json } = await app.post('/product/visit/batch', { visits }, TRUSTED);
    for (const [i, { profileId }] of json.results.entries()) {
      const { productHandle, identity } = visits[i] as (typeof visits)[number];
      const row = [profileId, productHandle, identity.device].join(' ');
      expected[row] = (expected[row] ?? 0) + 1;
    }
  }
  const read = () => pipeline.ask<Row>('SELECT * FROM visits');
  await until('all are there', async () => (await read()).length === 300);
  await flusher.close();
  const rows = await read();
  const found: Record<string, number> = {};
  for (const { profile_id, product_handle, device } of rows) {
    const row = [profile_id, product_handle, device].join(' ');
    found[row] = (found[row] ?? 0) + 1;
  }
  t.same(found, expected);
  const times = rows.map(({ occurred_at }) => Date.parse(`${occurred_at.replace(' ', 'T')}Z`));
  t.ok(Math.min(...times) >= began - 2 && Math.max(...times) <= Date.now() + 2, 'at their times');
  for (const stream of streams) {
    t.same(await pendingOf(redis, pipeline.keys.visits, stream), { events: 0, bytes: 0 });
    t.equal(await redis.xlen(pipeline.keys.visits.events(stream)), 0);
  }
  t.same(await pipeline.counts(), { stored: 0, shown: 0, ids: 0 }, 'and no event');
});
