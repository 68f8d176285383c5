// A flusher that is killed in the middle of an erasure from ClickHouse: the erasure stays queued, and the next flusher
// finishes it, whichever tables were done. Rows of other visitors, and later ones, stay. FAULTS=full: more moments.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { pino } from 'pino';
import t from 'tap';
import { VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { insertEvents, insertVisits } from '../../src/clickhouse/insert.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { eraseWaiting } from '../../src/flush/eraser.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';
import { eventRow, fixedShards, lineOf, until } from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { startTestRedis } from '../harness/redis.js';
import type { EraserProcessSpec } from './eraser-process.js';
import { FULL } from './service.js';

const PROGRAM = new URL('./eraser-process.js', import.meta.url);
const ERASURES = loadScript('erasures');
const [GONE, STAYS] = ['1a.sAAAAAAAAAAAAAAAA', '1b.cBBBBBBBBBBBBBBBB'] as const;

const pipelines = await openPipelines(await startTestRedis());
t.teardown(() => pipelines.close());
const { redis } = pipelines;

/** Rows of both in every table, before the erasure and, of events, long after it. */
async function fill({ clickhouse }: Pipeline, before: number): Promise<void> {
  const never = new AbortController().signal;
  const lines = [GONE, STAYS].flatMap((profile_id, n) => [
    ...[before, before + 3_600_000].map((at) =>
      lineOf(eventRow({ profile_id, product_id: '1', occurred_at: new Date(at).toISOString() })),
    ),
    encodeMerge(newEventId(before + n), before, profile_id, '1c.cCCCCCCCCCCCCCCCC'),
  ]);
  await insertEvents(clickhouse, Buffer.from(lines.join('')), 'events', never);
  const visits = [GONE, STAYS].map((id, n) => `${before / 1_000}\t0\t1\t${n}\t${id}\that\t\n`);
  await insertVisits(clickhouse, Buffer.from(visits.join('')), 'visits', never);
}

async function rowsOf({ clickhouse }: Pipeline, id: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { name, profile, isHash } of VISITOR_TABLES) {
    const answer = await clickhouse.query({
      query: `SELECT toUInt32(count()) AS n FROM ${name} WHERE ${profile} = ${isHash ? `sipHash64('${id}')` : `'${id}'`}`,
      format: 'JSONEachRow',
    });
    counts[name] = (await answer.json<{ n: number }>())[0]?.n ?? -1;
  }
  return counts;
}

const ALL = VISITOR_TABLES.length;
const KILLS: readonly Pick<EraserProcessSpec, 'mutation' | 'when'>[] = [
  { mutation: 1, when: 'meanwhile' },
  { mutation: ALL, when: 'after' },
  ...(FULL
    ? ([
        { mutation: 1, when: 'before' },
        { mutation: 3, when: 'after' },
      ] as const)
    : []),
];

for (const { mutation, when } of KILLS) {
  t.test(`kill -9 ${when} mutation ${mutation} of ${ALL}: the next flusher finishes it`, async (t) => {
    const pipeline = await pipelines.freshDatabase();
    const before = Date.now() - 1_000;
    await fill(pipeline, before);
    const all = await rowsOf(pipeline, STAYS);
    t.ok(Object.values(all).every((n) => n > 0));
    t.same(await rowsOf(pipeline, GONE), all);
    const { erasures } = pipeline.keys;
    await runScript(redis, ERASURES, [erasures], [Number.MAX_SAFE_INTEGER, Date.now(), GONE]);

    const spec: EraserProcessSpec = {
      redisUrls: pipelines.redisUrls,
      prefix: pipeline.prefix,
      clickhouseUrl: pipelines.clickhouseUrl,
      database: pipeline.database,
      mutation,
      when,
    };
    const child = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
    t.teardown(() => child.kill('SIGKILL'));
    const [, signal] = await once(child, 'exit');
    t.equal(signal, 'SIGKILL');
    t.equal(await redis.hexists(erasures, GONE), 1, 'it is still written down');

    const log = pino({ level: 'silent' });
    const { keys, clickhouse } = pipeline;
    await until('it is finished', async () => {
      return (await eraseWaiting({ redis, keys, clickhouse, shards: fixedShards(1), log }, 0)) === 1;
    });
    t.equal(await redis.exists(erasures), 0);
    const later = {
      ...Object.fromEntries(VISITOR_TABLES.map(({ name }) => [name, 0])),
      events_stored: 1,
      steps_stored: 1,
    };
    t.same(await rowsOf(pipeline, GONE), later, 'only what came later is left');
    t.same(await rowsOf(pipeline, STAYS), all);
  });
}
