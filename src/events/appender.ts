// Appends events to the stream: the lines of one event-loop turn are one entry of a shard.

import { ServiceError } from '../errors.js';
import type { Batched, BatchFormat } from '../redis/batcher.js';
import type { Keys } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';
import { eventTypeOf } from './row.js';

export interface Append extends Batched<unknown> {
  /** From encodeEvent. */
  readonly line: string;
  readonly shard: number;
}

/** Told of events that are in a stream, by their type. */
export type OnRecorded = (type: string, events: number) => void;

/** Answers 1; `overloaded` where the shard's stream is at its high-water mark (bytes). */
export function appendFormat(
  keys: Keys,
  highWater: number,
  onRecorded?: OnRecorded,
): BatchFormat<Append, unknown> {
  return {
    script: loadScript('append'),
    tag: ({ shard }) => `e${shard}`,
    mixesTags: false,
    writes: () => true,
    size: ({ line }) => line.length,
    encode(appends, call) {
      const { shard } = appends[0] as Append;
      call.key(keys.events(shard));
      call.key(keys.eventsState(shard));
      call.arg(highWater);
      call.arg(appends.length);
      call.arg(appends.map((append) => append.line).join(''));
    },
    decode(appends, reply) {
      const answer = reply === LUA.FULL ? new ServiceError('overloaded') : reply;
      if (reply !== LUA.FULL && onRecorded !== undefined)
        for (const { line } of appends) onRecorded(eventTypeOf(line), 1);
      return new Array(appends.length).fill(answer);
    },
  };
}
