// Records events, if the profile is still the visitor's: one call of lua/events/recordEvents.lua per node and tick.

import { overloaded } from '../errors.js';
import { type Batched, type BatchFormat, listedAnswers } from '../redis/batch-calls.js';
import { bucketOf } from '../redis/keys.js';
import type { Location } from '../redis/location.js';
import { LUA } from '../redis/lua-codes.js';
import { REMEMBERED_S } from '../redis/requests.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { OnRecorded } from './appender.js';

export interface Recording extends Location, Batched<string | undefined> {
  readonly type: string;
  /** Has the profile id of this location. */
  readonly line: string;
  /** The record that makes the event idempotent. */
  readonly recordId?: string | undefined;
}

/** A recording's answer is undefined, `overloaded`, or one of lua/events/recordEvents.lua. */
export function recordingFormat(
  { keys, guestsS, streamAt }: Pick<Store, 'keys' | 'guestsS' | 'streamAt'>,
  highWater: number,
  onRecorded?: OnRecorded,
): BatchFormat<Recording, string | undefined> {
  return {
    script: loadScript('events/recordEvents'),
    tag: ({ profileId }) => bucketOf(profileId),
    mixesTags: true,
    writes: () => true,
    size: ({ line }) => line.length,
    encode(recordings, call, address) {
      const stream = streamAt(address);
      let visitors = '';
      let lines = '';
      for (const { profileId, session, linkId, recordId, line } of recordings) {
        const record = recordId === undefined ? '' : keys.operation(profileId, recordId);
        visitors += `${keys.profile(profileId)}\n${session}\n${linkId}\n${record}\n`;
        lines += line;
      }
      call.arg(keys.events(stream));
      call.arg(keys.eventsState(stream));
      call.arg(highWater);
      call.arg(guestsS);
      call.arg(REMEMBERED_S);
      call.arg(visitors);
      call.arg(lines);
    },
    decode(recordings, reply) {
      if (reply === LUA.FULL) return new Array(recordings.length).fill(overloaded('stream'));
      const answers = listedAnswers<string>(recordings.length, reply);
      if (onRecorded !== undefined)
        for (const [i, { type }] of recordings.entries()) if (answers[i] === undefined) onRecorded(type, 1);
      return answers;
    },
  };
}
