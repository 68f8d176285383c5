// Records events under their visitor's present profile.

import type { Recording } from '../events/recording.js';
import { eventTypeOf } from '../events/row.js';
import type { Batcher } from '../redis/batcher.js';
import { type Ask, LocatedRequest } from './locations.js';

export type RecordingBatch = Batcher<Recording, string | undefined>;

export abstract class EventRequest extends LocatedRequest<undefined> implements Recording {
  batch: RecordingBatch | undefined;
  line = '';
  readonly makes = true;

  abstract readonly type: string;
  abstract encode(profileId: string): string;

  add(): void {
    this.line = this.encode(this.profileId);
    this.batch?.add(this);
  }
}

export function recordAt(batch: RecordingBatch, encode: (profileId: string) => string): Ask<undefined> {
  return ({ profileId, generation, checked, link }) => {
    const line = encode(profileId);
    const recording = { type: eventTypeOf(line), line, profileId, generation, checked, link };
    return batch.run(recording) as Promise<undefined>;
  };
}
