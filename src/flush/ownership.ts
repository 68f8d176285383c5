// Who owns a stream: claims, heartbeats and releases, under an epoch. Every script of an older epoch is refused.

import type { RedisClient } from '../redis/client.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript, runScript, type Script, type ScriptArg } from '../redis/scripts.js';

const CLAIM = loadScript('flush-claim');
const BEAT = loadScript('flush-beat');
const RELEASE = loadScript('flush-release');

/** Another process owns the stream by now. What this one holds of it is to be dropped. */
export class FencedError extends Error {
  constructor() {
    super('the stream has a newer owner');
    this.name = 'FencedError';
  }
}

/** A granted claim. */
export interface Claim {
  readonly epoch: string;
}

/** All methods throw FencedError where the epoch is no longer the stream's, and Redis's errors. */
export class Ownership {
  readonly #redis: RedisClient;
  readonly #state: string;

  /** @param state key of the hash that says who owns the stream */
  constructor(redis: RedisClient, state: string) {
    this.#redis = redis;
    this.#state = state;
  }

  /**
   * @param heldEpoch the epoch that this process held last
   * @param silentMs an owner without a heartbeat for so long counts as gone
   * @returns undefined where the stream has another owner that is alive
   */
  async claim(owner: string, heldEpoch: string | undefined, silentMs: number): Promise<Claim | undefined> {
    const reply = await runScript(this.#redis, CLAIM, [this.#state], [owner, heldEpoch ?? '', silentMs]);
    if (reply === LUA.FENCED) return undefined;
    return { epoch: reply as string };
  }

  async beat(epoch: string): Promise<void> {
    await this.fenced(BEAT, [this.#state], [epoch]);
  }

  async release(epoch: string): Promise<void> {
    await this.fenced(RELEASE, [this.#state], [epoch]);
  }

  /** Runs a script that does nothing under an older epoch. */
  async fenced(
    script: Script,
    keys: readonly string[],
    args: readonly (ScriptArg | Buffer)[],
  ): Promise<unknown> {
    const reply = await runScript(this.#redis, script, keys, args);
    if (reply === LUA.FENCED) throw new FencedError();
    return reply;
  }
}
