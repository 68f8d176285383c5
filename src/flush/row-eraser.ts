// Executes erasures in ClickHouse, dead letters and deliveries. Every flusher runs it; all steps are idempotent, and an
// erasure is forgotten only after all its parts.
// An erasure is due once all entries that were present IN_FLIGHT_MS after it was read have left the streams. This
// compares stream ids, not clocks: ids run ahead of a clock that was set back.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { pause } from '../backoff.js';
import { eraseRows } from '../clickhouse/erase.js';
import { type Erasures, isCustomerKey } from '../clickhouse/erased-rows.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys, StreamKeys } from '../redis/keys.js';
import { streamsOf } from '../redis/node-markers.js';
import { loadScript, runScript } from '../redis/scripts.js';
import { repeat } from '../repeat.js';
import { together } from '../together.js';
import { dropDeadLetters, listDeadLetters } from './dead-letters.js';
import { isErased, readErasures } from './erasures.js';
import { erasureMetrics } from './metrics.js';

const FORGET = loadScript('redis/changeField');
const LETTERS_PER_PAGE = 100;
const ERASURES_PER_PAGE = 2_000;
const NO_LIMIT = Number.MAX_SAFE_INTEGER;
/** Milliseconds allowed for a line to reach its stream, and then for the entries to reach ClickHouse. */
const IN_FLIGHT_MS = 10_000;
const POLL_MS = 100;

export interface EraserSpec {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly clickhouse: ClickHouseClient;
  readonly cluster?: string;
  readonly eraseDeliveries?: ((erasures: Erasures) => Promise<void>) | undefined;
  readonly signal?: AbortSignal;
}

type Stream = readonly [keys: StreamKeys, number: number];

/** @returns finished erasures, by name @throws the first error, after all other parts were tried */
export async function eraseWaiting(spec: EraserSpec, inFlightMs = IN_FLIGHT_MS): Promise<string[]> {
  const { redis, keys, clickhouse, cluster, eraseDeliveries = async () => {} } = spec;
  const erasures = await readErasures(redis, keys);
  if (erasures.size === 0) return [];
  const numbers = await streamsOf(redis, keys);
  const streams = [keys, keys.visits].flatMap((kind) => numbers.map((n): Stream => [kind, n]));
  if (!(await areFlushed(spec, streams, inFlightMs))) return [];
  // From now on, no line that these erasures cover can become a dead letter or a delivery.
  const letters = streams.map((stream) => eraseDeadLetters(redis, stream, erasures));
  const parts = await Promise.allSettled([...letters, eraseDeliveries(erasures)]);
  const failures = parts.flatMap((part) => (part.status === 'rejected' ? [part.reason] : []));
  const done: string[] = [];
  for (const page of pagesOf(erasures)) {
    try {
      await eraseRows(clickhouse, page, cluster);
      if (failures.length > 0) continue;
      // Keeps erasures that have changed since they were read.
      const forget = ([what, held]: readonly [string, string]) =>
        runScript(redis, FORGET, [keys.erasures], [NO_LIMIT, what, held, '', NO_LIMIT]);
      await together([...page].map(forget));
      done.push(...page.keys());
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return done;
}

/** Identities come first, because forgetting the profiles closes a compliance request. */
function* pagesOf(erasures: Erasures): Generator<Erasures> {
  const isProfile = ([what]: readonly [string, string]) => Number(!isCustomerKey(what));
  const ordered = [...erasures].toSorted((a, b) => isProfile(a) - isProfile(b));
  for (let i = 0; i < ordered.length; i += ERASURES_PER_PAGE)
    yield new Map(ordered.slice(i, i + ERASURES_PER_PAGE));
}

export function watchErasures(
  spec: EraserSpec & { readonly log: Logger; readonly metrics?: Registry },
  intervalS: number,
): () => Promise<void> {
  const { log, metrics = new Registry() } = spec;
  const { erased, failures } = erasureMetrics(metrics);
  // Twice per interval: the first run may find an erasure that is not due yet.
  return repeat(intervalS * 500, async (signal) => {
    try {
      const profiles = (await eraseWaiting({ ...spec, signal })).filter((what) => !isCustomerKey(what));
      erased.inc(profiles.length);
      if (profiles.length > 0) log.info({ profiles: profiles.length }, 'erased from ClickHouse');
    } catch (error) {
      failures.inc();
      log.warn({ err: error }, 'a part of the erasures failed and will be tried again');
    }
  });
}

async function areFlushed(
  { redis, signal = new AbortController().signal }: EraserSpec,
  streams: readonly Stream[],
  inFlightMs: number,
): Promise<boolean> {
  await pause(inFlightMs, signal);
  const ends = await Promise.all(
    streams.map(async ([keys, number]) => {
      const stream = keys.events(number);
      const [last] = await redis.xrevrange(stream, '+', '-', 'COUNT', 1);
      return { stream, last: last?.[0] ?? '-' };
    }),
  );
  for (const deadline = performance.now() + inFlightMs; ; await pause(POLL_MS, signal)) {
    const left = await Promise.all(
      ends.map(({ stream, last }) => redis.xrange(stream, '-', last, 'COUNT', 1)),
    );
    if (signal.aborted) return false;
    if (left.every((entries) => entries.length === 0)) return true;
    if (performance.now() >= deadline) return false;
  }
}

async function eraseDeadLetters(
  redis: RedisClient,
  [keys, stream]: Stream,
  erasures: Erasures,
): Promise<void> {
  for (let after: string | undefined; ; ) {
    const page = await listDeadLetters(redis, keys, stream, { count: LETTERS_PER_PAGE, after });
    after = page.at(-1)?.id;
    if (after === undefined) return;
    const erased = page.filter(({ line }) => isErased(line, erasures)).map(({ id }) => id);
    await dropDeadLetters(redis, keys, stream, erased);
  }
}
