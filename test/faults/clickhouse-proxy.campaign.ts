// A line to ClickHouse that loses answers, answers nothing, half, or with errors, while events arrive: each
// event once, none given up as a dead letter, back-off seen in the metrics.

import { setTimeout as sleep } from 'node:timers/promises';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import t from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { appendEvents, eventRow, until } from '../flush/fixtures.js';
import { openPipelines } from '../flush/pipelines.js';
import { startTestRedis } from '../harness/redis.js';
import { exception, type Spoiling, startClickHouseProxy } from './clickhouse-proxy.js';
import { FULL } from './service.js';

const pipelines = await openPipelines(await startTestRedis());
t.teardown(() => pipelines.close());
const { redis } = pipelines;

/** Of the flusher's requests; the program's own is a minute. An insert that takes longer on a busy machine is counted. */
const TIMEOUT_MS = 1_000;
/** Each time the flusher waits twice as long before it tries again. */
const TIMES = FULL ? 5 : 2;

const error = (status: number, code: number, text: string, name: string): Spoiling['answer'] => ({
  status,
  code,
  body: exception(code, text, name),
});

const SPOILINGS: readonly { what: string; spoiling: Spoiling }[] = [
  ...(
    [
      ['the answer is lost', 'nothing: the connection closes'],
      ['the answer never comes', 'nothing: the connection stays'],
      ['half a status line', 'half a status line'],
      ['a body that ends early', 'a body that ends early'],
      ['unknown status of insert', error(500, 319, 'Unknown status of insert', 'UNKNOWN_STATUS_OF_INSERT')],
      ['timeout exceeded', error(500, 159, 'Timeout exceeded: elapsed 30 s', 'TIMEOUT_EXCEEDED')],
      ['a gateway gives up', { status: 504, body: '<html><h1>504 Gateway Time-out</h1></html>' }],
    ] as const
  ).flatMap(([what, answer]) => [
    { what: `${what}, after the insert`, spoiling: { forward: true, answer } },
    { what: `${what}, before the insert`, spoiling: { forward: false, answer } },
  ]),
  ...(
    [
      [252, 'Too many parts (3000) in table. Merges are processing significantly slower', 'TOO_MANY_PARTS'],
      [241, 'Memory limit (total) exceeded', 'MEMORY_LIMIT_EXCEEDED'],
      [202, 'Too many simultaneous queries', 'TOO_MANY_SIMULTANEOUS_QUERIES'],
      [243, 'Cannot reserve 1.00 MiB, not enough space', 'NOT_ENOUGH_SPACE'],
      [242, 'Table is in readonly mode', 'TABLE_IS_READ_ONLY'],
      [999, 'Coordination error: Connection loss', 'KEEPER_EXCEPTION'],
      [1002, 'std::exception', 'UNKNOWN_EXCEPTION'],
    ] as const
  ).map(([code, text, name]) => ({
    what: name,
    spoiling: { forward: false, answer: error(500, code, text, name) },
  })),
  {
    what: 'a 200 that has an error in its body, before the insert',
    spoiling: {
      forward: false,
      answer: { status: 200, body: exception(241, 'Memory limit (total) exceeded', 'MEMORY_LIMIT_EXCEEDED') },
    },
  },
];

t.test('a line to ClickHouse that fails', { timeout: 600_000 }, async (t) => {
  const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
  const pipeline = await pipelines.fresh();
  const metrics = new Registry();
  const clickhouse = createClient({
    url: proxy.url,
    database: pipeline.database,
    request_timeout: TIMEOUT_MS,
    log: { level: ClickHouseLogLevel.OFF },
  });
  t.teardown(() => clickhouse.close());
  let sent = 0;
  let running = true;
  const load = (async () => {
    while (running) {
      await appendEvents(
        redis,
        pipeline.keys,
        0,
        Array.from({ length: 20 }, () => eventRow()),
      );
      sent += 20;
      await sleep(10);
    }
  })();
  const flusher = pipeline.flusher({ clickhouse, metrics });
  const errors = async () => {
    const text = await metrics.getSingleMetricAsString('wishmeter_flush_insert_errors_total');
    return [...text.matchAll(/\} (\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
  };

  for (const { what, spoiling } of SPOILINGS) {
    const [failed, inserts] = [await errors(), proxy.inserts];
    const began = performance.now();
    for (let i = 0; i < TIMES; i++) proxy.spoil(spoiling);
    await until(what, () => proxy.waiting === 0);
    await until(`${what}: the failures are counted`, async () => (await errors()) >= failed + TIMES);
    await until(`${what}: inserts go on`, () => proxy.inserts >= inserts + TIMES + 1);
    t.pass(`${what}: ${TIMES} times`);
    // The first wait is 50 to 100 ms, the second twice that.
    t.ok(performance.now() - began > 50 * (2 ** TIMES - 1), 'with a pause before each attempt');
  }
  running = false;
  await load;
  await pipeline.drained();
  await flusher.close();
  t.equal(
    await errors(),
    SPOILINGS.length * TIMES + proxy.abandoned,
    `no insert failed but those that were spoiled, and ${proxy.abandoned} that took longer than ${TIMEOUT_MS} ms`,
  );
  t.ok(sent > 1_000);
  t.match(await pipeline.counts(), { shown: sent, ids: sent }, `${sent} events, each once`);
  t.equal(await redis.xlen(pipeline.keys.eventsDead(0)), 0, 'no dead letter');
});

t.test('a batch that is sent again is what it was, although the next one has been read', async (t) => {
  const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
  const pipeline = await pipelines.fresh(12); // each batch is up to 4 MB
  const clickhouse = createClickHouse(proxy.url, pipeline.database);
  t.teardown(() => clickhouse.close());
  const payload = { note: 'x'.repeat(16_000) };
  const rows = Array.from({ length: 900 }, () => eventRow({ payload }));
  await appendEvents(redis, pipeline.keys, 0, rows, 20);
  const lost: Spoiling = { forward: false, answer: 'nothing: the connection closes' };
  for (let batch = 0; batch < 3; batch++) {
    proxy.spoil(lost);
    proxy.spoil({ forward: true, answer: 'as it is' });
  }
  const flusher = pipeline.flusher({ clickhouse });
  await pipeline.drained();
  await flusher.close();
  t.equal(proxy.inserts, 7, 'four batches, three of them sent twice');
  t.same(await pipeline.counts(), { stored: 900, shown: 900, ids: 900 });
});
