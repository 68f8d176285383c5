// Records events of visitors in one call to Redis: is this still the visitor's profile, and if so, append. Its keys
// are in many slots, so on a cluster it takes two calls, one after the other (see Recorder.record).

import { ServiceError } from '../errors.js';
import type { Batched, BatchFormat } from '../redis/batcher.js';
import type { Keys } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';
import type { OnRecorded } from './appender.js';

/** An event, and whose it is as far as is known here. */
export interface Recording extends Batched<string | undefined> {
  readonly type: string;
  /** From encodeEvent. */
  readonly line: string;
  readonly shard: number;
  /** The profile that the line names, and whether the visitor is expected at its room; else at home. */
  readonly profileId: string;
  readonly isRoom: boolean;
  /** At a room: what the door must say. */
  readonly field: string;
  /** Own profile of the identity whose door is checked. */
  readonly own: string;
}

/**
 * Answers where the visitor is instead (nothing was recorded), or undefined; `overloaded` at the mark.
 * @param guestsS see StoreOptions
 */
export function recordingFormat(
  keys: Keys,
  highWater: number,
  guestsS: number,
  onRecorded?: OnRecorded,
): BatchFormat<Recording, string | undefined> {
  return {
    script: loadScript('record'),
    tag: ({ shard }) => `e${shard}`,
    mixesTags: false,
    writes: () => true,
    size: ({ line }) => line.length,
    encode(recordings, call) {
      const { shard } = recordings[0] as Recording;
      call.key(keys.events(shard));
      call.key(keys.eventsState(shard));
      let visitors = '';
      let lines = '';
      for (const recording of recordings) {
        const { profileId, isRoom, own, field } = recording;
        visitors += `${keys.door(own)}\n${isRoom ? `${field}\n${keys.profile(profileId)}` : '\n'}\n`;
        lines += recording.line;
      }
      call.arg(highWater);
      call.arg(visitors);
      call.arg(lines);
      call.arg(guestsS);
    },
    decode(recordings, reply) {
      if (reply === LUA.FULL) return new Array(recordings.length).fill(new ServiceError('overloaded'));
      const answers = new Array<string | undefined>(recordings.length).fill(undefined);
      const list = reply as (number | string)[];
      for (let i = 0; i < list.length; i += 2) answers[(list[i] as number) - 1] = list[i + 1] as string;
      if (onRecorded !== undefined)
        for (const [i, { type }] of recordings.entries()) if (answers[i] === undefined) onRecorded(type, 1);
      return answers;
    },
  };
}
