// Records events under their visitor's present profile.

import { type Ask, type Located, LocatedRequest } from '../profiles/locator.js';
import type { Batcher } from '../redis/batcher.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { Recording } from './recording.js';
import { eventTypeOf } from './row.js';

export type RecordingBatch = Batcher<Recording, string | undefined>;

export abstract class EventRequest extends LocatedRequest<undefined> implements Recording {
  batch: RecordingBatch | undefined;
  line = '';
  readonly writes = true;

  abstract readonly type: string;
  abstract encode(profileId: string): string;

  add(): void {
    this.line = this.encode(this.profileId);
    this.batch?.add(this);
  }
}

type Encode = (profileId: string) => string;

/** The answer of lua/events/recordEvents.lua if an earlier try has appended the event. */
const RECORDED = '=';

export function recordAt(batch: RecordingBatch, encode: Encode, recordId?: string): Ask<undefined> {
  return async (location) => {
    const line = encode(location.profileId);
    const answer = await batch.run({ ...location, type: eventTypeOf(line), line, recordId });
    return answer === RECORDED ? undefined : answer;
  };
}

/** Records an event once, even if its visitor gets another profile. @returns the profile that it was recorded under */
export function recordOnce(
  batch: RecordingBatch,
  encode: Encode,
  operation: KeyedOperation,
): Ask<Pick<Located<unknown>, 'profileId'>> {
  return (location) => {
    const { profileId } = location;
    return operation.doAt<{ readonly profileId: string } | string>(profileId, async (recordId, done) => {
      if (done !== undefined) return { profileId: done.location };
      return (await recordAt(batch, encode, recordId)(location)) ?? { profileId };
    });
  };
}
