// Erases from ClickHouse, from dead letters and from deliveries what was erased from Redis, all that waits at once, every
// ERASURE_INTERVAL_S. Every flusher does so: doing it twice is doing it once, and a crash in the middle leaves the
// erasures written down for the next one.
//
// Dead letters of each stream, deliveries, and each page of erasures fail alone: what fails is reported and done again with the
// next run. An erasure is forgotten only once all of it is done.
//
// An erasure is due once the entries that waited when it was read have left all streams: a batch that was begun before it knew of
// the erasure is in ClickHouse by then. That goes by the streams' order and by no clock, since ids run ahead of a clock that was set
// back.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { pause } from '../backoff.js';
import { eraseRows } from '../clickhouse/erase.js';
import { isIdentityName } from '../clickhouse/erased-rows.js';
import { EVERY_PROFILE } from '../identity-rules.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys, StreamKeys } from '../redis/keys.js';
import { streamsOf } from '../redis/marks.js';
import { loadScript, runScript } from '../redis/scripts.js';
import { dropDeadLetters, listDeadLetters } from './dead-letters.js';
import { type Erasure, isErased, readErasures } from './erasures.js';

const DONE = loadScript('erasure-done');
const PAGE = 100;
/** Erasures of one page: as many as one mutation names profiles, see eraseRows. */
const AT_ONCE = 2_000;
/** Erasures that one call forgets. */
const DONE_AT_ONCE = 500;
/** Milliseconds that a line may be under way to a stream, and entries to ClickHouse: else the next run looks again. */
const UNDER_WAY_MS = 10_000;
/** Between two looks at the entries. */
const AGAIN_MS = 100;

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
  /** Called with each part that failed. */
  readonly onFailed?: (error: Error) => void;
  /** Ends the waiting. */
  readonly signal?: AbortSignal;
}

/** As they are held: profile id, identity name or EVERY_PROFILE, and up to when. */
type Due = readonly (readonly [what: string, erasure: Erasure])[];

/**
 * @param underWayMs as above
 * @returns the number of profiles and identities whose rows are gone now
 * @throws Redis's errors: nothing could be read
 */
export async function eraseWaiting(spec: EraserSpec, underWayMs = UNDER_WAY_MS): Promise<number> {
  const { redis, keys, log, clickhouse, cluster } = spec;
  const attempt = (work: Promise<unknown>) =>
    work.then(
      () => true,
      (error: Error) => {
        log.warn({ err: error }, 'a part of the erasures failed and will be tried again');
        spec.onFailed?.(error);
        return false;
      },
    );
  const erasures = await readErasures(redis, keys);
  if (erasures.size === 0) return 0;
  const isDue = await areFlushed(spec, underWayMs);
  // What is due waits in no stream: its dead letters are there by now.
  let isWhole = true; // all that was to be done so far is done
  for (const [kind, stream] of await allStreams(spec))
    isWhole = (await attempt(eraseDeadLetters(redis, kind, stream, erasures))) && isWhole;
  if (!isDue) return 0;
  const due: Due = [...erasures];
  // Now: what is due was handed over before it left its stream, and comes no more.
  if (spec.eraseDeliveries !== undefined)
    isWhole = (await attempt(spec.eraseDeliveries(erasures))) && isWhole;
  let areNamesDone = isWhole;
  let done = 0;
  let profiles = 0;
  for (const page of pagesOf(due)) {
    const areNames = isIdentityName(page[0]?.[0] ?? '');
    const isErased = await attempt(eraseRows(clickhouse, new Map(page), cluster));
    // Profiles only after all identities: a compliance request is closed once the profiles of its visitor are done.
    const isDone =
      isErased && isWhole && (areNames || areNamesDone) && (await attempt(forget(redis, keys, page)));
    if (isDone) done += page.length;
    if (areNames) areNamesDone &&= isDone;
    else if (isDone) profiles += page.length;
  }
  if (profiles > 0) {
    spec.onErased?.(profiles);
    log.info({ profiles }, 'erased from ClickHouse');
  }
  return done;
}

/** Identities first, then all of the shop, then profiles. */
function* pagesOf(due: Due): Generator<Due> {
  const isAll = (what: string) => what === EVERY_PROFILE;
  const kinds = [isIdentityName, isAll, (what: string) => !isIdentityName(what) && !isAll(what)];
  for (const isOfKind of kinds) {
    const ofKind = due.filter(([what]) => isOfKind(what));
    for (let i = 0; i < ofKind.length; i += AT_ONCE) yield ofKind.slice(i, i + AT_ONCE);
  }
}

/** Forgets erasures that are as they were read. */
async function forget(redis: RedisClient, keys: Keys, page: Due): Promise<void> {
  for (let i = 0; i < page.length; i += DONE_AT_ONCE) {
    const args = page.slice(i, i + DONE_AT_ONCE).flatMap(([what, { held }]) => [what, held]);
    await runScript(redis, DONE, [keys.erasures], args);
  }
}

/** @returns what ends it, when what is under way is done */
export function watchErasures(spec: EraserSpec, intervalS: number): () => Promise<void> {
  const closing = new AbortController();
  let running: Promise<unknown> | undefined;
  const run = () => {
    running ??= eraseWaiting({ ...spec, signal: closing.signal })
      .catch((error: Error) => {
        spec.log.warn({ err: error }, 'erasing from ClickHouse failed and will be tried again');
        spec.onFailed?.(error);
      })
      .finally(() => {
        running = undefined;
      });
  };
  run();
  // Twice in that time: what is not due yet is so the next time.
  const timer = setInterval(run, intervalS * 500);
  return async () => {
    clearInterval(timer);
    closing.abort();
    await running;
  };
}

/** Waits for lines under way, then until the entries that are there have left all streams. @returns whether they have */
async function areFlushed(spec: EraserSpec, underWayMs: number): Promise<boolean> {
  const { redis, signal = new AbortController().signal } = spec;
  await pause(underWayMs, signal);
  let waiting: (readonly [stream: string, last: string])[] = [];
  for (const [keys, number] of await allStreams(spec)) {
    const stream = keys.events(number);
    const [last] = await redis.xrevrange(stream, '+', '-', 'COUNT', 1);
    if (last !== undefined) waiting.push([stream, last[0]]);
  }
  for (const deadline = performance.now() + underWayMs; ; await pause(AGAIN_MS, signal)) {
    const left = await Promise.all(
      waiting.map(([stream, last]) => redis.xrange(stream, '-', last, 'COUNT', 1)),
    );
    waiting = waiting.filter((_, at) => left[at]?.length !== 0);
    if (signal.aborted) return false;
    if (waiting.length === 0) return true;
    if (performance.now() >= deadline) return false;
  }
}

async function allStreams({ redis, keys }: EraserSpec): Promise<[StreamKeys, number][]> {
  const numbers = await streamsOf(redis, keys);
  return [keys, keys.visits].flatMap((kind) => numbers.map((number): [StreamKeys, number] => [kind, number]));
}

async function eraseDeadLetters(
  redis: RedisClient,
  keys: StreamKeys,
  stream: number,
  erasures: ReadonlyMap<string, Erasure>,
): Promise<void> {
  for (let after: string | undefined; ; ) {
    const page = await listDeadLetters(redis, keys, stream, PAGE, after);
    after = page.at(-1)?.id;
    if (after === undefined) return;
    const erased = page.filter(({ line }) => isErased(line, erasures)).map(({ id }) => id);
    await dropDeadLetters(redis, keys, stream, erased);
  }
}
