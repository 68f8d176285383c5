// Records events: encodes each one once and appends it to its shard.

import type { Batcher } from '../redis/batcher.js';
import { type Append, shardOf } from './appender.js';
import type { Recording } from './recording.js';
import { encodeMerge } from './row.js';

export class Recorder {
  readonly #appends: Batcher<Append, unknown>;
  readonly #recordings: Batcher<Recording, string | undefined> | undefined;
  readonly #shards: number;

  /**
   * @param recordings absent on a cluster, where visitors and streams are in different slots
   * @param shards streams that new events are spread over
   */
  constructor(
    appends: Batcher<Append, unknown>,
    recordings: Batcher<Recording, string | undefined> | undefined,
    shards: number,
  ) {
    this.#appends = appends;
    this.#recordings = recordings;
    this.#shards = shards;
  }

  /** Whether `recordOf` works here. */
  get recordsOf(): boolean {
    return this.#recordings !== undefined;
  }

  /**
   * Resolves when Redis has the event, or to the profile that the visitor has instead; then nothing was recorded.
   * @param line from encodeEvent
   * @throws as `append`
   */
  recordOf(name: string, profileId: string, own: boolean, line: string): Promise<string | undefined> {
    const shard = shardOf(profileId, this.#shards);
    const recordings = this.#recordings as Batcher<Recording, string | undefined>;
    return recordings.run({ name, profileId, own, line, shard });
  }

  /** Records that a profile was merged into another. Analysts see it in `profile_merges`, not in `events`. */
  async recordMerge(from: string, heir: string): Promise<void> {
    await this.append(encodeMerge(from, heir), from);
  }

  /**
   * Resolves when Redis has the event.
   * @param line from encodeEvent
   * @throws ServiceError `overloaded` at the high-water mark, `unavailable`
   */
  async append(line: string, profileId: string): Promise<void> {
    await this.#appends.run({ line, shard: shardOf(profileId, this.#shards) });
  }
}
