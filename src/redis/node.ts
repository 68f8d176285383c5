// One master: its connection, clock, state and replicas.
//
//   down ──ready──▶ measure clock, probe write and marker ──ok──▶ up ──close, READONLY──▶ down
//                               └──marker missing──▶ lost, until a later probe finds it
//
// READONLY without a closed connection is a failover behind a fixed address: reconnect.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ServiceError } from '../errors.js';
import { RedisClock } from './clock.js';
import { before, REPLY_SHARE } from './deadline.js';
import { isForbidden, isPassing, isReadOnly, redirectionOf } from './failures.js';
import { LUA } from './lua-codes.js';
import { DeploymentLostError, type NodeMarker, type NodeMarkers } from './node-markers.js';
import { Replicas } from './replicas.js';
import { loadScript, runScript, withFlags } from './scripts.js';
import { isSilent } from './silence.js';

export interface NodeSpec {
  readonly address: string | undefined;
  readonly markers: NodeMarkers;
  readonly timeoutMs: number;
  /** REDIS_REPLICAS */
  readonly replicas: number;
  readonly has: (slot: number) => boolean;
  readonly onMoved: (slot: number, address: string) => void;
  readonly onError: (error: Error) => void;
  readonly onReplicated: ((ms: number) => void) | undefined;
}

const PROBE = loadScript('redis/probeNode');
/** Erasures await replication at `maxmemory`, too. */
const PROBE_AT_MAXMEMORY = withFlags(PROBE, 'allow-oom');
const RETRY_MS = 100;
/** Part of the time-out that a WAIT may take. Reads and probes behind it need the rest; Redis may end it 100 ms late. */
const WAIT_SHARE = 0.5;

export class RedisNode {
  readonly clock = new RedisClock();
  #redis: Redis | undefined;
  #isReady = false;
  #lost: DeploymentLostError | undefined;
  #failed: Error | undefined;
  #downSince = performance.now();
  readonly #replicas: Replicas;
  #wait: Promise<unknown> = Promise.resolve();
  #nextWait: Promise<number> | undefined;
  #nextWaitFor: { readonly count: number; readonly deadline: number } = { count: 0, deadline: 0 };
  #marker: NodeMarker | undefined;
  #stream: number | undefined;

  constructor(private readonly spec: NodeSpec) {
    this.#replicas = new Replicas(spec.replicas);
  }

  get address(): string | undefined {
    return this.spec.address;
  }

  get redis(): Redis {
    return this.#redis as Redis;
  }

  get isUp(): boolean {
    return this.#isReady && this.#lost === undefined && !isSilent(this.redis);
  }

  get stream(): number | undefined {
    return this.#stream;
  }

  /** False if its slot, with its streams, has moved. */
  get hasMarker(): boolean {
    return this.#marker === undefined || this.spec.has(this.#marker.slot);
  }

