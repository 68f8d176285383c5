// One master: its connection, its clock, whether it may be used now, and how many replicas have what it did.
//
//   down ──ready──▶ asked for its clock, a write and its mark ──all well──▶ up ──close, READONLY──▶ down
//                               └──the mark is gone──▶ lost, until a later look finds it
//
// A node that was demoted under its connection (fail-over behind a fixed address) answers READONLY: the connection is
// cut, and the address asked again. Another node has another clock, and deadlines are in its time: nothing is sent
// before that is known.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ServiceError } from '../errors.js';
import { RedisClock } from './clock.js';
import { before, REPLY_SHARE } from './deadline.js';
import { isPassing, isReadOnly, isRefused, redirectionOf } from './failures.js';
import { LUA } from './lua-codes.js';
import { DeploymentLostError, type Mark, type Marks } from './marks.js';
import { loadScript, runScript } from './scripts.js';
import { isSilent } from './silence.js';

export interface NodeSpec {
  /** `host:port`; undefined for the one server. */
  readonly address: string | undefined;
  readonly marks: Marks;
  readonly timeoutMs: number;
  /** Whether a slot is this node's. */
  readonly has: (slot: number) => boolean;
  /** Told where a slot is that is not this node's any more. */
  readonly onMoved: (slot: number, address: string) => void;
  /** Told of failed looks, and once of a loss, as DeploymentLostError. */
  readonly onError: (error: Error) => void;
  /** Told how long each wait for replicas took, in milliseconds, failed ones too. */
  readonly onReplicated: ((ms: number) => void) | undefined;
}

const PROBE = loadScript('probe');
/** Erasures are waited for also while Redis is at its `maxmemory`. */
const PROBE_AT_MAXMEMORY = `#!lua flags=allow-oom\n${PROBE.source}`;
const LOOK_AGAIN_MS = 100;
/** Milliseconds for which a replica that is not connected any more counts as one. */
const REPLICA_MS = 15_000;

export class RedisNode {
  readonly address: string | undefined;
  readonly clock = new RedisClock();
  readonly #spec: NodeSpec;
  #redis: Redis | undefined;
  #isReady = false;
  #lost: DeploymentLostError | undefined;
  /** Why the last look failed. */
  #failed: Error | undefined;
  #downSince = performance.now();
  #replicaSeenAt = Number.NEGATIVE_INFINITY;
  #replicated: Promise<void> | undefined;
  /** The latest of those that share `#replicated`. */
  #replicatedDeadline = 0;
  #mark: Mark | undefined;
  #stream: number | undefined;

  constructor(spec: NodeSpec) {
    this.#spec = spec;
    this.address = spec.address;
  }

  /** Its connection; not before `adopt`. */
  get redis(): Redis {
    return this.#redis as Redis;
  }

  get isUp(): boolean {
    return this.#isReady && this.#lost === undefined && !isSilent(this.redis);
  }

  /** Number of the streams that are at it; undefined while it has not told of any. */
  get stream(): number | undefined {
    return this.#stream;
  }

  /** Whether the slot of its mark, and so of its streams, is still its own. */
  get hasMark(): boolean {
    return this.#mark === undefined || this.#spec.has(this.#mark.slot);
  }

  /** Whether a replica follows it, or did a moment ago: a fail-over may make that one the master. */
  get hasReplica(): boolean {
    return performance.now() - this.#replicaSeenAt < REPLICA_MS;
  }

  /** Its data are gone. */
  get lost(): DeploymentLostError | undefined {
    return this.#lost;
  }

