// Brings events and visits from Redis to ClickHouse: one state machine per stream, of either kind (stream-flusher.ts).
// Several flushers share the streams evenly (team.ts).
//
// `close` brings what waits by then to ClickHouse, within a deadline, and gives the streams up: another flusher
// that stands by has them at once.

import type { ClickHouseClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import { backoffMs, pause } from '../backoff.js';
import { streamsOf } from '../redis/marks.js';
import { StreamFlusher, type StreamFlusherSpec } from './stream-flusher.js';
import { eventStreams, type Streams, visitStreams } from './streams.js';
import { changeOfShare, Team } from './team.js';

/** An owner that has not been heard of for so long counts as gone: with a look, others have its streams within 5 s. */
const SILENT_MS = 4_000;
/** How often a flusher looks at what the others own. */
const POLL_MS = 250;
/** How long `close` lets the batches in flight take. */
const CLOSE_MS = 10_000;

export interface FlusherSpec extends Omit<StreamFlusherSpec, 'silentMs' | 'streamCount'> {
  /** With the database that holds the events; see createClickHouse. */
  readonly clickhouse: ClickHouseClient;
  readonly metrics?: Registry;
  /** Milliseconds without a heartbeat after which an owner counts as gone. */
  readonly silentMs?: number;
}

export interface Flusher {
  /**
   * Inserts what waits now, at most `deadlineMs` long, and gives the streams up. What is not in
   * ClickHouse by then stays in Redis.
   */
  close(deadlineMs?: number): Promise<void>;
}

/** Never throws: what fails is logged and tried again until `close`. */
export function startFlusher(spec: FlusherSpec): Flusher {
  const stop = new AbortController();
  const halt = new AbortController();
  const sharing = new Sharing(spec, stop.signal, halt.signal);
  const ended = sharing.run();
  return {
    async close(deadlineMs = CLOSE_MS) {
      stop.abort();
      const deadline = setTimeout(() => halt.abort(), deadlineMs);
      await ended;
      clearTimeout(deadline);
    },
  };
}

/** What this process has of the streams of all kinds. */
class Sharing {
  readonly #spec: StreamFlusherSpec;
  readonly #kinds: readonly Streams[];
  readonly #team: Team;
  readonly #lookMs: number;
  readonly #stop: AbortSignal;
  readonly #halt: AbortSignal;
  readonly #flushers = new Map<string, StreamFlusher>();
  #nap = new AbortController();

  constructor(spec: FlusherSpec, stop: AbortSignal, halt: AbortSignal) {
    const { keys, clickhouse, metrics = new Registry(), silentMs = SILENT_MS } = spec;
    this.#spec = { ...spec, silentMs, streamCount: () => this.#flushers.size / this.#kinds.length };
    this.#kinds = [eventStreams(keys, clickhouse, metrics), visitStreams(keys.visits, clickhouse, metrics)];
    this.#team = new Team(spec.redis, spec.keys, spec.owner, silentMs);
    this.#lookMs = Math.min(POLL_MS, silentMs / 4);
    this.#stop = stop;
    this.#halt = halt;
    stop.addEventListener('abort', () => this.#nap.abort());
  }

  /** Resolves once stopped. */
  async run(): Promise<void> {
    for (let failures = 0; !this.#stop.aborted; ) {
      try {
        await this.#add();
        await this.#share();
        failures = 0;
      } catch (error) {
        failures++;
        this.#spec.log.warn({ err: error, failures }, 'the other flushers could not be asked for');
      }
      // A stream that was lost is looked at again at once.
      this.#nap = new AbortController();
      if (!this.#stop.aborted)
        await pause(failures > 0 ? backoffMs(failures, this.#spec.backoff) : this.#lookMs, this.#nap.signal);
    }
    const leaving = this.#team.leave().catch(() => {}); // then we count as gone after a while
    await Promise.all([leaving, ...Array.from(this.#flushers.values(), ({ over }) => over)]);
  }

  /** Streams that have come. */
  async #add(): Promise<void> {
    const { redis, keys } = this.#spec;
    for (const number of await streamsOf(redis, keys)) {
      for (const streams of this.#kinds) {
        const name = `${streams.kind} ${number}`;
        if (this.#flushers.has(name)) continue;
        const wake = () => this.#nap.abort();
        this.#flushers.set(
          name,
          new StreamFlusher(this.#spec, streams, number, this.#stop, this.#halt, wake),
        );
      }
    }
  }

  async #share(): Promise<void> {
    const all = [...this.#flushers.values()];
    const owned = all.filter(({ isOwner }) => isOwner);
    const staying = owned.filter(({ isLeaving }) => !isLeaving);
    const others = await this.#team.announce(owned.length);
    const change = changeOfShare(staying.length, others, all.length);
    if (change < 0) for (const one of staying.slice(change)) one.giveUp();
    if (change <= 0 || staying.length < owned.length) return;
    // In an order of our own, so that two flushers seldom try the same.
    const free = shuffled(all.filter(({ mayClaim }) => mayClaim));
    for (let wanted = change; wanted > 0 && free.length > 0 && !this.#stop.aborted; ) {
      const claims = await Promise.all(free.splice(0, wanted).map((one) => one.claim()));
      wanted -= claims.filter(Boolean).length;
    }
  }
}

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((one) => ({ one, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one);
}
