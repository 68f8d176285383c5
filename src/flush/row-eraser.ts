// Executes erasures in ClickHouse, dead letters and extras' copies of rows. Every flusher runs it, and all steps are
// idempotent. An erasure is due once all entries that were present IN_FLIGHT_MS after it was read have left the streams.
// This compares stream ids, not clocks: ids run ahead of a clock that was set back. It is executed a second time LATE_MS
// later and only then forgotten, because a frozen flusher's insert may arrive after another flusher has taken over.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { pause } from '../backoff.js';
import { REQUEST_TIMEOUT_MS } from '../clickhouse/client.js';
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
/** Twice as long as a flusher waits for an insert. */
const LATE_MS = 2 * REQUEST_TIMEOUT_MS;
const POLL_MS = 100;

export interface EraserSpec {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly clickhouse: ClickHouseClient;
  readonly cluster?: string;
  readonly eraseInExtras?: ((erasures: Erasures) => Promise<void>) | undefined;
  readonly inFlightMs?: number;
  readonly lateMs?: number;
}

type Stream = readonly [keys: StreamKeys, number: number];

/** Streams and their last entries. */
type Ends = ReadonlyMap<string, string>;

interface Queued {
  readonly erasure: string;
  readonly ends: Ends;
  erasedAt: number | undefined;
}

export class RowEraser {
  readonly #queued = new Map<string, Queued>();

  constructor(private readonly spec: EraserSpec) {}

  /**
   * Executes the erasures that are due.
   *
   * @returns the names of forgotten erasures @throws the first error, after all other parts were tried
   */
  async run(signal = new AbortController().signal): Promise<string[]> {
    const { redis, keys, inFlightMs = IN_FLIGHT_MS, lateMs = LATE_MS } = this.spec;
    const erasures = await readErasures(redis, keys);
    for (const [name, { erasure }] of this.#queued)
      if (erasures.get(name) !== erasure) this.#queued.delete(name);
    if (erasures.size === 0) return [];
    const numbers = await streamsOf(redis, keys);
    const streams = [keys, keys.visits].flatMap((kind) => numbers.map((n): Stream => [kind, n]));
    const found = [...erasures].filter(([name]) => !this.#queued.has(name));
    if (found.length > 0) {
      await pause(inFlightMs, signal);
      const ends = await readEnds(redis, streams);
      for (const [name, erasure] of found) this.#queued.set(name, { erasure, ends, erasedAt: undefined });
    }
    const flushed = await this.#flushedEnds(signal);
    const due = [...this.#queued].filter(([, { ends, erasedAt }]) =>
      erasedAt === undefined ? flushed.has(ends) : performance.now() - erasedAt >= lateMs,
    );
    return due.length === 0 || signal.aborted ? [] : await this.#erase(new Map(due), streams);
  }

  async #flushedEnds(signal: AbortSignal): Promise<ReadonlySet<Ends>> {
    const waiting = [...this.#queued.values()].filter(({ erasedAt }) => erasedAt === undefined);
    const deadline = performance.now() + (this.spec.inFlightMs ?? IN_FLIGHT_MS);
    const flushed = new Set<Ends>();
    for (const ends of new Set(waiting.map(({ ends }) => ends)))
      if (await this.#isFlushed(ends, deadline, signal)) flushed.add(ends);
    return flushed;
  }

  async #isFlushed(ends: Ends, deadline: number, signal: AbortSignal): Promise<boolean> {
    for (const [stream, end] of ends)
      while ((await this.spec.redis.xrange(stream, '-', end, 'COUNT', 1)).length > 0) {
        if (signal.aborted || performance.now() >= deadline) return false;
        await pause(POLL_MS, signal);
      }
    return true;
  }

  async #erase(due: ReadonlyMap<string, Queued>, streams: readonly Stream[]): Promise<string[]> {
    const { redis, keys, clickhouse, cluster, eraseInExtras = async () => {} } = this.spec;
    const erasures = new Map([...due].map(([name, { erasure }]) => [name, erasure]));
    // From now on, only a late flusher makes dead letters of lines, or hands lines over, that these erasures cover.
    const letters = streams.map((stream) => eraseDeadLetters(redis, stream, erasures));
    const parts = await Promise.allSettled([...letters, eraseInExtras(erasures)]);
    const failures = parts.flatMap((part) => (part.status === 'rejected' ? [part.reason] : []));
    const done: string[] = [];
    for (const page of pagesOf(erasures)) {
      try {
        await eraseRows(clickhouse, page, cluster);
        if (failures.length > 0) continue;
        const late = [...page].filter(([name]) => due.get(name)?.erasedAt !== undefined);
        // Keeps erasures that have changed since they were read.
        const forget = ([name, erasure]: readonly [string, string]) =>
          runScript(redis, FORGET, [keys.erasures], [NO_LIMIT, name, erasure, '', NO_LIMIT]);
        await together(late.map(forget));
        done.push(...late.map(([name]) => name));
        for (const name of page.keys()) (due.get(name) as Queued).erasedAt = performance.now();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
    return done;
  }
}

async function readEnds(redis: RedisClient, streams: readonly Stream[]): Promise<Ends> {
  const ends = new Map<string, string>();
  for (const [keys, number] of streams) {
    const stream = keys.events(number);
    const [last] = await redis.xrevrange(stream, '+', '-', 'COUNT', 1);
    if (last !== undefined) ends.set(stream, last[0]);
  }
  return ends;
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
  const eraser = new RowEraser(spec);
  // Twice per interval: the first run may find an erasure that is not due yet.
  return repeat(intervalS * 500, async (signal) => {
    try {
      const profiles = (await eraser.run(signal)).filter((what) => !isCustomerKey(what));
      erased.inc(profiles.length);
      if (profiles.length > 0) log.info({ profiles: profiles.length }, 'erased from ClickHouse');
    } catch (error) {
      failures.inc();
      log.warn({ err: error }, 'a part of the erasures failed and will be tried again');
    }
  });
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
