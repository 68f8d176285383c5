// Several flushers share the streams evenly, take over what another leaves, and learn of new streams while they run.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { Flusher, FlusherSpec } from '../../src/flush/flusher.js';
import { changeOfShare } from '../../src/flush/team.js';
import type { ProcessSpec } from '../faults/flusher-process.js';
import { startTestRedis } from '../harness/redis.js';
import { appendEvents, eventRows, nameStreams, until } from './fixtures.js';
import { openPipelines, type Pipeline } from './pipelines.js';

const PROGRAM = new URL('../faults/flusher-process.js', import.meta.url);

t.test('shares: in any order of starts, all end with as many streams, and keep them', async (t) => {
  t.equal(changeOfShare(0, [], 16), 16, 'alone: all');
  t.equal(changeOfShare(16, [0], 16), -8, 'half of them for another');
  t.equal(changeOfShare(0, [16], 16), 0, 'who waits until they are free');
  t.equal(changeOfShare(0, [8], 16), 8);
  t.equal(changeOfShare(8, [8], 16), 0);
  t.equal(changeOfShare(2, [2, 0], 4), -1);
  t.equal(changeOfShare(2, [1, 1], 4), 0);
  t.equal(changeOfShare(3, [2], 6), 0, 'a free one goes to the one with fewer');
  t.equal(changeOfShare(2, [3], 6), 1);
  t.equal(changeOfShare(1, [0, 0], 1), 0);
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

t.test('on Redis and ClickHouse', async (t) => {
  const pipelines = await openPipelines(t, await startTestRedis(t));
  const { redis } = pipelines;

  /** Streams by their owner. */
  const ownersOf = async ({ keys, shards }: Pipeline) => {
    const owned: Record<string, number> = {};
    for (const { eventsState } of [keys, keys.visits])
      for (let shard = 0; shard < shards; shard++) {
        const owner = await redis.hget(eventsState(shard), 'owner');
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
      Array.from({ length: pipeline.shards }, (_, shard) =>
        appendEvents(redis, pipeline.keys, shard, eventRows(events)),
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
    const { keys } = pipeline;
    const states = [keys, keys.visits].flatMap(({ eventsState }) => [0, 1].map(eventsState));
    await redis.del(keys.meta, ...states);
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
});
