// Clocks that jump back an hour while the service is under load, and forward again: Redis's, the program's, all of them.
// Ids stay unique, order stays order, each event is there once. (Parts alone: test/flush/pipeline.test.ts
// and stream.test.ts.)
// FAULTS=full: ten times each.

import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { tempDir } from '../cli/wishmeter.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { needs } from '../harness/needs.js';
import { connectTo } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { createFakeClock, type FakeClock, findFaketime, redisByClock } from './fake-clock.js';
import type { Entry } from './load.js';
import type { Book } from './reconcile.js';
import { FULL, KEY, MOST_PATIENT_MS, openService } from './service.js';

const HOUR_S = 3_600;
const TIMES = FULL ? 10 : 1;
const EVENTS_BEFORE = 100;
const EVENTS_AFTER = 200;

const library = findFaketime();
if (library === undefined) {
  t.pass('clocks are not set', needs('libfaketime is missing: apt-get install faketime'));
} else await jump(library);

async function jump(library: string): Promise<void> {
  const dir = await tempDir(t);
  const redisClock = await createFakeClock(library, join(dir, 'redis-clock'));
  const programClock = await createFakeClock(library, join(dir, 'program-clock'));
  process.env['PATH'] = `${await redisByClock(dir, redisClock)}${delimiter}${process.env['PATH']}`;
  const service = await openService(t, {
    workers: 2,
    env: { REDIS_TIMEOUT_MS: MOST_PATIENT_MS, ...programClock.env },
  });
  const redis = connectTo(t, service.redisUrl);
  const clickhouse = connectToClickHouse(t, service.clickhouseUrl, 'wishmeter');
  const books: Book[] = [];

  /** Seconds that Redis's clock is off ours. */
  const redisOff = async () => Math.round(Number((await redis.time())[0]) - Date.now() / 1_000);
  /** Seconds that the program's was set back by, at most, in what was recorded under a name. */
  const recordedOff = async (name: string) => {
    const query = `SELECT toUInt32(dateDiff('second', min(occurred_at), max(occurred_at))) AS s
      FROM events WHERE startsWith(product_id, '${name}')`;
    const rows = await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<{ s: number }>();
    return rows[0]?.s ?? 0;
  };

  const CASES: readonly { what: string; name: string; clocks: readonly FakeClock[] }[] = [
    { what: "Redis's clock", name: 'jr', clocks: [redisClock] },
    { what: "the servers' and the flusher's clock", name: 'jp', clocks: [programClock] },
    // All of them jump in the next test, too.
    ...(FULL ? [{ what: 'all clocks', name: 'ja', clocks: [redisClock, programClock] }] : []),
  ];
  for (const [seed, { what, name, clocks }] of CASES.entries()) {
    t.test(`${what}: back an hour and forward again, ${TIMES} times`, { timeout: 300_000 }, async (t) => {
      const load = service.load({ seed, name });
      books.push(load);
      await load.untilServed();
      for (let i = 0; i < TIMES; i++) {
        await sleep(300);
        await Promise.all(clocks.map((clock) => clock.set(-HOUR_S)));
        const off = await redisOff();
        if (clocks.includes(redisClock)) t.ok(Math.abs(off + HOUR_S) < 5, `Redis is ${off} s off`);
        else t.ok(Math.abs(off) < 5);
        await sleep(700);
        await Promise.all(clocks.map((clock) => clock.set(0)));
      }
      await sleep(300);
      await until('there is something to judge', () => load.acknowledged > 200 * TIMES);
      await load.stop();
      await service.exact(t, ...books);
      const recorded = await recordedOff(name);
      if (clocks.includes(programClock)) t.ok(recorded > HOUR_S - 60, `events ${recorded} s apart`);
      else t.ok(recorded < HOUR_S / 2);
    });
  }

  t.test('all clocks jump back: what is in the stream is in the order of the answers', async (t) => {
    await service.flush.stop(); // so that it stays there
    const load = service.load({ seed: 9, name: 'jx' });
    const events = new Map<string, Entry>();
    books.push(load, { events, visits: new Map(), faults: [] });
    let n = 0;
    let last = Number.POSITIVE_INFINITY; // until all have seen the jump
    for (; n < last; n++) {
      if (n === EVENTS_BEFORE)
        void Promise.all([redisClock, programClock].map((clock) => clock.set(-HOUR_S))).then(() => {
          last = n + EVENTS_AFTER;
        });
      const productId = `jo${n}`;
      const { status } = await fetch(`${service.url}/event`, {
        method: 'POST',
        headers: { 'x-api-key': KEY, 'content-type': 'application/json' },
        body: JSON.stringify({ identity: { sessionId: 'jo' }, type: 'add', payload: { productId } }),
      });
      if (status !== 200) t.fail(`event ${n} got ${status}`);
      events.set(productId, { sent: 1, acknowledged: status === 200 ? 1 : 0 });
    }
    await load.stop();
    const entries = await redis.xrange(createKeys('wm').events(0), '-', '+');
    const ids = entries.map(([id]) => id.split('-').map(Number) as [number, number]);
    const isAfter = ([a, b]: [number, number], [c, d]: [number, number]) => a > c || (a === c && b > d);
    t.ok(
      ids.every((id, i) => i === 0 || isAfter(id, ids[i - 1] as [number, number])),
      `${ids.length} entries, each after the one before`,
    );
    const rows = entries.flatMap(([, fields]) =>
      (fields[fields.indexOf('d') + 1] ?? '')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { event_id: string; occurred_at: number; product_id?: string }),
    );
    t.equal(new Set(rows.map(({ event_id }) => event_id)).size, rows.length, 'each has its own id');
    const mine = rows.filter(({ product_id }) => product_id?.startsWith('jo'));
    t.same(
      mine.map(({ product_id }) => product_id),
      [...events.keys()],
      `${mine.length} in the order in which they were answered`,
    );
    const [from, to] = [mine[0], mine.at(-1)].map((row) => row?.occurred_at ?? 0) as [number, number];
    t.ok(from - to > (HOUR_S - 60) * 1_000, 'although the clock was set back among them');
    await service.flush.start();
    await service.exact(t, ...books);
    await Promise.all([redisClock, programClock].map((clock) => clock.set(0)));
  });
}
