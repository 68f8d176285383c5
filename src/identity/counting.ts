// Counts, reads and resets visits, wherever an identity's counts are. A request is its own entry of the batch that asks Redis;
// only a redirect takes functions that can be suspended.

import { ServiceError } from '../errors.js';
import { bucketOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { checkedAndEndingKeys, countsOf, isRedirect, type Place } from '../redis/place.js';
import { type KeyedOperation, REMEMBERED_S } from '../redis/requests.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { VisitAnswer, VisitBatch, VisitEntry, VisitKind } from '../visits/visit-batch.js';
import { type VisitLog, visitLine } from '../visits/visit-log.js';
import { type Ask, PlacedRequest, type Places } from './places.js';

const VISIT_ONCE = loadScript<string | number | [count: number, notLogged: number]>('visit-once');

/** What `visit-once` answers where the operation was taken to another place. */
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
    else this.counted(this.profileId, this.kind === 'visit' ? 0 : ((answer as number | undefined) ?? 0));
  }
}

export interface CountingOptions {
  /** Products that a profile may count. */
  readonly maxProducts: number;
  /** Where visits are logged; undefined where they are not. */
  readonly log?: VisitLog | undefined;
  /** Called with how many visits were counted one by one. */
  readonly onCounted?: ((visits: number) => void) | undefined;
}

export class Counting {
  readonly #store: Store;
  readonly #batch: VisitBatch;
  readonly #places: Places;
  readonly #maxProducts: number;
  readonly #log: VisitLog | undefined;
  readonly #onCounted: ((visits: number) => void) | undefined;

  constructor(store: Store, batch: VisitBatch, places: Places, options: CountingOptions) {
    this.#store = store;
    this.#batch = batch;
    this.#places = places;
    this.#maxProducts = options.maxProducts;
    this.#log = options.log;
    this.#onCounted = options.onCounted;
  }

  /** Counts, reads or resets for an identity. This is the hot path: it makes no promise. */
  count(request: CountRequest, name: string): void {
    request.name = name;
    request.counting = this;
    if (isVisit(request.kind) && this.#places.needsLink(name)) {
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
        isVisit(kind),
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
    return async ({ profileId, generation, checked, link }) => {
      const answer = await this.#batch.run({ kind, profileId, generation, checked, link, handle, device });
      return isRedirect(answer) ? answer : ((answer as number | undefined) ?? 0);
    };
  }

  /**
   * Counts one visit, or resets, under an operation, once however often it is tried and wherever the counts move in between.
   * @throws ServiceError `unavailable`, `too_many_products`
   */
  once(
    kind: 'visit' | 'reset',
    handle: string,
    device: string | null,
    operation: KeyedOperation,
  ): Ask<Counted> {
    return (place) =>
      operation.doAt<Counted | string>(
        place.profileId,
        async (recordId, done) => {
          if (done !== undefined) return { profileId: done.place, count: Number(done.record) };
          const count = await this.#once(kind, place, handle, device, recordId);
          return typeof count === 'string' ? count : { profileId: place.profileId, count };
        },
        (answer) => answer === FENCED,
      );
  }

  async #once(
    kind: 'visit' | 'reset',
    place: Place,
    handle: string,
    device: string | null,
    recordId: string,
  ): Promise<string | number> {
    const { keys, guestsS } = this.#store;
    const { profileId, generation, link } = place;
    const record = keys.operation(profileId, recordId);
    const touched = [
      countsOf(keys, place),
      keys.profile(profileId),
      record,
      ...checkedAndEndingKeys(keys, place),
    ];
    const line = visitLine(profileId, handle, device);
    const flag = kind === 'visit' ? 1 : 0;
    const reply = await this.#store.changeBesideStream(
      VISIT_ONCE,
      touched,
      bucketOf(profileId),
      (address) => [
        ...[handle, REMEMBERED_S, this.#maxProducts, link, generation, flag, guestsS],
        ...((kind === 'visit' && this.#log?.args(line, address)) || []),
      ],
    );
    if (kind === 'visit' && typeof reply !== 'string' && reply !== LUA.TOO_MANY) this.#onCounted?.(1);
    if (Array.isArray(reply)) {
      const [count, missed] = reply;
      this.#log?.notLogged(missed);
      return count;
    }
    if (reply === LUA.TOO_MANY) throw new ServiceError('too_many_products');
    return reply;
  }
}

function isVisit(kind: VisitKind): boolean {
  return kind === 'visit' || kind === 'visitAndCount';
}
