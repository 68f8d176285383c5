// Counts, reads and resets visits, wherever an identity's counts are. A request is its own entry of the batch that asks Redis;
// only a redirect takes functions that can be suspended.

import { isRedirect, type Place } from '../redis/place.js';
import type { KeyedOperation } from '../redis/requests.js';
import {
  isVisit,
  type VisitAnswer,
  type VisitBatch,
  type VisitEntry,
  type VisitKind,
} from '../visits/visit-batch.js';
import { type Ask, PlacedRequest, type Places } from './places.js';

/** What lua/visits/countVisits.lua answers where the operation was taken to another place. */
const FENCED = '-';

/** A profile, and the count where one was asked for; else 0. */
export interface Counted {
  readonly profileId: string;
  readonly count: number;
}

/** A request that counts, reads or resets; `counted` or `failed` is called once. */
export abstract class CountRequest extends PlacedRequest implements VisitEntry {
  /** Set by Counting. */
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
  readonly #batch: VisitBatch;
  readonly #places: Places;

  constructor(batch: VisitBatch, places: Places) {
    this.#batch = batch;
    this.#places = places;
  }

  /** Counts, reads or resets for an identity. This is the hot path: it makes no promise. */
  count(request: CountRequest, name: string): void {
    request.name = name;
    request.counting = this;
    if (isVisit(request) && this.#places.needsLink(name)) {
      void this.countElsewhere(request, '@');
      return;
    }
    this.#places.aim(request, name);
    this.#batch.add(request);
  }

  /** Follows a redirect. */
  async countElsewhere(request: CountRequest, redirect: string): Promise<void> {
    const { kind, name } = request;
    try {
      const { profileId, answer } = await this.#places.follow(
        name,
        isVisit(request),
        request,
        redirect,
        this.at(kind, request.handle, request.device),
      );
      request.counted(profileId, answer);
    } catch (error) {
      request.failed(error as Error);
    }
  }

  /** @throws ServiceError `unavailable`, `overloaded`, `too_many_products` */
  at(kind: VisitKind, handle: string, device: string | null): Ask<number> {
    return (place) => this.#ask(place, kind, handle, device) as Promise<number | string>;
  }

  /**
   * Counts one visit, or resets, under an operation, once however often it is tried and wherever the counts move in between.
   * @throws ServiceError `unavailable`, `too_many_products`
   */
  once(
    kind: 'count' | 'reset',
    handle: string,
    device: string | null,
    operation: KeyedOperation,
  ): Ask<Counted> {
    return (place) =>
      operation.doAt<Counted | string>(
        place.profileId,
        async (recordId, done) => {
          if (done !== undefined) return { profileId: done.place, count: Number(done.record) };
          const count = await this.#ask(place, kind, handle, device, recordId);
          return typeof count === 'string' ? count : { profileId: place.profileId, count };
        },
        (answer) => answer === FENCED,
      );
  }

  async #ask(place: Place, kind: VisitKind, handle: string, device: string | null, recordId?: string) {
    const { profileId, generation, checked, link } = place;
    const entry = { kind, profileId, generation, checked, link, handle, device, recordId };
    return (await this.#batch.run(entry)) ?? 0;
  }
}
