// A change of a wishlist and its event are made together. On one server one script makes the change and appends the event.
// On a cluster, where the stream is on another node, it leaves the event's line in the profile's outbox:
//
//   one server   (asked) ──make──▶ changed, event in the stream
//   cluster      (asked) ──make──▶ changed, event pending ──append──▶ event in the stream ──▶ out of the outbox
//
// A caller without an answer sends the request again, under its Idempotency-Key: then the change is not made again, and its
// event, where it is pending, is appended (again): twice in the stream it is one event, because ClickHouse shows an event id
// once. A merge in between takes the outbox along. Without a key two requests are two requests.
//
// An event that no caller comes back for stays in the outbox; the next change of the profile, a minute later or more, brings
// it to the stream. (On one server only merges leave events in outboxes; src/identity/merge.ts comes back for them.)

import { setTimeout as sleep } from 'node:timers/promises';
import { ServiceError } from '../errors.js';
import { newEventId } from '../events/event-id.js';
import type { Recorder } from '../events/recorder.js';
import { encodeEvent, eventIdOf, type NewEvent } from '../events/row.js';
import { type AtProfile, MAX_HOPS, type Place, placeOf } from '../redis/at-profile.js';
import { type Operation, REMEMBERED_S } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import {
  type Change,
  DONE,
  FENCED,
  isElsewhere,
  NOT_NOW,
  type PendingEvent,
  type WishlistAnswer,
  type WishlistBatch,
} from './wishlist-batch.js';

/** When an event that is in the stream is taken out of its outbox, where the first try failed. */
const FORGET_DELAYS_MS = [20, 100, 500, 2_000, 10_000];
/** Contention on one wishlist is over long before. */
const GIVE_UP_MS = 2_000;

/** Encodes an event before it happens. @param at when the service took it, milliseconds since 1970 */
export function prepareEvent(
  { type, origin, profileId, identity, payload }: Omit<NewEvent, 'id' | 'at'>,
  at = Date.now(),
): PendingEvent {
  const id = newEventId(at);
  return { id, type, line: encodeEvent({ type, origin, profileId, identity, payload, id, at }) };
}

/** What a change came to: a verdict of lua/wishlist.lua, and its value. */
export interface Made {
  readonly verdict: string;
  readonly value: string;
}

const AS_ASKED: Made = { verdict: DONE, value: '' };
const REMOVED: Made = { verdict: DONE, value: '1' };

/** What was done as asked, in one step with its event, or where to ask instead. */
function made({ kind }: Change, answer: string | undefined): Made | string {
  return answer ?? (kind === 'remove' ? REMOVED : AS_ASKED);
}

/** The events of an answer; each line keeps its end. */
function linesOf(answer: string): string[] {
  return (answer.match(/[^\n]*\n/g) ?? []).slice(1);
}

export class Outbox {
  readonly #store: Store;
  readonly #batch: WishlistBatch;
  readonly #atProfile: AtProfile;
  readonly #recorder: Recorder;

  constructor(store: Store, batch: WishlistBatch, atProfile: AtProfile, recorder: Recorder) {
    this.#store = store;
    this.#batch = batch;
    this.#atProfile = atProfile;
    this.#recorder = recorder;
  }

  /**
   * Makes a change; resolves when it is made and its events are in the stream.
   * @returns where to ask instead (a text) where it belongs elsewhere; then nothing was done
   * @throws ServiceError `unavailable`, `overloaded`: the request may be sent again; `too_many_items`
   */
  make(place: Place, change: Change): Promise<Made | string> {
    return this.#batch
      .make(place, change)
      .then((answer) =>
        answer === undefined || isElsewhere(answer)
          ? made(change, answer)
          : this.#settle(place, change, answer),
      );
  }

  /**
   * `make` under an operation, where there is one: once, however often it is tried and wherever the profile moves.
   * @throws as `make`
   */
  async makeOnce(place: Place, change: Change, operation: Operation | undefined): Promise<Made | string> {
    if (operation === undefined) return this.make(place, change);
    const { profileId } = place;
    for (let round = 0; round < MAX_HOPS; round++) {
      const [done] = await operation.settle(profileId);
      if (done !== undefined) {
        await this.bring(profileId, operation);
        return { verdict: DONE, value: done.record };
      }
      const once = { recordId: operation.recordId(), seconds: REMEMBERED_S };
      const made = await this.make(place, { ...change, once });
      if (typeof made === 'string' || made.verdict !== FENCED) return made;
      // A retry has taken the operation to another place, or ended before it could.
      await operation.moveOn(profileId);
    }
    throw new ServiceError('unavailable');
  }

  /**
   * Brings the events of an operation to the stream that its first try left in an outbox which has moved since.
   * @throws as `send`
   */
  async bring(profileId: string, operation: Operation): Promise<void> {
    if (!this.#store.isCluster) return;
    const key = this.#store.keys.outbox(profileId);
    const pending = await this.#store.call((client) => client.hvals(key));
    // See lua/wishlist.lua: the time and the operation's record stand before an event's line.
    const mine = pending.filter((entry) => entry.split('\n', 2)[1]?.includes(`:${operation.id}.`));
    await this.send(
      profileId,
      mine.map((entry) => entry.slice(entry.indexOf('\n', entry.indexOf('\n') + 1) + 1)),
    );
  }

  /**
   * Makes a change of a profile, wherever that is by now.
   * @param plan the change of a profile
   * @returns what it came to, and the profile that has it
   * @throws as `make`
   */
  async makeAt(
    profileId: string,
    plan: (profileId: string) => Promise<Change>,
  ): Promise<Made & { readonly profileId: string }> {
    let at = profileId;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const made = await this.make(placeOf(at), await plan(at));
      if (typeof made !== 'string') return { ...made, profileId: at };
      at = await this.#atProfile.follow(at, made);
    }
    throw new ServiceError('internal');
  }

  async #settle(place: Place, change: Change, first: string): Promise<Made | string> {
    const began = performance.now();
    let answer: WishlistAnswer = first;
    while (answer?.startsWith(NOT_NOW)) {
      if (performance.now() - began > GIVE_UP_MS) throw new ServiceError('unavailable');
      await this.send(place.profileId, linesOf(answer));
      answer = await this.#batch.make(place, change);
    }
    if (answer === undefined || isElsewhere(answer)) return made(change, answer);
    const verdict = answer.charAt(0);
    if (this.#store.isCluster) await this.send(place.profileId, linesOf(answer));
    return { verdict, value: answer.slice(1).split('\n', 1)[0] as string };
  }

  /**
   * Brings events of an outbox to the stream, if they are not there, then acknowledges them.
   * @throws ServiceError `overloaded`, `unavailable`: they go on waiting in the outbox
   */
  async send(at: string, lines: readonly string[]): Promise<void> {
    await Promise.all(lines.map((line) => this.#recorder.append(line, at)));
    // From here on the caller has what was asked for: told to send again, it would get it twice.
    for (const line of lines) this.#forget(() => this.#sent(at, eventIdOf(line)));
  }

  async #sent(at: string, id: string): Promise<void> {
    const heir = await this.#batch.sent(at, id);
    if (typeof heir === 'string') await this.#sent(await this.#atProfile.follow(at, heir), id);
  }

  /** In the background. Where it fails for good, the event is appended once more a minute later. */
  #forget(act: () => Promise<void>, failures = 0): void {
    act().catch(async () => {
      const delayMs = FORGET_DELAYS_MS[failures];
      if (delayMs === undefined) return;
      await sleep(delayMs, undefined, { ref: false });
      this.#forget(act, failures + 1);
    });
  }
}
