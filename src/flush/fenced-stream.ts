// One stream's scripts as functions: what the flusher does to Redis, each under its epoch.

import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { loadScript, type ScriptArg } from '../redis/scripts.js';
import { encodeManifest, type Manifest } from './manifest.js';
import { Ownership } from './ownership.js';

const PREPARE = loadScript('flush-prepare');
const FINALIZE = loadScript('flush-finalize');

/** A line that ClickHouse refused, without its newline. */
export interface Refused {
  readonly line: Buffer;
  /** ClickHouse's error code. */
  readonly code: number;
  readonly reason: string;
}

const NOT_OURS = 'not a batch of events: another program put it into the stream';

export class FencedStream extends Ownership {
  readonly #events: string;
  readonly #state: string;
  readonly #dead: string;

  constructor(redis: RedisClient, keys: StreamKeys, stream: number) {
    super(redis, keys.eventsState(stream));
    this.#events = keys.events(stream);
    this.#state = keys.eventsState(stream);
    this.#dead = keys.eventsDead(stream);
  }

  async prepare(epoch: string, manifest: Manifest): Promise<void> {
    await this.fenced(PREPARE, [this.#state], [epoch, encodeManifest(manifest)]);
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
    await this.fenced(FINALIZE, keys, [epoch, manifest.token, ...letters]);
  }
}
