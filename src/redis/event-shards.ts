// Streams that events are spread over: how many there are now, and from when on there are more. The number is Redis's
// (`meta`), so it can be raised while everything runs: a raise holds from a moment ahead, each process asks once a second,
// and all change at that moment of Redis's clock. So a visitor's events go to one stream until then and to one from then
// on, whichever process takes them. (A process that is cut off from Redis for all of that time changes when it is back.)
//
// What came before a raise is flushed first: src/flush/shard-flusher.ts holds a new stream back until then. Visitors only ever
// move to new streams (jump consistent hash, Lamping and Veach 2014), never from one old stream to another.

import type { RedisClient } from './client.js';
import type { Keys } from './keys.js';
import { loadScript, runScript } from './scripts.js';

const SHARDS = loadScript<[now: string, raises: string]>('shards');
/** Each has a stream, and a state machine in every `flush`. */
export const MOST_SHARDS = 256;
const ASK_MS = 1_000;
/** Several times as long as it takes every process to ask. */
const LEAD_MS = 5_000;

/** So many streams from a moment on. */
export interface Raise {
  readonly shards: number;
  /** Milliseconds of Redis's clock. */
  readonly at: number;
}

export class EventShards {
  readonly #client: RedisClient;
  readonly #key: string;
  #raises: readonly Raise[] = [];
  /** Redis's clock less ours, milliseconds. */
  #ahead = 0;
  #current = 0;
  /** The next raise, by our monotonic clock. */
  #next: { readonly shards: number; readonly at: number } | undefined;
  #asking = false;

  private constructor(client: RedisClient, keys: Pick<Keys, 'meta'>) {
    this.#client = client;
    this.#key = keys.meta;
  }

  /** @param wanted at least so many from now on @throws Redis's errors */
  static async open(client: RedisClient, keys: Pick<Keys, 'meta'>, wanted = 0): Promise<EventShards> {
    const shards = new EventShards(client, keys);
    await shards.#ask(wanted, LEAD_MS);
    return shards;
  }

  /** Streams that new events are spread over; 0 where there is no deployment. */
  get current(): number {
    const next = this.#next;
    if (next !== undefined && performance.now() >= next.at) this.#advance();
    return this.#current;
  }

  /** Streams that may hold events, or soon will. */
  get all(): number {
    return this.#raises.at(-1)?.shards ?? 0;
  }

  /** Oldest first; the first one is at 0. */
  get raises(): readonly Raise[] {
    return this.#raises;
  }

  /** Milliseconds of Redis's clock, as far as is known. */
  now(): number {
    return performance.now() + this.#ahead;
  }

  /** Asks again every second. @returns what ends that */
  watch(): () => void {
    const timer = setInterval(() => {
      if (this.#asking) return;
      this.#asking = true;
      this.#ask(0, LEAD_MS)
        .catch(() => {}) // the connection tells its errors
        .finally(() => {
          this.#asking = false;
        });
    }, ASK_MS);
    timer.unref();
    return () => clearInterval(timer);
  }

  /** Changes nothing where there are as many. @param leadMs until the raise holds @throws Redis's errors */
  async raise(shards: number, leadMs = LEAD_MS): Promise<void> {
    await this.#ask(shards, leadMs);
  }

  async #ask(wanted: number, leadMs: number): Promise<void> {
    const asked = performance.now();
    const [now, raises] = await runScript(this.#client, SHARDS, [this.#key], [wanted, leadMs]);
    this.#ahead = Number(now) - (asked + performance.now()) / 2;
    this.#raises = raises.split(' ').filter(Boolean).map(raiseOf);
    this.#advance();
  }

  #advance(): void {
    const now = this.now();
    const reached = this.#raises.findLast(({ at }) => at <= now)?.shards ?? 0;
    // A clock that is measured anew may be a little behind; what holds goes on holding.
    this.#current = Math.max(this.#current, reached);
    const next = this.#raises.find(({ shards }) => shards > this.#current);
    this.#next = next && { shards: next.shards, at: next.at - this.#ahead };
  }
}

function raiseOf(text: string): Raise {
  const [shards, at] = text.split('@').map(Number) as [number, number];
  return { shards, at };
}

/**
 * A visitor's events go to one shard, so that they stay in order.
 * @returns from 0 up; with more shards the same one, or one of those that came in addition
 */
export function shardOf(profileId: string, shards: number): number {
  if (shards <= 1) return 0;
  let seed = 0;
  for (let i = 0; i < profileId.length; i++) seed = (Math.imul(seed, 31) + profileId.charCodeAt(i)) | 0;
  let shard = 0;
  for (let next = 0; next < shards; ) {
    shard = next;
    // mulberry32: the n-th number depends on nothing but the profile.
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), seed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    const drawn = (((mixed ^ (mixed >>> 14)) >>> 0) + 1) / 0x1_0000_0000;
    next = Math.floor((shard + 1) / drawn);
  }
  return shard;
}
