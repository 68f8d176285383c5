// What was erased from Redis goes from streams, dead letters and ClickHouse, and what came after it stays; also where a
// flusher is killed in the middle. FAULTS=full: at more moments.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { pino } from 'pino';
import t from 'tap';
import { VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { insertEvents, insertVisits } from '../../src/clickhouse/insert.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeEvent, encodeMerge } from '../../src/events/row.js';
import { eraseWaiting } from '../../src/flush/eraser.js';
import { withoutErased } from '../../src/flush/erasures.js';
import { EVERY_PROFILE } from '../../src/identity-rules.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';
import type { EraserProcessSpec } from '../faults/eraser-process.js';
import { FULL } from '../faults/service.js';
import { startTestRedis } from '../harness/redis.js';
import { lineOf as eventLine, eventRow, fixedShards, until } from './fixtures.js';
import { openPipelines, type Pipeline } from './pipelines.js';

const ERASER = new URL('../faults/eraser-process.js', import.meta.url);
const APPEND = loadScript('append');
const ERASURES = loadScript('erasures');
const [GONE, STAYS] = ['1a.sAAAAAAAAAAAAAAAA', '1b.cBBBBBBBBBBBBBBBB'] as const;
const NOBODY = {
  customerId: null,
  sessionId: 's',
  device: null,
  locale: null,
  email: null,
  firstName: null,
  lastName: null,
};
const lineOf = (profileId: string, at: number) =>
  encodeEvent({ type: 'add', origin: 'event', profileId, identity: NOBODY, payload: {}, at });

t.test('lines of who was erased are left out, up to then', async (t) => {
  const erasures = new Map([[GONE, { held: '', until: { server: 1_000, redis: 1_000 } }]]);
  const [old, same, later, other] = [
    lineOf(GONE, 999),
    lineOf(GONE, 1_000),
    lineOf(GONE, 1_001),
    lineOf(STAYS, 5),
  ] as const;
  const without = (...lines: string[]) => withoutErased(Buffer.from(lines.join('')), erasures).toString();
  t.equal(without(old, same), '');
  t.equal(without(other, old, later, same, other), other + later + other);
  t.equal(without('no JSON\n', old), 'no JSON\n');
  const all = Buffer.from(old);
  t.equal(withoutErased(all, new Map()), all, 'nothing is looked at where no visitor was erased');
});

/** Rows of both in every table, before the erasure and, of events, long after it. */
async function fill({ clickhouse }: Pipeline, before: number): Promise<void> {
  const never = new AbortController().signal;
  const lines = [GONE, STAYS].flatMap((profile_id, n) => [
    ...[before, before + 3_600_000].map((at) =>
      eventLine(eventRow({ profile_id, product_id: '1', occurred_at: new Date(at).toISOString() })),
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

t.test('streams, dead letters and ClickHouse', async (t) => {
  const pipelines = await openPipelines(await startTestRedis());
  t.teardown(() => pipelines.close());
  const { redis } = pipelines;
  let batch = 0;

  const append = async ({ keys }: Pipeline, ...lines: string[]) => {
    const touched = [keys.lane('e0', 'test'), keys.events(0), keys.eventsState(0)];
    const args = [++batch, Number.MAX_SAFE_INTEGER, 60, 1e9, lines.length, lines.join('')];
    await runScript(redis, APPEND, touched, args);
  };
  const erase = ({ keys }: Pipeline, profileId: string, now = Date.now()) =>
    runScript(redis, ERASURES, [keys.erasures], [Number.MAX_SAFE_INTEGER, now, profileId]);
  const profilesOf = async ({ clickhouse }: Pipeline) => {
    const answer = await clickhouse.query({
      query: 'SELECT profile_id FROM events_stored ORDER BY profile_id, occurred_at',
      format: 'JSONEachRow',
    });
    return (await answer.json<{ profile_id: string }>()).map(({ profile_id }) => profile_id);
  };
  const run = ({ keys, clickhouse, shards }: Pipeline) =>
    eraseWaiting({ redis, keys, clickhouse, shards: fixedShards(shards), log: pino({ level: 'silent' }) }, 0);
  const untilErased = (pipeline: Pipeline) =>
    until('the erasure is due', async () => (await run(pipeline)) > 0);

  t.test('what waits does not reach ClickHouse, what is there goes, what comes after stays', async (t) => {
    const pipeline = await pipelines.fresh();
    const before = Date.now();
    await append(pipeline, lineOf(GONE, before), lineOf(STAYS, before));
    const first = pipeline.flusher();
    await pipeline.drained();
    await first.close();
    t.same(await profilesOf(pipeline), [GONE, STAYS]);

    await append(pipeline, lineOf(GONE, before + 1), lineOf(STAYS, before + 1));
    await erase(pipeline, GONE, before + 2);
    t.equal(await run(pipeline), 0, 'while an older entry waits it is not due');
    await append(pipeline, lineOf(GONE, before + 3));
    const second = pipeline.flusher();
    await pipeline.drained();
    await second.close();
    t.equal((await profilesOf(pipeline)).length, 4, 'one of the two that waited was left out');

    await untilErased(pipeline);
    t.same(await profilesOf(pipeline), [GONE, STAYS, STAYS]);
    t.equal(await redis.exists(pipeline.keys.erasures), 0);
    t.equal(await run(pipeline), 0, 'again: nothing to do');
  });

  t.test('an erasure that is written down again while it is done is done again', async (t) => {
    const pipeline = await pipelines.fresh();
    await erase(pipeline, GONE, 5);
    await erase(pipeline, GONE, 3);
    t.match(await redis.hget(pipeline.keys.erasures, GONE), /^5 /, 'time goes on only');
    const stale = (await redis.hget(pipeline.keys.erasures, GONE)) as string;
    await erase(pipeline, GONE, 7);
    await runScript(redis, loadScript('erasure-done'), [pipeline.keys.erasures], [GONE, stale]);
    t.match(await redis.hget(pipeline.keys.erasures, GONE), /^7 /);
  });

  t.test('an erasure of all of the shop: every row up to then, and none after it', async (t) => {
    const pipeline = await pipelines.fresh();
    const before = Date.now();
    await append(pipeline, lineOf(GONE, before), lineOf(STAYS, before));
    const first = pipeline.flusher();
    await pipeline.drained();
    await first.close();
    await append(pipeline, lineOf(GONE, before + 1), lineOf(STAYS, before + 3));
    await erase(pipeline, EVERY_PROFILE, before + 2);
    const second = pipeline.flusher();
    await pipeline.drained();
    await second.close();
    t.equal((await profilesOf(pipeline)).length, 3, 'one that waited was left out');
    await untilErased(pipeline);
    t.same(await profilesOf(pipeline), [STAYS]);
  });

  t.test('dead letters of who was erased go, others stay', async (t) => {
    const pipeline = await pipelines.fresh();
    const dead = pipeline.keys.eventsDead(0);
    const letter = (line: string) =>
      redis.xadd(dead, '*', 'code', '1', 'reason', '', 'time', '0', 'line', line);
    await letter(lineOf(GONE, 1).trimEnd());
    await letter(lineOf(STAYS, 1).trimEnd());
    await erase(pipeline, GONE);
    await untilErased(pipeline);
    const left = await redis.xrange(dead, '-', '+');
    t.equal(left.length, 1);
    t.match(JSON.stringify(left), STAYS);
  });

  t.test('where ClickHouse is away the erasure waits', async (t) => {
    const pipeline = await pipelines.fresh();
    await erase(pipeline, GONE);
    await pipeline.clickhouse.command({ query: 'RENAME TABLE events_stored TO events_away' });
    await t.rejects(until('the erasure is due', async () => (await run(pipeline)) > 0));
    t.equal(await redis.hexists(pipeline.keys.erasures, GONE), 1);
    await pipeline.clickhouse.command({ query: 'RENAME TABLE events_away TO events_stored' });
    await untilErased(pipeline);
  });

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
      const child = fork(ERASER, [JSON.stringify(spec)], { execArgv: [] });
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
});