  /** Asks Redis if none was seen lately: one may have just connected. */
  async hasReplica(): Promise<boolean> {
    if (!this.#replicas.isConnected) await this.countReplicas();
    return this.#replicas.isConnected;
  }

  /** Why no write can be acknowledged, if REDIS_REPLICAS asks for more replicas than keep up. */
  get tooFewReplicas(): Error | undefined {
    return this.#replicas.tooFew;
  }

  get lost(): DeploymentLostError | undefined {
    return this.#lost;
  }

  get trouble(): Error | undefined {
    if (this.#lost !== undefined) return this.#lost;
    return this.isUp ? (this.#failed ?? this.tooFewReplicas) : new ServiceError('unavailable');
  }

  get isCircuitOpen(): boolean {
    if (this.#lost !== undefined) return true;
    return !this.#isReady && performance.now() - this.#downSince > this.spec.timeoutMs;
  }

  /** The last moment, in the node's clock, at which a call may be applied. */
  lastMoment(deadline: number): number {
    return Math.floor(this.clock.at(deadline) - this.spec.timeoutMs * REPLY_SHARE);
  }

  /** Takes over a new connection: a cluster's client may reconnect to the same address. */
  adopt(redis: Redis): void {
    if (this.#redis === redis) return;
    this.#redis = redis;
    this.#down();
    redis.on('close', () => {
      if (this.#redis === redis) this.#down();
    });
    redis.on('ready', () => void this.#prepare(redis));
    if (redis.status === 'ready') void this.#prepare(redis);
    else if (redis.status === 'wait') redis.connect().catch(() => {}); // an error event follows
  }

  cut(): void {
    if (!this.#isReady) return;
    this.#down();
    this.redis.disconnect(true);
  }

  /** @throws DeploymentLostError, and errors of the call */
  async check(redis = this.redis): Promise<void> {
    const deadline = performance.now() + this.spec.timeoutMs;
    const probed = Promise.all([this.#probe(redis, deadline), this.countReplicas(redis)]);
    const [found] = await before(deadline, probed).catch((error) => {
      this.#failed = error;
      if (isReadOnly(error)) this.cut();
      throw error;
    });
    this.#failed = undefined;
    const { address, onError } = this.spec;
    if (found) {
      this.#lost = undefined;
      return;
    }
    const isNews = this.#lost === undefined;
    this.#lost ??= new DeploymentLostError(this.#marker === this.spec.markers.meta ? undefined : address);
    if (isNews) onError(this.#lost);
    throw this.#lost;
  }

  /**
   * Resolves when `count` replicas have everything sent so far.
   *
   * WAIT blocks the connection. One at a time lets a read or a probe wait for one of them, not for all: callers share
   * the next one, for as many replicas and as late a deadline as any of them needs.
   */
  async replicated(count: number, deadline: number): Promise<void> {
    const next = this.#nextWaitFor;
    this.#nextWaitFor = { count: Math.max(next.count, count), deadline: Math.max(next.deadline, deadline) };
    if (this.#nextWait === undefined) {
      const { stream } = this.redis;
      // Begins in a microtask at the earliest: after all batches of this tick.
      this.#nextWait = this.#wait.then(() => this.#waitForReplicas(stream));
      this.#wait = this.#nextWait.catch(() => {});
    }
    const reached = await this.#nextWait;
    if (reached < count) throw new Error(`NOREPLICAS ${reached} of ${count} replicas have a write in time.`);
  }

  /** @returns how many replicas have everything sent so far */
  async #waitForReplicas(stream: Redis['stream']): Promise<number> {
    const { count, deadline } = this.#nextWaitFor;
    this.#nextWait = undefined;
    this.#nextWaitFor = { count: 0, deadline: 0 };
    const { redis } = this;
    // Another connection may lead to another master, whose replicas say nothing about these writes.
    if (redis.stream !== stream) throw new Error('Connection is closed.');
    // The last WAIT was in vain: another one would only hold up reads.
    if (this.tooFewReplicas) throw this.tooFewReplicas;
    const began = performance.now();
    // WAIT covers the connection's writes so far. A repeated batch may have written nothing, so this writes.
    const write = async ({ key, digest }: NodeMarker) => {
      try {
        return await redis.eval(PROBE_AT_MAXMEMORY.source, 1, key, this.lastMoment(deadline), digest);
      } catch (error) {
        // The marker's slot is migrating. Rethrown, this would look like a redirection of the applied batch.
        if (redirectionOf(error as Error) === undefined) throw error;
        return undefined;
      }
    };
    const wait = async (): Promise<[wrote: unknown, reached: number]> => {
      for (;;) {
        const ms = Math.floor(deadline - performance.now() - this.spec.timeoutMs * (1 - WAIT_SHARE));
        const written = write(this.#marker as NodeMarker);
        const waited = redis.wait(count, Math.max(1, ms)); // 0 waits for ever
        const [wrote, reached] = await Promise.all([written, waited]);
        if (wrote !== undefined || ms <= RETRY_MS) return [wrote, reached];
        await sleep(RETRY_MS);
      }
    };
    const [wrote, reached] = await wait().finally(() => this.spec.onReplicated?.(performance.now() - began));
    if (reached < count) this.#replicas.late();
    else if (wrote !== 1) throw new ServiceError('unavailable');
    return reached;
  }

  #down(): void {
    const { timeoutMs } = this.spec;
    if (this.#isReady) this.#downSince = performance.now() - (isSilent(this.redis) ? timeoutMs : 0);
    this.#isReady = false;
    this.#replicas.forget();
  }

  async #prepare(redis: Redis): Promise<void> {
    const { stream } = redis;
    const isCurrent = () => this.#redis === redis && redis.stream === stream && redis.status === 'ready';
    let reported = '';
    while (isCurrent()) {
      try {
        await this.clock.measure(redis);
        await this.check(redis);
        break;
      } catch (error) {
        if (error instanceof DeploymentLostError || !isAway(error as Error)) break;
        const { message } = error as Error;
        if (message !== reported) this.spec.onError(error as Error);
        reported = message;
        await sleep(RETRY_MS);
        if (!isReadOnly(error as Error) || !isCurrent()) continue;
        redis.disconnect(true);
        return;
      }
    }
    if (isCurrent()) this.#isReady = true;
  }

  async #probe(redis: Redis, deadline: number): Promise<boolean> {
    const { markers, has } = this.spec;
    for (;;) {
      // A missing marker is probed until it is back, or its slot has moved.
      const isHere = this.#marker !== undefined && has(this.#marker.slot);
      const marker = isHere ? this.#marker : ((await markers.find(has)) ?? (await markers.make(redis, has)));
      if (marker === undefined) return true; // it has no data
      this.#marker = marker;
      const { key, digest, stream } = marker;
      try {
        const reply = await runScript(redis, PROBE, [key], [this.lastMoment(deadline), digest]);
        if (reply === 1) {
          this.#stream = stream;
          markers.name(marker).catch(() => {}); // the next probe repeats it
          return true;
        }
        if (reply === LUA.EXPIRED) await this.clock.measure(redis);
        else if (await markers.isNamed(marker)) return false;
        else this.#marker = undefined;
      } catch (error) {
        const redirection = redirectionOf(error as Error);
        if (redirection === undefined) throw error;
        // The marker may be at either node.
        if (redirection.kind === 'ASK') return true;
        this.spec.onMoved(redirection.slot, redirection.address);
        await sleep(RETRY_MS);
      }
      if (performance.now() >= deadline) throw new ServiceError('unavailable');
    }
  }

  async countReplicas(redis = this.redis): Promise<void> {
    const replication = await redis.info('replication').catch((error) => {
      if (!isForbidden(error) || this.spec.replicas > 0) throw error;
      return ''; // needed only by merges
    });
    this.#replicas.read(replication);
  }
}

function isAway(error: Error): boolean {
  return error instanceof ServiceError || isPassing(error);
}
