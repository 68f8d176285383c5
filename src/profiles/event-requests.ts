// Records events under their visitor's present profile. A request is itself an operation of the batch, without promises
// unless it is redirected.

import type { Recording } from '../events/recording.js';
import { eventTypeOf } from '../events/row.js';
import type { Batcher } from '../redis/batcher.js';
import { type Ask, LocatedRequest, type Locations } from './locations.js';

/** `recorded` or `failed` is called once. */
export abstract class EventRequest extends LocatedRequest implements Recording {
  line = '';
  requests: EventRequests | undefined;

  abstract readonly type: string;
  /** Called again if the profile changes. */
  abstract encode(profileId: string): string;
  abstract recorded(profileId: string): void;
  abstract failed(error: Error): void;

  done(redirect: string | undefined): void {
    if (redirect === undefined) this.recorded(this.profileId);
    else void this.requests?.recordElsewhere(this, redirect);
  }
}

export class EventRequests {
  constructor(
    private readonly locations: Locations,
    private readonly batch: Batcher<Recording, string | undefined>,
  ) {}

  record(request: EventRequest, name: string): void {
    request.name = name;
    request.requests = this;
    if (this.locations.needsLink(name)) {
      void this.recordElsewhere(request, '@');
      return;
    }
    this.locations.aim(request, name);
    request.line = request.encode(request.profileId);
    this.batch.add(request);
  }

  async recordElsewhere(request: EventRequest, redirect: string): Promise<void> {
    try {
      const ask = this.at((profileId) => request.encode(profileId));
      const { profileId } = await this.locations.follow(request.name, true, { at: request, redirect }, ask);
      request.recorded(profileId);
    } catch (error) {
      request.failed(error as Error);
    }
  }

  at(encode: (profileId: string) => string): Ask<undefined> {
    return ({ profileId, generation, checked, link }) => {
      const line = encode(profileId);
      const recording = { type: eventTypeOf(line), line, profileId, generation, checked, link };
      return this.batch.run(recording) as Promise<undefined>;
    };
  }
}
