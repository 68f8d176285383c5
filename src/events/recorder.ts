// Records events: brings their lines to the streams. On one server that is one step with the check of the visitor's
// door; on a cluster the door is asked before.

import type { Place } from '../redis/at-profile.js';
import type { Batcher } from '../redis/batcher.js';
import { type EventShards, shardOf } from '../redis/event-shards.js';
import type { Append } from './appender.js';
import type { Recording } from './recording.js';
import { eventTypeOf } from './row.js';

export class Recorder {
  readonly #appends: Batcher<Append, unknown>;
  readonly #recordings: Batcher<Recording, string | undefined> | undefined;
  readonly #shards: Pick<EventShards, 'current'>;

  /**
   * @param recordings absent on a cluster, where visitors and streams are in different slots
   * @param shards streams that new events are spread over
   */
  constructor(
    appends: Batcher<Append, unknown>,
    recordings: Batcher<Recording, string | undefined> | undefined,
    shards: Pick<EventShards, 'current'>,
  ) {
    this.#appends = appends;
    this.#recordings = recordings;
    this.#shards = shards;
  }

  /** Whether an event is recorded in one step with the check of its visitor's door: on one server. */
  get checksDoors(): boolean {
    return this.#recordings !== undefined;
  }

  /** The shard that has a profile's events. */
  shardOf(profileId: string): number {
    return shardOf(profileId, this.#shards.current);
  }

  /**
   * Records an event where that `checksDoors`, and tells it: undefined when Redis has it, or where the visitor is
   * instead (see lua/record.lua); then nothing was recorded.
   */
  add(recording: Recording): void {
    (this.#recordings as Batcher<Recording, string | undefined>).add(recording);
  }

  /**
   * As `add`, as a promise, and on a cluster, too.
   * @param place where the visitor is expected; its door is checked only on one server
   * @throws as `append`
   */
  record({ profileId, isRoom, checked, own, field }: Place, line: string): Promise<string | undefined> {
    if (this.#recordings === undefined || checked === '')
      return this.append(line, profileId) as Promise<undefined>;
    const shard = this.shardOf(profileId);
    const type = eventTypeOf(line);
    return this.#recordings.run({ profileId, isRoom, own, field, type, line, shard });
  }

  /**
   * Resolves when Redis has the event.
   * @param line from encodeEvent
   * @throws ServiceError `overloaded` at the high-water mark, `unavailable`
   */
  async append(line: string, profileId: string): Promise<void> {
    await this.#appends.run({ line, shard: this.shardOf(profileId) });
  }
}
