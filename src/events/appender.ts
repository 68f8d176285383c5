// Appends lines to streams with nothing to check: what can't be appended in the step that it belongs to. The lines of one
// event-loop turn are one entry of a stream.

import { ServiceError } from '../errors.js';
import type { Batched, BatchFormat } from '../redis/batcher.js';
import { type Keys, tagOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';

export interface Append extends Batched<unknown> {
  /** From encodeEvent, or visitLine. */
  readonly line: string;
  /** Number of the stream. */
  readonly stream: number;
}

/** Told of events that are in a stream, by their type. */
export type OnRecorded = (type: string, events: number) => void;

/** Fields of an entry that have its lines. */
const FIELDS = { events: 'd', visits: 'v' } as const;

/** Answers 1; `overloaded` where a stream is at its high-water mark (bytes). */
export function appendFormat(
  keys: Keys,
  kind: 'events' | 'visits',
  highWater: number,
): BatchFormat<Append, unknown> {
  const { events, eventsState } = kind === 'events' ? keys : keys.visits;
  return {
    script: loadScript('append'),
    tag: ({ stream }) => tagOf(events(stream)),
    mixesTags: false,
    writes: () => true,
    size: ({ line }) => line.length,
    encode(appends, call) {
      const { stream } = appends[0] as Append;
      call.key(events(stream));
      call.key(eventsState(stream));
      call.arg(highWater);
      call.arg(FIELDS[kind]);
      call.arg(appends.length);
      call.arg(appends.map(({ line }) => line).join(''));
    },
    decode: (appends, reply) =>
      new Array(appends.length).fill(reply === LUA.FULL ? new ServiceError('overloaded') : reply),
  };
}
