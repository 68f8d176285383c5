// Access to Redis. All calls may be repeated (sender.ts): `run` only reads, scripts of `change` are idempotent, others
// use a Batcher. Any call may reject with ServiceError `unavailable`; callers don't document it.

import { setTimeout as sleep } from 'node:timers/promises';
import { ServiceError, StartupError } from '../errors.js';
import type { Batched, BatchFormat } from './batch-calls.js';
import { Batcher } from './batcher.js';
import { connectRedis, type RedisClient, type RedisConnection } from './client.js';
import { before } from './deadline.js';
import { type Deployment, openDeployment } from './deployment.js';
import { isPassing, toServiceError, toStartupError } from './failures.js';
import { type MasterState, RedisHealth } from './health.js';
import { createKeys, type Keys, tagOf } from './keys.js';
import { ScriptCall } from './script-call.js';
import type { Script, ScriptArg } from './scripts.js';
import { Sender } from './sender.js';
import { SilentConnectionError } from './silence.js';

export interface StoreOptions extends RedisConnection {
  readonly keyPrefix: string;
  /** For tests. */
  readonly buckets?: number;
  /** Seconds until a guest expires; 0 means never. Absent if the process creates no guests. */
  readonly guestsS?: number;
  /** Replicas that must have a change before it is answered. */
  readonly replicas?: number;
  readonly onError: (error: Error) => void;
  readonly onCall?: (script: string, ms: number) => void;
  readonly onReplicated?: (ms: number) => void;
  /** For tests. */
  readonly verifyMs?: number;
  /** Called with the stored salt before anything is written; throws to refuse it. */
  readonly confirm?: (salt: string | undefined) => void;
}

/** Pending operations of a batcher; each takes about 2 KB. */
const MAX_PENDING = 20_000;

const AGAIN_MS = 10;

/** Milliseconds to wait for a slow Redis at the start. If there is none, the start fails immediately. */
const START_TIMEOUT_MS = 5_000;

export class Store {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly deployment: Deployment;
  readonly isOneServer: boolean;
  #isClosed = false;
  readonly #health: RedisHealth;
  readonly #sender: Sender;
  readonly timeoutMs: number;
  readonly guestsS: number;
  readonly #onCall: ((script: string, ms: number) => void) | undefined;

