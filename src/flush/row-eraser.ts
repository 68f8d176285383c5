// Erases from ClickHouse, from dead letters and from deliveries what was erased from Redis, all that waits at once, every
// ERASURE_INTERVAL_S. Every flusher does so: doing it twice is doing it once, and a crash in the middle leaves the
// erasures written down for the next one.
//
// An erasure is due once no older entry waits in any stream: a batch that was begun before it knew of the erasure is in
// ClickHouse by then.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { eraseRows } from '../clickhouse/erase.js';
import { isIdentityName } from '../clickhouse/erased-rows.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys, StreamKeys } from '../redis/keys.js';
import { streamsOf } from '../redis/marks.js';
import { loadScript, runScript } from '../redis/scripts.js';
import { dropDeadLetters, listDeadLetters } from './dead-letters.js';
import { type Erasure, isErased, readErasures } from './erasures.js';

const DONE = loadScript('erasure-done');
const PAGE = 100;
const AT_ONCE = 500;
/** Milliseconds that a line may be under way to a stream after its time was taken. */
const UNDER_WAY_MS = 10_000;

export interface EraserSpec {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly clickhouse: ClickHouseClient;
  /** Of ClickHouse; by default one server. */
  readonly cluster?: string;
  readonly log: Logger;
  /** Drops what waits for receivers of what was erased. */
  readonly eraseDeliveries?: (erasures: ReadonlyMap<string, Erasure>) => Promise<void>;
  /** Told how many profiles were erased. */
  readonly onErased?: (profiles: number) => void;
}

/**
 * @param underWayMs as above
 * @returns the number of profiles and identities whose rows are gone now
 * @throws Redis's and ClickHouse's errors
 */
export async function eraseWaiting(spec: EraserSpec, underWayMs = UNDER_WAY_MS): Promise<number> {
  const { redis, keys, clickhouse, log } = spec;
  const erasures = await readErasures(redis, keys);
  if (erasures.size === 0) return 0;
  const oldest = await oldestWaiting(spec);
  // What is due waits in no stream: its dead letters are there by now.
  await eraseDeadLetters(spec, erasures);
  // Identities first: a compliance request is closed once the profiles of its visitor are done.
  const due = [...erasures]
    .filter(([, { until }]) => until.redis + underWayMs < oldest)
    .sort(([a], [b]) => Number(isIdentityName(b)) - Number(isIdentityName(a)));
  if (due.length === 0) return 0;
  // Now: what is due was handed over before it left its stream, and comes no more.
  await spec.eraseDeliveries?.(new Map(due));
  await eraseRows(clickhouse, new Map(due), spec.cluster);
  for (let i = 0; i < due.length; i += AT_ONCE) {
    const args = due.slice(i, i + AT_ONCE).flatMap(([what, { held }]) => [what, held]);
    await runScript(redis, DONE, [keys.erasures], args);
  }
  const profiles = due.filter(([what]) => !isIdentityName(what)).length;
  spec.onErased?.(profiles);
  log.info({ profiles }, 'erased from ClickHouse');
  return due.length;
}

/** @returns what ends it, when what is under way is done */
export function watchErasures(spec: EraserSpec, intervalS: number): () => Promise<void> {
  let running: Promise<unknown> = Promise.resolve();
  const run = () => {
    running = running
      .then(() => eraseWaiting(spec))
      .catch((error: Error) =>
        spec.log.warn({ err: error }, 'erasing from ClickHouse failed and will be tried again'),
      );
  };
  run();
  // Twice in that time: what is not due yet is so the next time.
  const timer = setInterval(run, intervalS * 500);
  return async () => {
    clearInterval(timer);
    await running;
  };
}

/** When the oldest entry of all streams came, by Redis's clock; now where none waits. */
async function oldestWaiting(spec: EraserSpec): Promise<number> {
  const { redis } = spec;
  const [seconds, micros] = await redis.time();
  let oldest = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  for (const [keys, number] of await allStreams(spec)) {
    const [first] = await redis.xrange(keys.events(number), '-', '+', 'COUNT', 1);
    if (first !== undefined) oldest = Math.min(oldest, Number.parseInt(first[0], 10));
  }
  return oldest;
}

async function allStreams({ redis, keys }: EraserSpec): Promise<[StreamKeys, number][]> {
  const numbers = await streamsOf(redis, keys);
  return [keys, keys.visits].flatMap((kind) => numbers.map((number): [StreamKeys, number] => [kind, number]));
}

async function eraseDeadLetters(spec: EraserSpec, erasures: ReadonlyMap<string, Erasure>): Promise<void> {
  const { redis } = spec;
  for (const [keys, stream] of await allStreams(spec)) {
    for (let after: string | undefined; ; ) {
      const page = await listDeadLetters(redis, keys, stream, PAGE, after);
      after = page.at(-1)?.id;
      if (after === undefined) break;
      const erased = page.filter(({ line }) => isErased(line, erasures)).map(({ id }) => id);
      await dropDeadLetters(redis, keys, stream, erased);
    }
  }
}
