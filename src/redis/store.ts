// Redis as the rest of the program uses it: the connection, the deployment's keys, and single script calls that fail as
// the contract says. All calls may be sent again (sender.ts): `run` reads, scripts of `change` are safe to repeat, and
// what must not be repeated goes through a Batcher.

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
  /** Other than BUCKETS in tests. */
  readonly buckets?: number;
  /** Seconds for which a guest stays after its last write, 0: for ever. Left out by a process that makes no guest. */
  readonly guestsS?: number;
  /** Replicas that must have a change before it is answered; 0 by default. */
  readonly replicas?: number;
  /** Told of the connection's errors, and of a DeploymentLostError. */
  readonly onError: (error: Error) => void;
  /** Told how long each single call took, in milliseconds, failed ones too; `command` stands for one without a script. */
  readonly onCall?: (script: string, ms: number) => void;
  /** Told how long each wait for replicas took, in milliseconds, failed ones too. */
  readonly onReplicated?: (ms: number) => void;
  /** Milliseconds between two looks at every master; of health.ts where it is left out. */
  readonly verifyMs?: number;
  /** Told of the salt that Redis holds, undefined where it holds none, before anything is made; throws to refuse it. */
  readonly confirm?: (salt: string | undefined) => void;
}

/** Operations waiting or in flight, per batcher, at which requests get 503. About 2 KB each. */
const MAX_PENDING = 20_000;

const AGAIN_MS = 10;

/** A start meets a Redis that is slow for a moment; one that is not there at all is told at once. */
const START_TIMEOUT_MS = 5_000;

export class Store {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly deployment: Deployment;
  /** One server has all keys: a script may check a link and act at its profile in one step. */
  readonly isOneServer: boolean;
  #isClosed = false;
  readonly #health: RedisHealth;
  readonly #sender: Sender;
  /** Milliseconds that a call may take. */
  readonly timeoutMs: number;
  /** Seconds for which a guest stays after its last write; 0: for ever. */
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
    this.#health = new RedisHealth({ client, keys, salt, timeoutMs, onError, onReplicated, verifyMs });
    this.#sender = new Sender(this.#health, replicas);
  }

  /** @throws StartupError where Redis does not answer, or holds a deployment that this program can't serve. */
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
        // A cluster's nodes agree one after the other that all slots are served.
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

  /** A script that only reads. @throws ServiceError `unavailable` where Redis does not answer or refuses. */
  run<Reply>(script: Script<Reply>, keys: readonly string[], args: readonly ScriptArg[]): Promise<Reply> {
    return this.#send(script, keys, args, () => [], false);
  }

  /**
   * A script that changes something: safe to repeat, and refused by itself once its caller was told that it failed.
   * Its ARGV[1] is the deadline, in milliseconds of the clock of the node that has `keys[0]`; it answers EXPIRED past it.
   * @throws ServiceError `unavailable`
   */
  change<Reply>(script: Script<Reply>, keys: readonly string[], args: readonly ScriptArg[]): Promise<Reply> {
    return this.#send(script, keys, args, (lastMoment) => [lastMoment], true);
  }

  async #send<Reply>(
    script: Script<Reply>,
    keys: readonly string[],
    args: readonly ScriptArg[],
    numbers: (lastMoment: number) => readonly number[],
    writes: boolean,
  ): Promise<Reply> {
    if (this.#health.isCircuitOpen) throw new ServiceError('unavailable');
    const call = new ScriptCall(script);
    for (const key of keys) call.key(key);
    for (const arg of args) call.arg(arg);
    const started = performance.now();
    try {
      return (await this.#sender.send(call, started + this.timeoutMs, numbers, writes)) as Reply;
    } finally {
      this.#onCall?.(script.name, performance.now() - started);
    }
  }

  /** Plain commands that only read: they are sent again while that may help. @throws ServiceError `unavailable` */
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

  /**
   * Seconds for which a guest stays after its last write, 0: for ever, as the `serve` that started last was told.
   * @throws ServiceError `unavailable`
   */
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
      laneKey: this.keys.lane,
      nodeTag: this.#nodeTag,
      isCluster: !this.isOneServer,
      timeoutMs: this.timeoutMs,
      maxPending: MAX_PENDING,
      ...(onBatch ? { onBatch } : {}),
    });
  }

  /** Every master as it was found last, in the last two seconds. */
  get masters(): readonly MasterState[] {
    return this.#health.masters;
  }

  /** Every master as it is found now. */
  async look(): Promise<readonly MasterState[]> {
    await this.#health.look();
    return this.masters;
  }

  /** Numbers of the streams that are a master's own. */
  get ownStreams(): ReadonlySet<number> {
    return this.#health.streams;
  }

  /** Of the master that has a hash tag's slot, where that is up; undefined on one server. */
  addressOf(tag: string): string | undefined {
    return this.#health.addressOf(tag);
  }

  /** Number of the streams at a node, see StreamKeys. @param address undefined on one server */
  readonly streamAt = (address: string | undefined): number => this.#health.streamAt(address) ?? 0;

  readonly #nodeTag = (address: string): string | undefined => {
    const stream = this.#health.streamAt(address);
    return stream === undefined ? undefined : tagOf(this.keys.events(stream));
  };

  /** Milliseconds of a node's clock at a time of our monotonic one. @param address undefined on one server */
  timeAt(address: string | undefined, time: number): number {
    return this.#health.timeAt(address, time);
  }

  /**
   * Resolves when a replica of the master that has a hash tag's slot has what was written there up to now; at once if that master
   * has no replica. @throws ServiceError `unavailable`
   */
  onReplica(tag: string): Promise<void> {
    return this.#health.onReplica(tag, performance.now() + this.timeoutMs);
  }

  close(): void {
    this.#isClosed = true;
    this.#health.close();
    this.client.disconnect();
  }
}
