// Records events: encodes each one once and appends it to its shard.

import type { Batcher } from '../redis/batcher.js';
import { type Append, shardOf } from './appender.js';
import { encodeEvent, encodeMerge, type NewEvent } from './row.js';

export class Recorder {
  readonly #appends: Batcher<Append, unknown>;
  readonly #shards: number;

  /** @param shards streams that new events are spread over */
  constructor(appends: Batcher<Append, unknown>, shards: number) {
    this.#appends = appends;
    this.#shards = shards;
  }

  /** Resolves when Redis has the event. @throws ServiceError `overloaded` at the high-water mark, `unavailable` */
  async record(event: NewEvent): Promise<void> {
    await this.append(encodeEvent(event), event.profileId);
  }

  /** Records that a profile was merged into another. Analysts see it in `profile_merges`, not in `events`. */
  async recordMerge(from: string, heir: string): Promise<void> {
    await this.append(encodeMerge(from, heir), from);
  }

  /** Appends a line that was encoded earlier. @throws as `record` */
  async append(line: string, profileId: string): Promise<void> {
    await this.#appends.run({ line, shard: shardOf(profileId, this.#shards) });
  }
}
