// Counts, reads and resets visits. A request is itself an operation of the batch, without promises unless it is
// redirected.

import { isRedirect, type Location } from '../redis/location.js';
import type { KeyedOperation } from '../redis/requests.js';
import {
  isVisit,
  type VisitAnswer,
  type VisitBatch,
  type VisitEntry,
  type VisitKind,
} from '../visits/visit-batch.js';
import { type Ask, LocatedRequest, type Locations } from './locations.js';

const FENCED = '-';

/** `count`: 0 unless asked for. */
export interface Counted {
  readonly profileId: string;
  readonly count: number;
}

/** `counted` or `failed` is called once. */
export abstract class CountRequest extends LocatedRequest implements VisitEntry {
  counting: Counting | undefined;
  isKept = false;

  constructor(
    readonly kind: VisitKind,
    readonly handle: string,
    readonly device: string | null,
  ) {
    super();
  }

  abstract counted(profileId: string, count: number): void;
  abstract failed(error: Error): void;

  done(answer: VisitAnswer): void {
    if (isRedirect(answer)) void this.counting?.countElsewhere(this, answer);
    else this.counted(this.profileId, (answer as number | undefined) ?? 0);
  }
}

export class Counting {
  constructor(
    private readonly batch: VisitBatch,
    private readonly locations: Locations,
  ) {}

  count(request: CountRequest, name: string): void {
    request.name = name;
    request.counting = this;
    if (isVisit(request) && this.locations.needsLink(name)) {
      void this.countElsewhere(request, '@');
      return;
    }
    this.locations.aim(request, name);
    this.batch.add(request);
  }

  async countElsewhere(request: CountRequest, redirect: string): Promise<void> {
    const { kind, name } = request;
    try {
      const { profileId, answer } = await this.locations.follow(
        name,
        isVisit(request),
        { at: request, redirect },
        this.at(kind, request.handle, request.device),
      );
      request.counted(profileId, answer);
    } catch (error) {
      request.failed(error as Error);
    }
  }

  at(kind: VisitKind, handle: string, device: string | null): Ask<number> {
    return (location) => this.#ask(location, { kind, handle, device }) as Promise<number | string>;
  }

  /** Counts once per operation, even if the counts move. */
  once(
    kind: 'count' | 'reset',
    handle: string,
    device: string | null,
    operation: KeyedOperation,
  ): Ask<Counted> {
    return (location) =>
      operation.doAt<Counted | string>(
        location.profileId,
        async (recordId, done) => {
          if (done !== undefined) return { profileId: done.location, count: Number(done.record) };
          const count = await this.#ask(location, { kind, handle, device, recordId });
          return typeof count === 'string' ? count : { profileId: location.profileId, count };
        },
        (answer) => answer === FENCED,
      );
  }

  async #ask(location: Location, asked: Pick<VisitEntry, 'kind' | 'handle' | 'device' | 'recordId'>) {
    const { profileId, generation, checked, link } = location;
    return (await this.batch.run({ ...asked, profileId, generation, checked, link })) ?? 0;
  }
}
