// Meetings in Redis: all of an event-loop turn go to lua/meet.lua in one call (on a cluster, one for each bucket).

import type { Batched, Batcher, BatchFormat } from '../redis/batcher.js';
import { bucketOf, type Keys } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';

/** An identity that is met; it is answered with a number of lua/meet.lua. */
export interface Meeting extends Batched<number> {
  /** See identityName. */
  readonly name: string;
  /** Its own profile. */
  readonly own: string;
  /** Seconds of a day. */
  readonly dayS: string;
}

export type MeetBatch = Batcher<Meeting, number>;

export function meetFormat(keys: Keys, isCluster: boolean): BatchFormat<Meeting, number> {
  return {
    script: loadScript('meet'),
    tag: ({ own }) => bucketOf(own),
    mixesTags: !isCluster,
    writes: () => true,
    encode(meetings, call) {
      let lines = '';
      for (const { name, own, dayS } of meetings) {
        call.key(keys.ids(bucketOf(own)));
        call.key(keys.door(own));
        lines += `${name}\n${dayS}\n`;
      }
      call.arg(lines);
    },
    decode: (_, reply) => reply as number[],
  };
}
