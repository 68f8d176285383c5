// Records events: encodes each one once and appends it to its shard.

import type { Place } from '../redis/at-profile.js';
import type { Batcher } from '../redis/batcher.js';
import { type Append, shardOf } from './appender.js';
import type { Recording } from './recording.js';

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

  /**
   * Resolves when Redis has the event, or to where the visitor is instead (see lua/record.lua); then nothing was
   * recorded.
   * @param place where the visitor is expected; its door is checked only on one server
   * @throws as `append`
   */
  record(place: Place, line: string): Promise<string | undefined> {
    if (this.#recordings === undefined || place.checked === '')
      return this.append(line, place.profileId) as Promise<undefined>;
    return this.#recordings.run({ place, line, shard: shardOf(place.profileId, this.#shards) });
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