  private constructor(client: RedisClient, keys: Keys, deployment: Deployment, options: StoreOptions) {
    this.client = client;
    this.keys = keys;
    this.deployment = deployment;
    this.isOneServer = !client.isCluster;
    this.timeoutMs = options.timeoutMs;
    this.guestsS = options.guestsS ?? 0;
    this.#onCall = options.onCall;
    const { timeoutMs, onError, onReplicated, verifyMs, replicas = 0 } = options;
    const { salt } = deployment;
    this.#health = new RedisHealth({
      client,
      keys,
      salt,
      timeoutMs,
      replicas,
      onError,
      onReplicated,
      verifyMs,
    });
    this.#sender = new Sender(this.#health, replicas);
  }

  /** @throws StartupError if Redis does not answer, its version or schema doesn't fit, or `confirm` refuses it */
  static async open(options: StoreOptions): Promise<Store> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      let isSlow = false;
      const onError = (error: Error) => {
        if (error instanceof SilentConnectionError || /ETIMEDOUT/.test(error.message)) isSlow = true;
        options.onError(error);
      };
      try {
        return await Store.#open({ ...options, onError });
      } catch (error) {
        if (error instanceof StartupError) throw error;
        const { message } = error as Error;
        // Nodes of a starting cluster learn one by one that all slots are served.
        const isShort = isSlow || message.startsWith('CLUSTERDOWN');
        if (!isShort || performance.now() > deadline) throw toStartupError(error as Error);
      }
    }
  }

  static async #open(options: StoreOptions): Promise<Store> {
    const client = await connectRedis(options, options.onError);
    try {
      const keys = createKeys(options.keyPrefix);
      options.confirm?.((await client.hget(keys.meta, 'salt')) ?? undefined);
      const deployment = await openDeployment(client, keys, options);
      const store = new Store(client, keys, deployment, options);
      await store.#health.opened();
      return store;
    } catch (error) {
      client.disconnect();
      throw error;
    }
  }

  run<Reply>(script: Script<Reply>, keys: readonly string[], args: readonly ScriptArg[]): Promise<Reply> {
    return this.#send(false, script, keys, args);
  }

  /** For idempotent scripts. ARGV[1] is the deadline by the clock of the node of `keys[0]`. */
  change<Reply>(script: Script<Reply>, keys: readonly string[], args: readonly ScriptArg[]): Promise<Reply> {
    return this.#send(true, script, keys, args);
  }

  async #send<Reply>(
    writes: boolean,
    script: Script<Reply>,
    keys: readonly string[],
    args: readonly ScriptArg[],
  ): Promise<Reply> {
    if (this.#health.isCircuitOpen) throw new ServiceError('unavailable');
    const call = new ScriptCall(script);
    for (const key of keys) call.key(key);
    for (const arg of args) call.arg(arg);
    const numbers = (lastMoment: number) => (writes ? [lastMoment] : []);
    const started = performance.now();
    try {
      return (await this.#sender.send(call, started + this.timeoutMs, numbers, writes)) as Reply;
    } finally {
      this.#onCall?.(script.name, performance.now() - started);
    }
  }

  async call<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    const started = performance.now();
    const deadline = started + this.timeoutMs;
    try {
      for (;;) {
        if (this.#health.isCircuitOpen || this.#isClosed) throw new ServiceError('unavailable');
        try {
          if (this.#health.isUp) return await before(deadline, command(this.client));
        } catch (error) {
          if (!isPassing(error as Error)) throw toServiceError(error as Error);
        }
        if (performance.now() + AGAIN_MS >= deadline) throw new ServiceError('unavailable');
        await sleep(AGAIN_MS);
      }
    } finally {
      this.#onCall?.('command', performance.now() - started);
    }
  }

  /** Seconds until a guest expires, from the `serve` that started last; 0 means never. */
  async guestRetentionS(): Promise<number> {
    return Number(await this.call((client) => client.hget(this.keys.meta, 'guestsS')));
  }

  batcher<Op extends Batched<Answer>, Answer>(
    format: BatchFormat<Op, Answer>,
    onBatch?: (size: number, ms: number) => void,
  ): Batcher<Op, Answer> {
    return new Batcher(format, {
      sender: this.#sender,
      health: this.#health,
      senderChannelKey: this.keys.senderChannel,
      nodeTag: this.#nodeTag,
      isCluster: !this.isOneServer,
      timeoutMs: this.timeoutMs,
      maxPending: MAX_PENDING,
      ...(onBatch ? { onBatch } : {}),
    });
  }

  get masters(): readonly MasterState[] {
    return this.#health.masters;
  }

  async check(): Promise<readonly MasterState[]> {
    await this.#health.check();
    return this.masters;
  }

  get ownStreams(): ReadonlySet<number> {
    return this.#health.streams;
  }

  addressOf(tag: string): string | undefined {
    return this.#health.addressOf(tag);
  }

  readonly streamAt = (address: string | undefined): number => this.#health.streamAt(address) ?? 0;

  readonly #nodeTag = (address: string): string | undefined => {
    const stream = this.#health.streamAt(address);
    return stream === undefined ? undefined : tagOf(this.keys.events(stream));
  };

  timeAt(address: string | undefined, time: number): number {
    return this.#health.timeAt(address, time);
  }

  /** Milliseconds of Redis's clock. */
  get now(): number {
    return this.timeAt(undefined, performance.now());
  }

  close(): void {
    this.#isClosed = true;
    this.#health.close();
    this.client.disconnect();
  }
}
