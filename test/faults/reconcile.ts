// The check at the end: what was acknowledged, what the service answers, what is in Redis, what is in ClickHouse. Every
// acknowledged event is in `events` once, no event is there twice, nothing is there that was not sent, and nothing waits;
// visits are at least what was acknowledged and at most what was sent.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { streamsOf } from '../../src/redis/node-markers.js';
import type { Entry } from './load.js';

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
/** All faults are over by now: an identity without an answer within this time is locked out. */
const LOCKED_OUT_MS = 10_000;
const READERS = 16;
const MOST_TOLD = 50;

/** A count of a service, asked for again for a while where there is no answer. @throws with the last status */
async function countAt({ url, key }: Pick<Places, 'url' | 'key'>, query: object): Promise<number> {
  const deadline = performance.now() + LOCKED_OUT_MS;
  for (;;) {
    const path = `/product/visit?${new URLSearchParams({ ...query })}`;
    const answer = await fetch(url + path, { headers: { 'x-api-key': key } }).catch(() => undefined);
    if (answer?.status === 200) return ((await answer.json()) as { count: number }).count;
    if (performance.now() > deadline)
      throw new Error(`${answer?.status ?? 'no answer'}: ${await answer?.text()}`);
    await sleep(100);
  }
}

/** Asks ClickHouse once. */
async function rowsOf<Row>(clickhouseUrl: string, query: string): Promise<Row[]> {
  const clickhouse = createClickHouse(clickhouseUrl, 'wishmeter');
  try {
    return await (await clickhouse.query({ query, format: 'JSONCompactEachRow' })).json<Row>();
  } finally {
    await clickhouse.close();
  }
}

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
  const tell = (what: string) => wrong.length < MOST_TOLD && wrong.push(what);
  for (const what of await untilDrained(places)) tell(what);

  const sent = new Map(loads.flatMap(({ events }) => [...events]));
  const { shown, stored } = await readEvents(places.clickhouseUrl);
  for (const [id, count] of shown) {
    if (!sent.has(id)) tell(`event ${id} is there, and was not sent`);
    else if (count !== 1) tell(`event ${id} is there ${count} times`);
  }
  let acknowledged = 0;
  for (const [id, entry] of sent) {
    acknowledged += entry.acknowledged;
    if (entry.acknowledged > 0 && !shown.has(id)) tell(`event ${id} was acknowledged and is lost`);
  }

  return {
    events: { sent: sent.size, acknowledged, shown: shown.size },
    visits: await reconcileVisits(loads, places, tell),
    hidden: stored - [...shown.values()].reduce((sum, n) => sum + n, 0),
    wrong,
  };
}

/** @param tell is called with what is wrong */
export async function reconcileVisits(
  loads: readonly Pick<Book, 'visits'>[],
  service: Pick<Places, 'url' | 'key'>,
  tell: (what: string) => unknown,
): Promise<Reckoning['visits']> {
  const visits = { sent: 0, acknowledged: 0, counted: 0 };
  const check = async ([key, { sent, acknowledged }]: readonly [string, Entry]) => {
    visits.sent += sent;
    visits.acknowledged += acknowledged;
    const [sessionId, productHandle] = key.split(' ');
    const count = await countAt(service, { sessionId, productHandle });
    visits.counted += count;
    if (!(count >= acknowledged && count <= sent))
      tell(`${key}: ${count} visits counted, ${acknowledged} acknowledged, ${sent} sent`);
  };
  const left = loads.flatMap((load) => [...load.visits]);
  const reader = async () => {
    for (let one = left.pop(); one !== undefined; one = left.pop())
      await check(one).catch(({ message }) => tell(`visits can't be read: ${message}`));
  };
  await Promise.all(Array.from({ length: READERS }, reader));
  return visits;
}

/** Waits until nothing is left in the streams; answers what is wrong with them then. */
async function untilDrained({ redisUrl }: Places): Promise<string[]> {
  const keys = createKeys('wm');
  const redis = await connectRedis(
    { urls: redisUrl.split(','), name: 'reconcile', timeoutMs: 5_000 },
    () => {},
  );
  const deadline = performance.now() + DRAIN_MS;
  const stateOf = async (stream: number) => {
    const [length, state, dead] = await Promise.all([
      redis.xlen(keys.events(stream)),
      redis.hgetall(keys.eventsState(stream)),
      redis.xlen(keys.eventsDead(stream)),
    ]);
    return { length, dead, events: Number(state['events'] ?? 0), bytes: Number(state['bytes'] ?? 0) };
  };
  try {
    for (;;) {
      const states = await Promise.all((await streamsOf(redis, keys)).map(stateOf));
      const wrong = states.filter((state) => Object.values(state).some((n) => n !== 0));
      if (wrong.length === 0) return [];
      if (performance.now() > deadline)
        return wrong.map((state) => `not drained after ${DRAIN_MS} ms: ${JSON.stringify(state)}`);
      await sleep(50);
    }
  } finally {
    redis.disconnect();
  }
}

/** Each event that analysts see, and how often; and how many rows are stored. */
async function readEvents(clickhouseUrl: string): Promise<{ shown: Map<string, number>; stored: number }> {
  const rows = await rowsOf<[string, number]>(
    clickhouseUrl,
    "SELECT if(type = 'remove', 'r', '') || product_id AS id, toUInt32(count()) FROM events GROUP BY id",
  );
  const [[stored] = [0]] = await rowsOf<[number]>(
    clickhouseUrl,
    "SELECT toUInt32(count()) FROM events_stored WHERE origin NOT IN ('merge', 'adoption')",
  );
  return { shown: new Map(rows), stored };
}
