// One stream's scripts as functions: what the flusher does to Redis, each under its epoch.

import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript, runScript, type Script, type ScriptArg } from '../redis/scripts.js';
import { decodeManifest, encodeManifest, type Manifest } from './manifest.js';

const CLAIM = loadScript('flush-claim');
const BEAT = loadScript('flush-beat');
const PREPARE = loadScript('flush-prepare');
const FINALIZE = loadScript('flush-finalize');
const RELEASE = loadScript('flush-release');

/** Another flusher owns the stream by now. What this flusher holds of it is to be dropped. */
export class FencedError extends Error {
  constructor() {
    super('the stream has a newer owner');
    this.name = 'FencedError';
  }
}

/** A granted claim. */
export interface Claim {
  readonly epoch: string;
  /** The batch that was in flight; to be replayed before anything else. */
  readonly manifest: Manifest | undefined;
}

/** A line that ClickHouse refused, without its newline. */
export interface Refused {
  readonly line: Buffer;
  /** ClickHouse's error code. */
  readonly code: number;
  readonly reason: string;
}

const NOT_OURS = 'not a batch of events: another program put it into the stream';

/** All methods throw FencedError where the epoch is no longer the stream's, and Redis's errors. */
export class FencedStream {
  readonly #redis: RedisClient;
  readonly #events: string;
  readonly #state: string;
  readonly #dead: string;

  constructor(redis: RedisClient, keys: StreamKeys, stream: number) {
    this.#redis = redis;
    this.#events = keys.events(stream);
    this.#state = keys.eventsState(stream);
    this.#dead = keys.eventsDead(stream);
  }

  /**
   * @param heldEpoch the epoch that this process held last
   * @param silentMs an owner without a heartbeat for so long counts as gone
   * @returns undefined where the stream has another owner that is alive
   */
  async claim(owner: string, heldEpoch: string | undefined, silentMs: number): Promise<Claim | undefined> {
    const reply = await runScript(this.#redis, CLAIM, [this.#state], [owner, heldEpoch ?? '', silentMs]);
    if (reply === LUA.FENCED) return undefined;
    const [epoch, manifest] = reply as [string, string];
    return { epoch, manifest: manifest === '' ? undefined : decodeManifest(manifest) };
  }

  async beat(epoch: string): Promise<void> {
    await this.#run(BEAT, [this.#state], [epoch]);
  }

  async prepare(epoch: string, manifest: Manifest): Promise<void> {
    await this.#run(PREPARE, [this.#state], [epoch, encodeManifest(manifest)]);
  }

  /** @param foreignEntries entries that are not ours, see Batch */
  async finalize(
    epoch: string,
    manifest: Manifest,
    refused: readonly Refused[],
    foreignEntries: readonly string[] = [],
  ): Promise<void> {
    const letters: (ScriptArg | Buffer)[] = refused.flatMap(({ line, code, reason }) => [
      'line',
      code,
      reason,
      line,
    ]);
    for (const entry of foreignEntries) letters.push('entry', 0, NOT_OURS, entry);
    const keys = [this.#events, this.#state, this.#dead];
    await this.#run(FINALIZE, keys, [epoch, manifest.token, ...letters]);
  }

  async release(epoch: string): Promise<void> {
    await this.#run(RELEASE, [this.#state], [epoch]);
  }

  async #run(script: Script, keys: string[], args: (ScriptArg | Buffer)[]): Promise<unknown> {
    const reply = await runScript(this.#redis, script, keys, args);
    if (reply === LUA.FENCED) throw new FencedError();
    if (reply === LUA.MANIFEST) throw new Error('another batch is in flight than the one that was prepared');
    return reply;
  }
}
