// Several flushers share the streams of a Redis Cluster evenly, take over what another leaves, and learn of new shards while
// they run, visitors go on, and two `serve` fill them; what came before a raise arrives before what came after it.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from 'ioredis';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { visitStreams } from '../../src/flush/backlog.js';
import type { Flusher, FlusherSpec } from '../../src/flush/flusher.js';
import { changeOfShare } from '../../src/flush/team.js';
import { EventShards } from '../../src/redis/event-shards.js';
import type { ProcessSpec } from '../faults/flusher-process.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestCluster } from '../harness/redis.js';
import { appendEvents, eventRow, eventRows, lineOf, pendingOf, until } from './fixtures.js';
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

const VISITORS = 8;
const BEFORE = 10;
const AFTER = 10;
/** Each process asks once a second; one that learns of a raise too late would spoil the order. */
const LEAD_MS = 3_000;
const REST_MS = 50;

const server = await startTestCluster(t);
const pipelines = await openPipelines(t, server);
const { redis } = pipelines;

/** Streams by their owner. */
const ownersOf = async ({ keys, shards }: Pipeline, count = shards) => {
  const owned: Record<string, number> = {};
  for (let shard = 0; shard < count; shard++) {
    const owner = await redis.hget(keys.eventsState(shard), 'owner');
    if (owner !== null) owned[owner] = (owned[owner] ?? 0) + 1;
  }
  return owned;
};
const untilOwned = (what: string, pipeline: Pipeline, counts: readonly number[], count?: number) =>
  until(what, async () => {
    const owned = Object.values(await ownersOf(pipeline, count)).sort((a, b) => b - a);
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
  await untilOwned('one has all', pipeline, [6]);
  await fill(pipeline);
  const b = flusherOf(t, pipeline, { owner: 'b', silentMs: 600_000 });
  await untilOwned('two have half each', pipeline, [3, 3]);
  await fill(pipeline);
  const c = flusherOf(t, pipeline, { owner: 'c', silentMs: 600_000 });
  await untilOwned('three a third', pipeline, [2, 2, 2]);
  await fill(pipeline);
  await a.close();
  // Ten minutes of silence would not be over: it said that it leaves.
  await untilOwned('two have all', pipeline, [3, 3]);
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
  await untilOwned('it has all', pipeline, [2]);
  const { meta, eventsState } = pipeline.keys;
  for (const key of [meta, eventsState(0), eventsState(1)]) await redis.del(key);
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
  await until('the other has them', async () => (await ownersOf(pipeline))['next'] === 4);
  await pipeline.drained();
  t.same(await pipeline.counts(), { stored: 20, shown: 20, ids: 20 });
});

t.test('new shards are flushed without a restart, each by one, and evenly', async (t) => {
  const pipeline = await pipelines.fresh(6);
  const shards = risingShards(2);
  const [a, b] = ['a', 'b'].map((owner) => flusherOf(t, pipeline, { owner, shards }));
  await untilOwned('one each', pipeline, [1, 1], 2);
  shards.raise(6, Date.now() - 60_000);
  await untilOwned('three each', pipeline, [3, 3]);
  await fill(pipeline);
  await pipeline.drained();
  t.same(await pipeline.counts(), { stored: 30, shown: 30, ids: 30 });
  await Promise.all([a?.close(), b?.close()]);
});

t.test('a new shard is held back until the old ones are empty of what came before', async (t) => {
  const pipeline = await pipelines.fresh(3);
  const { keys } = pipeline;
  const shards = risingShards(1);
  shards.raise(3, Date.now() - 60_000);
  const before = lineOf(eventRow({ profile_id: 'before' }));
  // From before the raise.
  await redis.xadd(keys.events(0), '1-0', 'n', '1', 'd', before);
  await redis.hset(keys.eventsState(0), { events: 1, bytes: Buffer.byteLength(before) });
  for (const shard of [1, 2]) await appendEvents(redis, keys, shard, [eventRow({ profile_id: 'after' })]);
  // Another flusher has the old shard, and does nothing.
  await redis.hset(keys.eventsState(0), { owner: 'slow', epoch: '1', beat: Date.now() + 600_000 });
  const flusher = flusherOf(t, pipeline, { owner: 'new', shards, silentMs: 600_000 });
  await until('it has the new shards', async () => (await ownersOf(pipeline))['new'] === 2);
  const reads = async () => {
    const infos = (redis as Cluster).nodes('master').map((node) => node.info('commandstats'));
    const calls = (await Promise.all(infos)).map(
      (info) => /^cmdstat_xrange:calls=(\d+)/m.exec(info)?.[1] ?? 0,
    );
    return calls.reduce((sum: number, n) => sum + Number(n), 0);
  };
  const read = await reads();
  await until('it has looked at the old one twice', async () => (await reads()) >= read + 4);
  t.same(await pipeline.counts(), { stored: 0, shown: 0, ids: 0 }, 'what came later waits');
  t.equal((await pendingOf(redis, keys, 1)).events, 1);
  await redis.hdel(keys.eventsState(0), 'owner', 'beat');
  await pipeline.drained();
  t.equal((await pipeline.counts()).shown, 3);
  await flusher.close();
});

