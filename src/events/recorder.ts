// Records events under their visitor's present profile.

import type { Identity } from '../identity-rules.js';
import { type Ask, LocatedRequest } from '../profiles/locator.js';
import type { Visitors } from '../profiles/visitors.js';
import type { Batcher } from '../redis/batcher.js';
import type { Location } from '../redis/location.js';
import { LUA } from '../redis/lua-codes.js';
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

export class EventRecorder {
  constructor(
    private readonly visitors: Visitors,
    private readonly batch: RecordingBatch,
  ) {}

  /** `record` without promises, unless ids are linked. */
  submit(request: EventRequest, who: Identity, mayLink: boolean): void {
    request.batch = this.batch;
    this.visitors.send(request, who, mayLink);
  }

  /**
   * Creates an unknown visitor. @param operation records the event once, even if its visitor gets another profile
   * @returns the profile that it was recorded under @throws ServiceError `overloaded`
   */
  async record(who: Identity, mayLink: boolean, encode: Encode, operation?: KeyedOperation): Promise<string> {
    if (operation === undefined)
      return (await this.visitors.change(who, mayLink, this.#recordAt(encode))).profileId;
    const ask: Ask<Pick<Location, 'profileId'>> = (location) => {
      const { profileId } = location;
      return operation.doAt<Pick<Location, 'profileId'> | string>(profileId, async (recordId, done) => {
        if (done !== undefined) return { profileId: done.location };
        return (await this.#recordAt(encode, recordId)(location)) ?? { profileId };
      });
    };
    return (await this.visitors.change(who, mayLink, ask)).answer.profileId;
  }

  #recordAt(encode: Encode, recordId?: string): Ask<undefined> {
    return async (location) => {
      const line = encode(location.profileId);
      const answer = await this.batch.run({ ...location, type: eventTypeOf(line), line, recordId });
      // An earlier try has appended the event.
      return answer === LUA.DONE ? undefined : answer;
    };
  }
}
