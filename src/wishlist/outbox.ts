// A change of a wishlist and its event are not two hopes. On one server one script makes the change and appends the
// event. On a cluster, where the stream is on another node, it leaves the event's line in the profile's outbox:
//
//   one server   (asked) ──make──▶ changed, event in the stream ──▶ answered ──▶ forgotten
//   cluster      (asked) ──make──▶ changed, event pending ──append──▶ event in the stream ──▶ answered ──▶ forgotten
//
// What fails or crashes before the answer leaves the operation remembered, and a caller without an answer, who sends the
// request again. The script then finds that what is asked for holds already, and makes no second event. One that is
// pending is appended (again): twice in the stream it is one event, because ClickHouse shows an event id once. The answer
// is as the first time would have been. A merge in between takes the outbox along.
//
// An operation that is remembered may also be the same request sent twice at once, here or on another server. It is
// not possible to tell that from a retry, but for its age: a young one is waited for. When it is forgotten, the
// second request finds the world as the first one left it (of two removals one removed).
//
// Who never comes back leaves an event behind in an outbox, and a change that was never acknowledged. The next change
// of the profile, a minute later or more, brings that event to the stream. (On one server only merges leave events in
// outboxes; src/identity/merge.ts comes back for them.)

import { setTimeout as sleep } from 'node:timers/promises';
import { ServiceError } from '../errors.js';
import { newEventId } from '../events/event-id.js';
import type { Recorder } from '../events/recorder.js';
import { encodeEvent, eventIdOf, type NewEvent } from '../events/row.js';
import { type AtProfile, MAX_HOPS, type Place, placeOf } from '../redis/at-profile.js';
import { type Operation, REMEMBERED_S } from '../redis/requests.js';
import { loadScript } from '../redis/scripts.js';
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

const RELEASE = loadScript('release');

/** How often a request that is under way elsewhere is looked at. */
const POLL_MS = 20;
/** When an operation whose sender has the reply is forgotten, where the first try failed. */
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

/** The events of an answer; each line keeps its end. */
function linesOf(answer: string): string[] {
  return (answer.match(/[^\n]*\n/g) ?? []).slice(1);
}

export class Outbox {
  readonly #store: Store;
  readonly #batch: WishlistBatch;
  readonly #atProfile: AtProfile;
  readonly #recorder: Recorder;
  /** Operations of this turn whose senders have the reply. */
  #answered: string[] = [];

  constructor(store: Store, batch: WishlistBatch, atProfile: AtProfile, recorder: Recorder) {
    this.#store = store;
    this.#batch = batch;
    this.#atProfile = atProfile;
    this.#recorder = recorder;
  }

  /**
   * Makes a change; resolves when it is made and its events are in the stream. One that was made, and
   * whose answer was lost, is not made again.
   * @returns where to ask instead (a text) where it belongs elsewhere; then nothing was done
   * @throws ServiceError `unavailable`, `overloaded`: the request may be sent again; `too_many_items`
   */
  make(place: Place, change: Change): Promise<Made | string> {
    // Under an operation's record there is nothing to wait for: the record deduplicates.
    const isPatient = change.once === undefined;
    return this.#batch
      .make(place, change, isPatient)
      .then((answer) =>
        answer === undefined || isElsewhere(answer)
          ? this.#made(place, change, answer)
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
      if (done !== undefined) return { verdict: DONE, value: done.record };
      const once = { recordId: operation.recordId(), seconds: REMEMBERED_S };
      const operationKey = `${change.kind} ${operation.id}`;
      const made = await this.make(place, { ...change, operationKey, once });
      if (typeof made === 'string' || made.verdict !== FENCED) return made;
      // A retry has taken the operation to another place, or ended before it could.
      await operation.moveOn(profileId);
    }
    throw new ServiceError('unavailable');
  }

  /** What was done as asked, in one step with its event, or belongs elsewhere. */
  #made({ profileId }: Place, { kind, operationKey }: Change, answer: string | undefined): Made | string {
    if (answer !== undefined) return answer;
    this.#answer(profileId, operationKey);
    return kind === 'remove' ? REMOVED : AS_ASKED;
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
      const waitedMs = performance.now() - began;
      if (waitedMs > GIVE_UP_MS) throw new ServiceError('unavailable');
      const full = linesOf(answer);
      if (full.length > 0) await this.send(place.profileId, full);
      else await sleep(POLL_MS);
      answer = await this.#batch.make(place, change, waitedMs < this.#batch.underWayMs);
    }
    if (answer === undefined || isElsewhere(answer)) return this.#made(place, change, answer);
    const verdict = answer.charAt(0);
    if (this.#store.isCluster) await this.send(place.profileId, linesOf(answer));
    else if (verdict === DONE) this.#answer(place.profileId, change.operationKey);
    return { verdict, value: answer.slice(1).split('\n', 1)[0] as string };
  }

  /**
   * Brings events of an outbox to the stream, if they are not there, then acknowledges them.
   * @throws ServiceError `overloaded`, `unavailable`: they go on waiting in the outbox
   */
  async send(at: string, lines: readonly string[]): Promise<void> {
    const ids = lines.map(eventIdOf);
    try {
      await Promise.all(lines.map((line) => this.#recorder.append(line, at)));
    } catch (error) {
      // Best effort; otherwise the retry waits.
      const args = [this.#batch.underWayMs, ...ids];
      this.#store.change(RELEASE, [this.#store.keys.outbox(at)], args).catch(() => {});
      throw error;
    }
    // From here on the caller has what was asked for: told to send again, it would get it twice.
    for (const id of ids) this.#forget(() => this.#sent(at, id));
  }

  async #sent(at: string, id: string): Promise<void> {
    const heir = await this.#batch.sent(at, id);
    if (typeof heir === 'string') await this.#sent(await this.#atProfile.follow(at, heir), id);
  }

  /** What a turn has answered is forgotten in one go. */
  #answer(profileId: string, operationKey: string): void {
    if (this.#answered.push(operationKey) > 1) return;
    queueMicrotask(() => {
      const keys = this.#answered;
      this.#answered = [];
      this.#forget(() => this.#batch.answered(profileId, keys));
    });
  }

  /** In the background. Where it fails for good, the next like request is taken for a retry, once. */
  #forget(act: () => Promise<void>, failures = 0): void {
    act().catch(async () => {
      const delayMs = FORGET_DELAYS_MS[failures];
      if (delayMs === undefined) return;
      await sleep(delayMs, undefined, { ref: false });
      this.#forget(act, failures + 1);
    });
  }
}