t.test('closing does not wait for what is held back, and leaves it in Redis', async (t) => {
  const pipeline = await pipelines.fresh(2);
  const shards = risingShards(1);
  shards.raise(2, Date.now() + 600_000);
  await appendEvents(redis, pipeline.keys, 1, [eventRow()]);
  const flusher = flusherOf(t, pipeline, { owner: 'a', shards });
  await untilOwned('both are owned', pipeline, [2]);
  await flusher.close();
  t.equal((await pendingOf(redis, pipeline.keys, 1)).events, 1);
  t.same(await ownersOf(pipeline), {});
});

t.test('visits are stored once, as the service counted them', async (t) => {
  const pipeline = await pipelines.fresh();
  const app = await startApp(t, { urls: pipelines.redisUrls }, { prefix: pipeline.prefix });
  const streams = await visitStreams(redis, pipeline.keys);
  t.equal(streams.length, 16);
  const flusher = pipeline.flusher({ visitStreams: streams });
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

t.test(
  'while EVENT_SHARDS is raised each event arrives once, and never before earlier ones of its visitor',
  async (t) => {
    const pipeline = await pipelines.fresh(5);
    const apps = [
      await startApp(t, server, { prefix: pipeline.prefix }),
      await startApp(t, server, { prefix: pipeline.prefix }),
    ];
    const open = async () => {
      const shards = await EventShards.open(redis, pipeline.keys);
      t.teardown(shards.watch());
      return shards;
    };
    const raising = await open();
    t.equal(raising.current, 1);
    const flushers = [
      pipeline.flusher({ owner: 'a', shards: await open() }),
      pipeline.flusher({ owner: 'b', shards: await open() }),
    ];
    t.teardown(() => Promise.all(flushers.map((flusher) => flusher.close(0))));

    let isOver = false;
    const gaps: string[] = [];
    let looks = 0;
    const watching = (async () => {
      while (!isOver) {
        const shown = await pipeline.ask<{ session_id: string; seen: number; last: number }>(
          `SELECT session_id, toUInt32(count()) AS seen, toUInt32(max(quantity)) AS last
          FROM events GROUP BY session_id`,
        );
        for (const { session_id, seen, last } of shown)
          if (seen !== last) gaps.push(`${session_id}: event ${last} is there, and ${seen} in all`);
        looks++;
        await sleep(REST_MS);
      }
    })();

    // One after the other, by turns through both processes: what is answered has happened before the next.
    const send = async (sessionId: string, quantity: number) => {
      const body = { identity: { sessionId }, type: 'add', payload: { quantity } };
      await until(`event ${quantity} of ${sessionId}`, async () => {
        const app = apps[quantity % 2];
        // What is refused when this machine is busy is sent again, and is the same event.
        const headers = { ...TRUSTED, 'idempotency-key': `${sessionId} ${quantity}` };
        return (await app?.post('/event', body, headers))?.status === 200;
      });
    };
    const sendAll = (from: number, to: () => boolean | number) =>
      Promise.all(
        Array.from({ length: VISITORS }, async (_, i) => {
          let n = from;
          for (; to() === true || n <= Number(to()); n++) {
            await send(`v${i}`, n);
            await sleep(REST_MS);
          }
          return n - 1;
        }),
      );
    await sendAll(1, () => BEFORE);
    await raising.raise(5, LEAD_MS);
    // Until the new shards are used, however long that takes here.
    let goOn = true;
    const used = until('new shards are used', async () => {
      const states = await Promise.all(
        [1, 2, 3, 4].map((shard) => redis.exists(pipeline.keys.eventsState(shard))),
      );
      return raising.current === 5 && states.some((there) => there === 1);
    }).finally(() => {
      goOn = false;
    });
    const last = await sendAll(BEFORE + 1, () => (goOn ? true : BEFORE + AFTER));
    await used;
    await pipeline.drained();
    isOver = true;
    await watching;
    const sent = last.reduce((sum, n) => sum + n, 0);
    t.match(await pipeline.counts(), { shown: sent, ids: sent });
    t.same(gaps.slice(0, 5), [], `${looks} looks`);
    await Promise.all(flushers.map((flusher) => flusher.close()));
  },
);

/** Shards as src/redis/event-shards.ts tells of them, raised by hand. */
function risingShards(first: number) {
  const raises = [{ shards: first, at: 0 }];
  return {
    raises,
    get all() {
      return raises.at(-1)?.shards ?? 0;
    },
    now: () => Date.now(),
    raise: (shards: number, at: number) => void raises.push({ shards, at }),
  };
}
