// Processes of one kind share all streams evenly (team.ts): streams are looked for, claimed and given up until each process
// has as many. `close` ends what is in flight within a deadline and gives the streams up: a process that stands by has them
// at once.

import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { streamsOf } from '../redis/marks.js';
import type { OwnedStream } from './owned-stream.js';
import { changeOfShare, Team } from './team.js';

/** An owner that has not been heard of for so long counts as gone: with a look, others have its streams within 5 s. */
export const SILENT_MS = 4_000;
/** How often a process looks at what the others own. */
const POLL_MS = 250;
/** How long `close` lets what is in flight take. */
const CLOSE_MS = 10_000;

export interface SharingSpec {
  readonly redis: RedisClient;
  readonly keys: Keys;
  /** Key of the hash of the processes that share, in the slot of `meta`. */
  readonly team: string;
  readonly owner: string;
  readonly silentMs: number;
  readonly backoff?: Backoff | undefined;
  readonly log: Logger;
  /** What is owned of each number of the streams, by names. @param wake to be called when one is not owned any more */
  open(stream: number, signals: Signals, wake: () => void): Readonly<Record<string, OwnedStream>>;
}

export interface Signals {
  /** Aborts when this process ends. */
  readonly stop: AbortSignal;
  /** Aborts when it waits no longer for what is in flight. */
  readonly halt: AbortSignal;
}

export interface Sharer {
  /** Streams that are known, owned by any process. */
  readonly size: number;
  /**
   * Ends what is in flight, at most `deadlineMs` long, and gives the streams up. What is not done by then stays in Redis.
   */
  close(deadlineMs?: number): Promise<void>;
}

/** Never throws: what fails is logged and tried again until `close`. */
export function share(spec: SharingSpec): Sharer {
  const stop = new AbortController();
  const halt = new AbortController();
  const sharing = new Sharing(spec, { stop: stop.signal, halt: halt.signal });
  const ended = sharing.run();
  return {
    get size() {
      return sharing.size;
    },
    async close(deadlineMs = CLOSE_MS) {
      stop.abort();
      const deadline = setTimeout(() => halt.abort(), deadlineMs);
      await ended;
      clearTimeout(deadline);
    },
  };
}

/** What this process has of the streams. */
class Sharing {
  readonly #spec: SharingSpec;
  readonly #signals: Signals;
  readonly #team: Team;
  readonly #lookMs: number;
  readonly #known = new Set<number>();
  readonly #streams = new Map<string, OwnedStream>();
  #nap = new AbortController();

  constructor(spec: SharingSpec, signals: Signals) {
    this.#spec = spec;
    this.#signals = signals;
    this.#team = new Team(spec.redis, spec.team, spec.keys.meta, spec.owner, spec.silentMs);
    this.#lookMs = Math.min(POLL_MS, spec.silentMs / 4);
    signals.stop.addEventListener('abort', () => this.#nap.abort());
  }

  get size(): number {
    return this.#streams.size;
  }

  /** Resolves once stopped. */
  async run(): Promise<void> {
    const { stop } = this.#signals;
    for (let failures = 0; !stop.aborted; ) {
      try {
        await this.#add();
        await this.#share();
        failures = 0;
      } catch (error) {
        failures++;
        this.#spec.log.warn({ err: error, failures }, 'the other processes could not be asked for');
      }
      // A stream that was lost is looked at again at once.
      this.#nap = new AbortController();
      if (!stop.aborted)
        await pause(failures > 0 ? backoffMs(failures, this.#spec.backoff) : this.#lookMs, this.#nap.signal);
    }
    const leaving = this.#team.leave().catch(() => {}); // then we count as gone after a while
    await Promise.all([leaving, ...Array.from(this.#streams.values(), ({ over }) => over)]);
  }

  /** Streams that have come. */
  async #add(): Promise<void> {
    for (const number of await streamsOf(this.#spec.redis, this.#spec.keys)) {
      if (this.#known.has(number)) continue;
      this.#known.add(number);
      const opened = this.#spec.open(number, this.#signals, () => this.#nap.abort());
      for (const [name, stream] of Object.entries(opened)) this.#streams.set(`${name} ${number}`, stream);
    }
  }

  async #share(): Promise<void> {
    const all = [...this.#streams.values()];
    const owned = all.filter(({ isOwner }) => isOwner);
    const staying = owned.filter(({ isLeaving }) => !isLeaving);
    const others = await this.#team.announce(owned.length);
    const change = changeOfShare(staying.length, others, all.length);
    if (change < 0) for (const one of staying.slice(change)) one.giveUp();
    if (change <= 0 || staying.length < owned.length) return;
    // In an order of our own, so that two processes seldom try the same.
    const free = shuffled(all.filter(({ mayClaim }) => mayClaim));
    for (let wanted = change; wanted > 0 && free.length > 0 && !this.#signals.stop.aborted; ) {
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
