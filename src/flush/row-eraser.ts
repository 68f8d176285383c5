// Executes erasures in ClickHouse, dead letters and deliveries. Every flusher runs it; all steps are idempotent, and an
// erasure is forgotten only after all its parts.
// An erasure is due once all entries present when it was read have left the streams. This compares stream ids, not
// clocks: ids run ahead of a clock that was set back.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { pause } from '../backoff.js';
import { eraseRows } from '../clickhouse/erase.js';
import { isIdentityName } from '../clickhouse/erased-rows.js';
import { EVERY_PROFILE } from '../identity-rules.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys, StreamKeys } from '../redis/keys.js';
import { streamsOf } from '../redis/node-markers.js';
import { loadScript, runScript } from '../redis/scripts.js';
import { dropDeadLetters, listDeadLetters } from './dead-letters.js';
import { type Erasure, isErased, readErasures } from './erasures.js';

const DONE = loadScript('flush/finishErasures');
const PAGE = 100;
const ERASURES_PER_PAGE = 2_000;
const FORGET_PER_CALL = 500;
/** Milliseconds allowed for a line to reach its stream, and then for the entries to reach ClickHouse. */
const IN_FLIGHT_MS = 10_000;
const POLL_MS = 100;

export interface EraserSpec {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly clickhouse: ClickHouseClient;
  readonly cluster?: string;
  readonly log: Logger;
  readonly eraseDeliveries?: ((erasures: ReadonlyMap<string, Erasure>) => Promise<void>) | undefined;
  readonly onErased?: (profiles: number) => void;
  readonly onFailed?: (error: Error) => void;
  readonly signal?: AbortSignal;
}

type Due = readonly (readonly [what: string, erasure: Erasure])[];

export async function eraseWaiting(spec: EraserSpec, inFlightMs = IN_FLIGHT_MS): Promise<number> {
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
  const isDue = await areFlushed(spec, inFlightMs);
  // Once an erasure is due, none of its lines can still become a dead letter.
  let isWhole = true;
  for (const [kind, stream] of await allStreams(spec))
    isWhole = (await attempt(eraseDeadLetters(redis, kind, stream, erasures))) && isWhole;
  if (!isDue) return 0;
  const due: Due = [...erasures];
  // Runs after `areFlushed`, because receivers get events before the events leave their stream.
  if (spec.eraseDeliveries !== undefined)
    isWhole = (await attempt(spec.eraseDeliveries(erasures))) && isWhole;
  let areNamesDone = isWhole;
  let done = 0;
  let profiles = 0;
  for (const page of pagesOf(due)) {
    const areNames = isIdentityName(page[0]?.[0] ?? '');
    const isErased = await attempt(eraseRows(clickhouse, new Map(page), cluster));
    // Forget identities first, because forgetting the profiles closes a compliance request.
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

function* pagesOf(due: Due): Generator<Due> {
  const isAll = (what: string) => what === EVERY_PROFILE;
  const kinds = [isIdentityName, isAll, (what: string) => !isIdentityName(what) && !isAll(what)];
  for (const isOfKind of kinds) {
    const ofKind = due.filter(([what]) => isOfKind(what));
    for (let i = 0; i < ofKind.length; i += ERASURES_PER_PAGE) yield ofKind.slice(i, i + ERASURES_PER_PAGE);
  }
}

/** Keeps erasures that have changed since they were read. */
async function forget(redis: RedisClient, keys: Keys, page: Due): Promise<void> {
  for (let i = 0; i < page.length; i += FORGET_PER_CALL) {
    const args = page.slice(i, i + FORGET_PER_CALL).flatMap(([what, { held }]) => [what, held]);
    await runScript(redis, DONE, [keys.erasures], args);
  }
}

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
  // Twice per interval: the first run may find an erasure that is not due yet.
  const timer = setInterval(run, intervalS * 500);
  return async () => {
    clearInterval(timer);
    closing.abort();
    await running;
  };
}

async function areFlushed(spec: EraserSpec, inFlightMs: number): Promise<boolean> {
  const { redis, signal = new AbortController().signal } = spec;
  await pause(inFlightMs, signal);
  let waiting: (readonly [stream: string, last: string])[] = [];
  for (const [keys, number] of await allStreams(spec)) {
    const stream = keys.events(number);
    const [last] = await redis.xrevrange(stream, '+', '-', 'COUNT', 1);
    if (last !== undefined) waiting.push([stream, last[0]]);
  }
  for (const deadline = performance.now() + inFlightMs; ; await pause(POLL_MS, signal)) {
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
    const page = await listDeadLetters(redis, keys, stream, { count: PAGE, after });
    after = page.at(-1)?.id;
    if (after === undefined) return;
    const erased = page.filter(({ line }) => isErased(line, erasures)).map(({ id }) => id);
    await dropDeadLetters(redis, keys, stream, erased);
  }
}
