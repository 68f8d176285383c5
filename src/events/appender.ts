// Appends lines to the stream of a profile's node, one entry per tick. The profile isn't checked.

import { overloaded } from '../errors.js';
import { linkedAt } from '../profiles/link.js';
import type { AppendMerge } from '../profiles/merge.js';
import type { Batched, BatchFormat } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import { bucketOf, tagOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { eventIdOfName } from './event-id.js';
import { encodeMerge } from './row.js';

export interface Append extends Batched<unknown> {
  readonly line: string;
  readonly profileId: string;
  /** Set by `tag`. */
  stream?: number;
}

export type OnRecorded = (type: string, events: number) => void;

export function appendFormat(
  store: Pick<Store, 'keys' | 'addressOf' | 'streamAt'>,
  highWater: number,
): BatchFormat<Append, unknown> {
  const { events, eventsState } = store.keys;
  return {
    script: loadScript('events/appendEvents'),
    tag(append) {
      append.stream = store.streamAt(store.addressOf(bucketOf(append.profileId)));
      return tagOf(events(append.stream));
    },
    mixesTags: false,
    writes: () => true,
    size: ({ line }) => line.length,
    encode(appends, call) {
      const stream = (appends[0] as Append).stream as number;
      call.key(events(stream));
      call.key(eventsState(stream));
      call.arg(highWater);
      call.arg(appends.length);
      call.arg(appends.map(({ line }) => line).join(''));
    },
    decode: (appends, reply) =>
      new Array(appends.length).fill(reply === LUA.FULL ? overloaded('stream') : reply),
  };
}

export function mergeAppender(appends: Batcher<Append, unknown>): AppendMerge {
  return (session, link, isNew) => {
    const { customer: into, id } = link;
    const at = linkedAt(id);
    const line = encodeMerge(eventIdOfName(at, `${id} ${session} ${into}`), at, session, { into, isNew });
    return appends.run({ profileId: into, line });
  };
}
