// Several flushers on a Redis Cluster: each row is brought once, also the rows of one that dies, and new streams are found.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import t, { type Test } from 'tap';
import type { Flusher, FlusherSpec } from '../../src/flush/flusher.js';
import { streamsOf } from '../../src/redis/marks.js';
import type { ProcessSpec } from '../faults/flusher-process.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestCluster } from '../harness/redis.js';
import { appendEvents, eventRows, nameStreams, pendingOf, until } from './fixtures.js';
import { openPipelines, type Pipeline } from './pipelines.js';

const PROGRAM = new URL('../faults/flusher-process.js', import.meta.url);

interface Row {
  readonly occurred_at: string;
  readonly profile_id: string;
  readonly product_handle: string;
  readonly device: string;
}

const server = await startTestCluster(t);
const pipelines = await openPipelines(t, server);
const { redis } = pipelines;

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

t.test(
  'three flushers beside each other bring each event once, and new streams are found without a restart',
  async (t) => {
    const pipeline = await pipelines.fresh(6);
    await redis.hdel(pipeline.keys.meta, ...[2, 3, 4, 5].map((number) => `mark:${number}`));
    const brought = [0, 0, 0];
    const flushers = brought.map((_, i) =>
      flusherOf(t, pipeline, {
        onStep: (step) => {
          if (step === 'acknowledged') brought[i] = (brought[i] as number) + 1;
        },
      }),
    );
    for (let round = 0; round < 20; round++) {
      if (round === 10) await nameStreams(redis, pipeline.keys, 6);
      await fill(pipeline);
    }
    await pipeline.drained();
    await Promise.all(flushers.map((flusher) => flusher.close()));
    t.same(await pipeline.counts(), { stored: 600, shown: 600, ids: 600 }, 'nothing was inserted twice');
    t.ok(
      brought.every((batches) => batches > 0),
      `batches of each: ${brought}`,
    );
  },
);

t.test('entries that a killed flusher had read are brought by another one', async (t) => {
  const pipeline = await pipelines.fresh(4);
  await fill(pipeline);
  const spec: ProcessSpec = { ...pipeline.processSpec, at: { step: 'read', signal: 'SIGKILL' } };
  const killed = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => killed.kill('SIGKILL'));
  await once(killed, 'exit');
  flusherOf(t, pipeline, { abandonedMs: 300 });
  await pipeline.drained();
  t.match(await pipeline.counts(), { shown: 20, ids: 20 });
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
