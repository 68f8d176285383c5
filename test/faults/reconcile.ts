// The reckoning: what was acknowledged, what is in Redis, what is in ClickHouse. Every acknowledged event is in
// `events` once, no event is there twice, nothing is there that was not sent, and nothing waits; visits are at
// least what was acknowledged and at most what was sent.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Entry } from './load.js';
import { connectRedisAt } from './redis-at.js';

export interface Places {
  readonly url: string;
  readonly key: string;
  /** As REDIS_URL: several, comma-separated, are a cluster. */
  readonly redisUrl: string;
  readonly clickhouseUrl: string;
}

/** What was sent and what was acknowledged; see Load. */
export interface Book {
  readonly events: ReadonlyMap<string, Entry>;
  readonly visits: ReadonlyMap<string, Entry>;
  readonly faults: readonly string[];
}

export interface Reckoning {
  readonly events: { readonly sent: number; readonly acknowledged: number; readonly shown: number };
  readonly visits: { readonly sent: number; readonly acknowledged: number; readonly counted: number };
  /** Rows stored beyond those shown: inserts that the table's window no longer knew. */
  readonly hidden: number;
  /** What is wrong, in words; empty where nothing is. */
  readonly wrong: readonly string[];
}

const DRAIN_MS = 60_000;
const READERS = 16;

/** Fails `t` with what is wrong; says what was counted. The load must have stopped. */
export async function expectExact(t: Test, loads: readonly Book[], places: Places): Promise<Reckoning> {
  const reckoning = await reconcile(loads, places);
  const { events, visits, hidden, wrong } = reckoning;
  t.same(
    loads.flatMap(({ faults }) => faults),
    [],
    'no answer was wrong',
  );
  t.same(
    wrong,
    [],
    `events: ${events.sent} sent, ${events.acknowledged} acknowledged, ${events.shown} shown (${hidden} stored twice); ` +
      `visits: ${visits.sent} sent, ${visits.acknowledged} acknowledged, ${visits.counted} counted`,
  );
  return reckoning;
}

/** Waits until nothing is under way, and compares. */
export async function reconcile(loads: readonly Book[], places: Places): Promise<Reckoning> {
  const wrong: string[] = [];
  const tell = (what: string) => wrong.length < 50 && wrong.push(what);
  for (const what of await untilDrained(places)) tell(what);

  const sent = new Map(loads.flatMap(({ events }) => [...events]));
  const { shown, stored } = await readEvents(places);
  for (const [id, count] of shown) {
    if (!sent.has(id)) tell(`event ${id} is there, and was not sent`);
    else if (count !== 1) tell(`event ${id} is there ${count} times`);
  }
  let acknowledged = 0;
  for (const [id, entry] of sent) {
    acknowledged += entry.acknowledged;
    if (entry.acknowledged > 0 && !shown.has(id)) tell(`event ${id} was acknowledged and is lost`);
  }

  const visits = { sent: 0, acknowledged: 0, counted: 0 };
  const entries = loads.flatMap((load) => [...load.visits]);
  await Promise.all(
    Array.from({ length: READERS }, async () => {
      for (let next = entries.pop(); next !== undefined; next = entries.pop()) {
        const [key, entry] = next;
        const count = await readCount(places, key);
        visits.sent += entry.sent;
        visits.acknowledged += entry.acknowledged;
        if (count === undefined) {
          tell(`${key}: its visits can't be read`);
          continue;
        }
        visits.counted += count;
        if (count < entry.acknowledged || count > entry.sent)
          tell(`${key}: ${count} visits counted, ${entry.acknowledged} acknowledged, ${entry.sent} sent`);
      }
    }),
  );
  return {
    events: { sent: sent.size, acknowledged, shown: shown.size },
    visits,
    hidden: stored - [...shown.values()].reduce((sum, n) => sum + n, 0),
    wrong,
  };
}

/** Waits until nothing is left in the stream; answers what is wrong with it then. */
async function untilDrained({ redisUrl }: Places): Promise<string[]> {
  const keys = createKeys('wm');
  const redis = connectRedisAt(redisUrl);
  const deadline = performance.now() + DRAIN_MS;
  try {
    for (;;) {
      const [length, state, dead] = await Promise.all([
        redis.xlen(keys.events(0)),
        redis.hgetall(keys.eventsState(0)),
        redis.xlen(keys.eventsDead(0)),
      ]);
      const { events = '0', bytes = '0', manifest } = state;
      const isEmpty = length === 0 && manifest === undefined;
      if (isEmpty && events === '0' && bytes === '0' && dead === 0) return [];
      if (isEmpty && dead === 0)
        return [`nothing waits in the stream, but its figures say ${events} events of ${bytes} bytes`];
      if (performance.now() > deadline)
        return [`not drained after ${DRAIN_MS} ms: ${length} entries, ${dead} dead letters`];
      await sleep(50);
    }
  } finally {
    redis.disconnect();
  }
}

async function readEvents({
  clickhouseUrl,
}: Places): Promise<{ shown: Map<string, number>; stored: number }> {
  const clickhouse = createClickHouse(clickhouseUrl, 'wishmeter');
  const ask = async <Row>(query: string): Promise<Row[]> =>
    await (await clickhouse.query({ query, format: 'JSONCompactEachRow' })).json<Row>();
  try {
    const rows = await ask<[string, number]>(
      "SELECT if(type = 'remove', 'r', '') || product_id AS id, toUInt32(count()) FROM events GROUP BY id",
    );
    const [[stored] = [0]] = await ask<[number]>(
      "SELECT toUInt32(count()) FROM events_stored WHERE origin != 'merge'",
    );
    return { shown: new Map(rows), stored };
  } finally {
    await clickhouse.close();
  }
}

async function readCount({ url, key }: Places, visit: string): Promise<number | undefined> {
  const [sessionId = '', productHandle = ''] = visit.split(' ');
  const query = new URLSearchParams({ sessionId, productHandle });
  for (let attempt = 0; attempt < 200; attempt++) {
    const answer = await fetch(`${url}/product/visit?${query}`, { headers: { 'x-api-key': key } }).catch(
      () => undefined,
    );
    if (answer?.status === 200) return ((await answer.json()) as { count: number }).count;
    await sleep(50);
  }
  return undefined;
}