  /** What is wrong with it, as far as is known. */
  get trouble(): Error | undefined {
    if (this.#lost !== undefined) return this.#lost;
    return this.isUp ? this.#failed : new ServiceError('unavailable');
  }

  /** It is away for so long that callers would wait in vain. */
  get isCircuitOpen(): boolean {
    if (this.#lost !== undefined) return true;
    return !this.#isReady && performance.now() - this.#downSince > this.#spec.timeoutMs;
  }

  /** Milliseconds of its clock until which it may apply what has this deadline of ours. */
  lastMoment(deadline: number): number {
    return Math.floor(this.clock.at(deadline) - this.#spec.timeoutMs * REPLY_SHARE);
  }

  /** Takes the connection to it; a cluster's client makes new ones under the same address. */
  adopt(redis: Redis): void {
    if (this.#redis === redis) return;
    this.#redis = redis;
    this.#down();
    redis.on('close', () => {
      if (this.#redis === redis) this.#down();
    });
    redis.on('ready', () => void this.#prepare(redis));
    if (redis.status === 'ready') void this.#prepare(redis);
    else if (redis.status === 'wait') redis.connect().catch(() => {}); // told as an error event
  }

  /** Ends a connection whose other end is not a master any more. */
  cut(): void {
    if (!this.#isReady) return;
    this.#down();
    this.redis.disconnect(true);
  }

  /**
   * Looks whether it takes writes and still has its data.
   * @throws DeploymentLostError, ServiceError `unavailable` where it does not answer in time, Redis's errors
   */
  async look(redis = this.redis): Promise<void> {
    const deadline = performance.now() + this.#spec.timeoutMs;
    const found = await before(deadline, this.#probe(redis, deadline)).catch((error) => {
      this.#failed = error;
      if (isReadOnly(error)) this.cut();
      throw error;
    });
    this.#failed = undefined;
    const { address, onError } = this.#spec;
    if (found) {
      this.#lost = undefined;
      await before(deadline, this.#countReplicas(redis)).catch((error) => {
        if (!isRefused(error)) throw error; // one may do without INFO
      });
      return;
    }
    const isNews = this.#lost === undefined;
    this.#lost ??= new DeploymentLostError(this.#mark === this.#spec.marks.meta ? undefined : address);
    if (isNews) onError(this.#lost);
    throw this.#lost;
  }

  /**
   * Resolves when so many replicas have what was sent on the connection up to now: one WAIT for all callers of a
   * moment. It lasts for the caller with the latest deadline; the others end their own wait.
   * @throws ServiceError `unavailable`
   */
  replicated(count: number, deadline: number): Promise<void> {
    this.#replicatedDeadline = Math.max(this.#replicatedDeadline, deadline);
    this.#replicated ??= this.#waitForReplicas(count);
    return this.#replicated;
  }

  async #waitForReplicas(count: number): Promise<void> {
    await null; // until all batches of this moment are on their way
    this.#replicated = undefined;
    const deadline = this.#replicatedDeadline;
    const { redis, address } = this;
    const began = performance.now();
    // WAIT is about the connection's last write. A batch that is asked for again may not be one, so this is.
    const write = async ({ key, digest }: Mark) => {
      try {
        return await redis.eval(PROBE_AT_MAXMEMORY, 1, key, this.lastMoment(deadline), digest);
      } catch (error) {
        // Its mark is on the move. For the batch, which is applied by now, that is no redirection.
        if (redirectionOf(error as Error) === undefined) throw error;
        return undefined;
      }
    };
    const wait = async (): Promise<[wrote: unknown, reached: number]> => {
      for (;;) {
        const ms = Math.floor(deadline - performance.now() - this.#spec.timeoutMs * REPLY_SHARE);
        const written = write(this.#mark as Mark);
        const waited = redis.wait(count, Math.max(1, ms)); // 0 is for ever
        const [wrote, reached] = await Promise.all([written, waited]);
        if (wrote !== undefined || ms <= LOOK_AGAIN_MS) return [wrote, reached];
        await sleep(LOOK_AGAIN_MS);
      }
    };
    const [wrote, reached] = await wait().finally(() => this.#spec.onReplicated?.(performance.now() - began));
    if (wrote !== 1 || reached < count) {
      const cause = new Error(
        `${reached} of ${count} replicas of ${address ?? 'Redis'} have a batch in time`,
      );
      throw new ServiceError('unavailable', undefined, undefined, { cause });
    }
  }

  #down(): void {
    const { timeoutMs } = this.#spec;
    if (this.#isReady) this.#downSince = performance.now() - (isSilent(this.redis) ? timeoutMs : 0);
    this.#isReady = false;
  }

  /** Asks a connection that has just become ready for all that has to be known first. */
  async #prepare(redis: Redis): Promise<void> {
    const { stream } = redis;
    const isCurrent = () => this.#redis === redis && redis.stream === stream && redis.status === 'ready';
    let told = '';
    while (isCurrent()) {
      try {
        await this.clock.measure(redis);
        await this.look(redis);
        break;
      } catch (error) {
        if (error instanceof DeploymentLostError || !isAway(error as Error)) break;
        const { message } = error as Error;
        if (message !== told) this.#spec.onError(error as Error);
        told = message;
        await sleep(LOOK_AGAIN_MS);
        if (!isReadOnly(error as Error) || !isCurrent()) continue;
        redis.disconnect(true);
        return;
      }
    }
    if (isCurrent()) this.#isReady = true;
  }

  /** @returns whether its mark is there */
  async #probe(redis: Redis, deadline: number): Promise<boolean> {
    const { marks, has } = this.#spec;
    for (;;) {
      // A mark that is gone is looked for until it is back, or its slot is another node's.
      const isHere = this.#mark !== undefined && has(this.#mark.slot);
      const mark = isHere ? this.#mark : ((await marks.find(has)) ?? (await marks.make(redis, has)));
      if (mark === undefined) return true; // it has nothing to lose
      this.#mark = mark;
      const { key, digest, stream } = mark;
      try {
        const reply = await runScript(redis, PROBE, [key], [this.lastMoment(deadline), digest]);
        if (reply === 1) {
          this.#stream = stream;
          marks.name(mark).catch(() => {}); // the next look does it
          return true;
        }
        if (reply === LUA.EXPIRED) await this.clock.measure(redis);
        else if (await marks.isNamed(mark)) return false;
        else this.#mark = undefined;
      } catch (error) {
        const redirection = redirectionOf(error as Error);
        if (redirection === undefined) throw error;
        // On the move with its slot, it is at either node: it says nothing now.
        if (redirection.kind === 'ASK') return true;
        this.#spec.onMoved(redirection.slot, redirection.address);
        await sleep(LOOK_AGAIN_MS);
      }
      if (performance.now() >= deadline) throw new ServiceError('unavailable');
    }
  }

  async #countReplicas(redis: Redis): Promise<void> {
    const replication = await redis.info('replication');
    if (/^connected_slaves:[1-9]/m.test(replication)) this.#replicaSeenAt = performance.now();
  }
}

/** Whether it makes no sense to go on before this is over. */
function isAway(error: Error): boolean {
  return error instanceof ServiceError || isPassing(error);
}
