// Counts, reads and resets visits, wherever an identity's counts are. A count that the first place has is told without a
// promise; only what is elsewhere is asked for by functions that can be suspended.

import { ServiceError } from '../errors.js';
import { ERASED, MAX_HOPS, type Place } from '../redis/at-profile.js';
import { bucketOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { type Operation, REMEMBERED_S } from '../redis/requests.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Entry, VisitAnswer, VisitBatch, VisitKind } from '../visits/visit-batch.js';
import { type VisitLog, visitLine } from '../visits/visit-log.js';
import type { Away, Doors, Settled } from './doors.js';
import type { Places, Subject } from './places.js';

const VISIT_ONCE = loadScript<string | number | [count: number, notLogged: number]>('visit-once');

/** Who asked for a count, and is told one of the two, once. */
export interface Asker {
  counted(profileId: string, count: number): void;
  failed(error: Error): void;
}

export interface CountingOptions {
  /** Products that a profile may count. */
  readonly maxProducts: number;
  /** Where visits are logged; undefined where they are not. */
  readonly log?: VisitLog | undefined;
  /** Told of visits that are counted one by one. */
  readonly onCounted?: ((visits: number) => void) | undefined;
}

export class Counting {
  readonly #store: Store;
  readonly #batch: VisitBatch;
  readonly #doors: Doors;
  readonly #places: Places;
  readonly #maxProducts: number;
  readonly #log: VisitLog | undefined;
  readonly #onCounted: ((visits: number) => void) | undefined;

  constructor(
    store: Store,
    batch: VisitBatch,
    doors: Doors,
    places: Places,
    { maxProducts, log, onCounted }: CountingOptions,
  ) {
    this.#store = store;
    this.#batch = batch;
    this.#doors = doors;
    this.#places = places;
    this.#maxProducts = maxProducts;
    this.#log = log;
    this.#onCounted = onCounted;
  }

  /** Counts, reads or resets for an identity, wherever its door leads. This is the hot path: it makes no promise. */
  count(kind: VisitKind, name: string, handle: string, device: string | null, asker: Asker): void {
    const own = this.#doors.ownProfile(name);
    const away = this.#doors.checksDoors ? this.#doors.remembered(name) : undefined;
    this.#batch.add(new CountingAt(this, kind, name, handle, device, asker, own, away));
  }

  /**
   * Counts, reads or resets.
   * @param device of a visitor who is counted
   * @returns undefined, and nothing done, only where the subject's session is not at its room
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_products`
   */
  enter(
    kind: VisitKind,
    subject: Subject,
    handle: string,
    device: string | null = null,
  ): Promise<Settled | undefined> {
    const { name, room } = subject;
    if (room !== undefined)
      return this.#places.askAt(subject, room, (place) => this.#submit(kind, handle, device, place), settle);
    return new Promise((resolve, failed) => {
      const counted = (profileId: string, count: number) => resolve({ profileId, count, known: true });
      this.count(kind, name, handle, device, { counted, failed });
    });
  }

  /** Asks on for a count that is not where it was looked for. @param answer of that place */
  async countElsewhere(
    { kind, handle, device, name, asker, profileId, isRoom, own, field }: CountingAt,
    answer: string,
  ): Promise<void> {
    try {
      const ask = (place: Place) => this.#submit(kind, handle, device, place);
      const place = { profileId, isRoom, checked: name, own, field };
      const settled = (await this.#places.follow(name, place, answer, ask, settle)) as Settled;
      asker.counted(settled.profileId, settled.count);
    } catch (error) {
      asker.failed(error as Error);
    }
  }

  /**
   * Counts one visit, or resets, under an operation, once however often it is tried and wherever the counts move in between.
   * @returns as `enter` @throws ServiceError `unavailable`, `too_many_products`
   */
  async enterOnce(
    kind: 'visit' | 'reset',
    subject: Subject,
    handle: string,
    device: string | null,
    operation: Operation,
  ): Promise<Settled | undefined> {
    // The record and the count are at one place: the door is asked before, and not in the same step.
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const asked = await this.#places.askedSubject(subject);
      if (asked === undefined) return undefined;
      const done = await this.#places.ask(
        asked,
        (place) => this.#once(kind, place, handle, device, operation),
        (place, answer) => (typeof answer === 'object' ? answer : settle(place, answer)),
      );
      if (done !== undefined) return done;
      // A retry has taken the operation from this room to another place, or the room is erased.
      const { name, room } = subject;
      if (name === '' && room !== undefined && !(await this.#doors.isThere(room))) return undefined;
    }
    throw new ServiceError('unavailable');
  }

  async #once(
    kind: 'visit' | 'reset',
    { profileId, isRoom }: Place,
    handle: string,
    device: string | null,
    operation: Operation,
  ): Promise<string | number | Settled> {
    const { keys } = this.#store;
    const [done] = await operation.settle(profileId);
    if (done !== undefined) return { profileId: done.place, count: Number(done.record), known: true };
    const counts = isRoom ? keys.room(profileId) : keys.door(profileId);
    const touched = [counts, keys.profile(profileId), keys.operation(profileId, operation.recordId())];
    const isVisit = kind === 'visit';
    const line = visitLine(profileId, handle, device);
    const address = this.#store.addressOf(bucketOf(profileId));
    const logged = (isVisit && this.#log?.args(line, address)) || [];
    const { guestsS } = this.#store;
    const flags = [isRoom ? 1 : 0, isVisit ? 1 : 0];
    const deadline = performance.now() + this.#store.timeoutMs;
    const args = [handle, REMEMBERED_S, this.#maxProducts, ...flags, guestsS, ...logged];
    const reply = await this.#store.change(VISIT_ONCE, touched, args);
    if (isVisit && typeof reply !== 'string' && reply !== LUA.TOO_MANY) this.#onCounted?.(1);
    if (Array.isArray(reply)) {
      const [count, missed] = reply;
      this.#log?.notLogged(missed, [{ profileId, line, deadline }], address);
      return count;
    }
    if (reply === LUA.TOO_MANY) throw new ServiceError('too_many_products');
    if (reply === ERASED) await operation.moveOn(profileId);
    return reply;
  }

  #submit(kind: VisitKind, handle: string, device: string | null, place: Place): Promise<VisitAnswer> {
    const { profileId, isRoom, checked: name, own, field } = place;
    return this.#batch.run({ kind, isRoom, name, own, field, profileId, handle, device });
  }
}

/** A count that is asked for at one place; with its answer it is told, or asked for elsewhere. */
class CountingAt implements Entry {
  deadline = 0;
  readonly profileId: string;
  readonly isRoom: boolean;
  readonly field: string;
  readonly #counting: Counting;

  /** @param own the identity's own profile @param away its door, where it is thought to lead to a room */
  constructor(
    counting: Counting,
    readonly kind: VisitKind,
    readonly name: string,
    readonly handle: string,
    readonly device: string | null,
    readonly asker: Asker,
    readonly own: string,
    away: Away | undefined,
  ) {
    this.#counting = counting;
    this.profileId = away === undefined ? own : away.room;
    this.isRoom = away !== undefined;
    this.field = away === undefined ? '' : away.field;
  }

  done(answer: VisitAnswer): void {
    if (typeof answer === 'string') {
      void this.#counting.countElsewhere(this, answer);
      return;
    }
    this.asker.counted(this.profileId, this.kind === 'visit' ? 0 : (answer ?? 0));
  }

  failed(error: Error): void {
    this.asker.failed(error);
  }
}

function settle({ profileId }: Place, answer: number | undefined): Settled {
  return { profileId, count: answer ?? 0, known: true };
}
