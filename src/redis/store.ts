// Redis as the rest of the program uses it: one connection, its clock, the deployment's keys, and
// single script calls that fail as the contract says. Calls made through `run` must be safe to repeat;
// what must not be repeated goes through a Batcher.

import { ServiceError, StartupError } from '../errors.js';
import { Batcher, type BatchFormat } from './batcher.js';
import { connectRedis, type RedisClient, type RedisConnection } from './client.js';
import { RedisClock } from './clock.js';
import { type Deployment, openDeployment } from './deployment.js';
import { isTimeout, toServiceError } from './failures.js';
import { createKeys, type Keys } from './keys.js';
import { Presence } from './presence.js';
import { runScript, type Script, type ScriptArg } from './scripts.js';

export interface StoreOptions extends RedisConnection {
  readonly keyPrefix: string;
  readonly buckets: number;
  readonly eventShards: number;
  /** Told of the connection's errors, and of a DeploymentLostError. */
  readonly onError: (error: Error) => void;
  /** Told how long each single call took, in milliseconds, failed ones too. */
  readonly onCall?: (ms: number) => void;
  /** Told of the salt that Redis holds, undefined where it holds none, before anything is made; throws to refuse it. */
  readonly confirm?: (salt: string | undefined) => void;
}

/** Operations waiting or in flight, per batcher, at which requests get 503. About 2 KB each. */
const MAX_PENDING = 20_000;

/** A start meets a Redis that is slow for a moment; one that is not there at all is told at once. */
const PATIENCE_MS = 5_000;

export class Store {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly deployment: Deployment;
  readonly isCluster: boolean;
  readonly #clock: RedisClock;
  readonly #presence: Presence;
  readonly #timeoutMs: number;
  readonly #onCall: ((ms: number) => void) | undefined;

  private constructor(
    client: RedisClient,
    keys: Keys,
    deployment: Deployment,
    clock: RedisClock,
    options: StoreOptions,
  ) {
    this.client = client;
    this.keys = keys;
    this.deployment = deployment;
    this.isCluster = options.urls.length > 1;
    this.#clock = clock;
    this.#timeoutMs = options.timeoutMs;
    this.#onCall = options.onCall;
    this.#presence = new Presence({
      client,
      clock,
      metaKey: keys.meta,
      salt: deployment.salt,
      patienceMs: options.timeoutMs,
      onError: options.onError,
    });
  }

  /** @throws StartupError where Redis does not answer, or holds a deployment that this program can't serve. */
  static async open(options: StoreOptions): Promise<Store> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        return await Store.#open(options);
      } catch (error) {
        if (error instanceof StartupError) throw error;
        const { message } = error as Error;
        if (!isTimeout(error as Error) || performance.now() > deadline)
          throw new StartupError(`Redis does not answer: ${message.replace(/\.$/, '')}.`);
      }
    }
  }

  static async #open(options: StoreOptions): Promise<Store> {
    const client = await connectRedis(options, options.onError);
    try {
      const keys = createKeys(options.keyPrefix);
      options.confirm?.((await client.hget(keys.meta, 'salt')) ?? undefined);
      const deployment = await openDeployment(client, keys, options);
      const clock = new RedisClock();
      await clock.measure(client);
      return new Store(client, keys, deployment, clock, options);
    } catch (error) {
      client.disconnect();
      throw error;
    }
  }

  /** @throws ServiceError `unavailable` where Redis does not answer or refuses. */
  run(script: Script, keys: readonly string[], args: readonly ScriptArg[]): Promise<unknown> {
    return this.call((client) => runScript(client, script, keys, args));
  }

  /** One plain command, or a few. @throws ServiceError `unavailable` where Redis does not answer or refuses. */
  async call<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    if (!this.#presence.isUp) throw new ServiceError('unavailable');
    const started = performance.now();
    try {
      return await command(this.client);
    } catch (error) {
      throw toServiceError(error as Error);
    } finally {
      this.#onCall?.(performance.now() - started);
    }
  }

  batcher<Op, Answer>(
    format: BatchFormat<Op, Answer>,
    onBatch?: (size: number, ms: number) => void,
  ): Batcher<Op, Answer> {
    return new Batcher(format, {
      client: this.client,
      clock: this.#clock,
      presence: this.#presence,
      laneKey: this.keys.lane,
      isCluster: this.isCluster,
      timeoutMs: this.#timeoutMs,
      maxPending: MAX_PENDING,
      ...(onBatch ? { onBatch } : {}),
    });
  }

  /** @throws where Redis does not answer in time, or has lost what it held. */
  async ping(): Promise<void> {
    await this.#presence.look();
  }

  close(): void {
    this.#presence.close();
    this.client.disconnect();
  }
}
