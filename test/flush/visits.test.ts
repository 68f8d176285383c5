// Visits, from the service to ClickHouse: each row once, as it was counted, whatever fails in between. The machine is that
// of events (pipeline.test.ts, ../faults/); here is what is different: lines that get their entry's id, another table.

import t from 'tap';
import { insertVisits } from '../../src/clickhouse/insert.js';
import { areVisitsStored } from '../../src/clickhouse/stored.js';
import { listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { FencedStream } from '../../src/flush/fenced-stream.js';
import { decodeManifest, manifestOf } from '../../src/flush/manifest.js';
import { cutBatch, readBatch } from '../../src/flush/reader.js';
import { visitLine } from '../../src/visits/visit-log.js';
import { startClickHouseProxy } from '../faults/clickhouse-proxy.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import { pendingOf, until } from './fixtures.js';
import { openPipelines, type Pipeline } from './pipelines.js';

const never = new AbortController().signal;

const shown = async ({ ask }: Pipeline) =>
  (await ask<{ n: number }>('SELECT toUInt32(count()) AS n FROM visits'))[0]?.n;

t.test('on one Redis', async (t) => {
  const pipelines = await openPipelines(t, await startTestRedis(t));
  const { redis } = pipelines;

  /** Appends visits as lua/visits.lua does. */
  async function append({ keys: { visits } }: Pipeline, lines: readonly string[], id = '*'): Promise<void> {
    const text = lines.join('');
    await redis.xadd(visits.events(0), id, 'n', lines.length, 'v', text);
    await redis.hincrby(visits.eventsState(0), 'events', lines.length);
    await redis.hincrby(visits.eventsState(0), 'bytes', Buffer.byteLength(text));
  }
  const linesOf = (n: number, of = 0) =>
    Array.from({ length: n }, (_, i) => visitLine(`${of}.s${i}`, `p${i}`, 'tv'));
  const source = ({ keys }: Pipeline) => ({ stream: keys.visits.events(0), visits: 0 });
  const drained = (pipeline: Pipeline) =>
    until('nothing waits', async () => {
      const { events } = await pendingOf(redis, pipeline.keys.visits, 0);
      return events === 0 && !(await redis.hexists(pipeline.keys.visits.eventsState(0), 'manifest'));
    });

  t.test('a row holds the entry, the place in the entry, and the line', async (t) => {
    const pipeline = await pipelines.fresh();
    await append(pipeline, linesOf(12), '1767225600007-0');
    await append(pipeline, linesOf(1, 1), '1767225600007-3');
    const { lines, rows, bytes } = (await cutBatch(redis, { ...source(pipeline), visits: 5 })) ?? {};
    const texts = [...linesOf(12).map((line, i) => `1767225600.007\t5\t0\t${i}\t${line}`)];
    texts.push(`1767225600.007\t5\t3\t0\t${linesOf(1, 1)}`);
    t.equal(lines?.toString(), texts.join(''));
    t.equal(rows, 13);
    t.equal(
      bytes,
      Buffer.byteLength([...linesOf(12), ...linesOf(1, 1)].join('')),
      'as they are in the stream',
    );
  });

  t.test('the bounds of a batch count what is inserted; a replay reads the same bytes', async (t) => {
    const pipeline = await pipelines.fresh();
    for (let i = 0; i < 30; i++) await append(pipeline, linesOf(50, i));
    let last: string | undefined;
    let rows = 0;
    for (;;) {
      const memory = Buffer.alloc(6_000);
      const batch = await cutBatch(redis, source(pipeline), last, { rows: 1e6, bytes: 6_000 }, memory);
      if (batch === undefined) break;
      t.ok(
        batch.lines.length <= 6_000 && batch.lines.buffer === memory.buffer,
        `${batch.lines.length} bytes`,
      );
      t.equal(batch.lines.toString().split('\n').length, batch.rows + 1);
      const again = await readBatch(redis, source(pipeline), manifestOf(batch));
      t.same(again?.lines, batch.lines);
      last = batch.last;
      rows += batch.rows;
      if (!batch.full) break;
    }
    t.equal(rows, 1_500);
  });

  t.test('an entry that is not ours is a dead letter, also one that claims to be visits', async (t) => {
    const pipeline = await pipelines.fresh();
    const stream = pipeline.keys.visits.events(0);
    await redis.xadd(stream, '*', 'n', 1, 'v', 'a\tb\t\nc\td\t\n');
    await redis.xadd(stream, '*', 'n', 3, 'v', 'a\tb\t\nc\td\t\n');
    await redis.xadd(stream, '*', 'n', 1, 'v', 'no newline');
    await append(pipeline, linesOf(3));
    const flusher = pipeline.flusher();
    await until('the visits are there', async () => (await shown(pipeline)) === 3);
    await flusher.close();
    t.equal((await listDeadLetters(redis, pipeline.keys.visits, 0)).length, 3);
    await redis.xadd(pipeline.keys.events(0), '*', 'n', 1, 'v', 'a\tb\t\n');
    t.match(
      await cutBatch(redis, pipeline.keys.events(0)),
      { rows: 0, foreignEntries: [/a\\tb/] },
      'among events',
    );
  });

  t.test('a bad line is the only dead letter, and sent again it keeps its time', async (t) => {
    const pipeline = await pipelines.fresh();
    const at = '1767225600007-0';
    await append(pipeline, [...linesOf(20), 'only one column\n', ...linesOf(20, 1)], at);
    const flusher = pipeline.flusher();
    await until('the others are there', async () => (await shown(pipeline)) === 40);
    await drained(pipeline);
    const letters = await listDeadLetters(redis, pipeline.keys.visits, 0);
    t.match(letters, [{ line: '1767225600.007\t0\t0\t20\tonly one column' }]);
    // As it would be once its cause is mended.
    const dead = pipeline.keys.visits.eventsDead(0);
    const mended = '1767225600.007\t0\t0\t20\tx.s\tshoe\ttv';
    const id = await redis.xadd(dead, '*', 'code', 0, 'reason', '', 'time', 0, 'line', mended);
    t.equal(await retryDeadLetters(redis, pipeline.keys.visits, 0, [id as string]), 1);
    await until('it is there', async () => (await shown(pipeline)) === 41);
    await flusher.close();
    t.same(await pipeline.ask("SELECT * FROM visits WHERE profile_id = 'x.s'"), [
      { occurred_at: '2026-01-01 00:00:00.007', profile_id: 'x.s', product_handle: 'shoe', device: 'tv' },
    ]);
  });

  t.test('finds whether visits are stored: all, some, none, others in their place', async (t) => {
    const pipeline = await pipelines.fresh();
    const { clickhouse } = pipeline;
    const lines = (n: number, change = '') =>
      Array.from({ length: n }, (_, i) => {
        const at = `${1_767_225_600 + Math.floor(i / 40)}.${String(i % 1_000).padStart(3, '0')}`;
        return `${at}\t0\t${i}\t${i % 7}\t${change}${i}.s\tp\t\n`;
      });
    const stored = lines(3_000);
    await insertVisits(clickhouse, Buffer.from(stored.join('')), 'one', never);
    const holds = (...texts: string[]) => areVisitsStored(clickhouse, Buffer.from(texts.join('')), never);
    t.equal(await holds(...stored), true);
    t.equal(await holds(...stored.slice(0, 1)), true);
    for (const at of [2_499, 2_500])
      t.equal(await holds(...stored.with(at, lines(at + 1, '9')[at] as string)), false, `all but ${at}`);
    t.equal(await holds('no line\n'), false);
    t.equal(await holds("1767225600.000\t0\t0\t0\tx') OR ('' = '\tp\t\n"), false);
  });

  /** Its part of this month is then a duplicate. */
  async function rememberToken(pipeline: Pipeline): Promise<void> {
    const manifest = await redis.hget(pipeline.keys.visits.eventsState(0), 'manifest');
    const { token } = decodeManifest(manifest ?? '');
    const other = `${(Date.now() / 1_000).toFixed(3)}\t0\t0\t0\tother\tp\t\n`;
    await insertVisits(pipeline.clickhouse, Buffer.from(other), token, never);
  }

  for (const [what, forward, isRemembered] of [
    ['an insert that is lost, and whose repeat is taken for a duplicate: its rows are there', false, true],
    ['an answer that is lost: the repeat adds nothing', true, false],
  ] as const)
    t.test(what, async (t) => {
      const pipeline = await pipelines.fresh();
      await pipeline.clickhouse.command({ query: 'SYSTEM STOP MERGES visits_stored' });
      const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
      const clickhouse = connectToClickHouse(t, proxy.url, pipeline.database);
      for (let i = 0; i < 10; i++) await append(pipeline, linesOf(20, i));
      proxy.spoil({ forward, answer: 'nothing: the connection closes' });
      const flusher = pipeline.flusher({
        clickhouse,
        onStep: async (step, _, kind) => {
          if (isRemembered && step === 'prepared' && kind === 'visits') await rememberToken(pipeline);
        },
      });
      await drained(pipeline);
      await flusher.close();
      t.equal(proxy.inserts, isRemembered ? 3 : 2);
      t.ok(proxy.questions > 0, 'rows were looked for');
      const query = "SELECT count() AS n FROM visits_stored WHERE profile_id != 'other'";
      t.same(await pipeline.ask(query), [{ n: '200' }]);
      t.equal(await shown(pipeline), isRemembered ? 201 : 200);
    });

  t.test('a flusher that was killed after its insert: the next one replays, and adds nothing', async (t) => {
    for (const isInserted of [false, true]) {
      const pipeline = await pipelines.fresh();
      await append(pipeline, linesOf(300));
      const shard = new FencedStream(redis, pipeline.keys.visits, 0);
      const claim = await shard.claim('killed', undefined, 0);
      const batch = await cutBatch(redis, source(pipeline));
      if (claim === undefined || batch === undefined) throw new Error('no batch');
      const manifest = manifestOf(batch);
      await shard.prepare(claim.epoch, manifest);
      if (isInserted) await insertVisits(pipeline.clickhouse, batch.lines, manifest.token, never);
      const flusher = pipeline.flusher({ silentMs: 1 });
      await drained(pipeline);
      await flusher.close();
      t.same(await pipeline.ask('SELECT toUInt32(count()) AS n FROM visits_stored'), [{ n: 300 }]);
    }
  });

  t.test(
    'ClickHouse away under load: visits are counted, wait up to the mark, and arrive when it is back',
    async (t) => {
      const pipeline = await pipelines.fresh();
      const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
      const clickhouse = connectToClickHouse(t, proxy.url, pipeline.database);
      for (let i = 0; i < 4; i++) proxy.spoil({ forward: false, answer: { status: 503, body: 'away' } });
      const env = { VISIT_LOG_HIGH_WATER: '20000' };
      const app = await startApp(t, { urls: pipelines.redisUrls }, { prefix: pipeline.prefix, env });
      const flusher = pipeline.flusher({ clickhouse });
      let counted = 0;
      while (proxy.waiting > 0) {
        const visits = Array.from({ length: 100 }, (_, i) => ({
          identity: { sessionId: `away${i}` },
          productHandle: `p${counted % 100}`,
        }));
        const { json } = await app.post('/product/visit/batch?count=true', { visits }, TRUSTED);
        for (const { count } of json.results) t.ok(count > 0);
        counted += json.results.length;
      }
      await drained(pipeline);
      await flusher.close();
      const missed = /^wishmeter_visits_not_logged_total{why="full"} (\d+)$/m.exec(await app.figures())?.[1];
      t.equal(await shown(pipeline), counted - Number(missed), `${counted} counted, ${missed} not logged`);
      t.equal((await listDeadLetters(redis, pipeline.keys.visits, 0)).length, 0);
    },
  );
});
