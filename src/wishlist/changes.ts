// Changes of wishlists. A change and its events are one atomic step (lua/wishlist/changeItems.lua). With an Idempotency-Key it is made once,
// however often the request is sent, and wherever the profile moves.

import { newEventId } from '../events/event-id.js';
import { encodeEvent, type NewEvent } from '../events/row.js';
import { isRedirect, type Place } from '../redis/place.js';
import { type KeyedOperation, REMEMBERED_S } from '../redis/requests.js';
import {
  type Change,
  DONE,
  FENCED,
  type PendingEvent,
  type WishlistAnswer,
  type WishlistBatch,
} from './wishlist-batch.js';

/** Encodes an event in advance. @param at time of arrival, milliseconds since 1970 */
export function prepareEvent(event: Omit<NewEvent, 'id' | 'at'>, at = Date.now()): PendingEvent {
  return { type: event.type, line: encodeEvent({ ...event, id: newEventId(at), at }) };
}

/** The result of a change: a verdict of lua/wishlist/changeItems.lua with its value. */
export interface Made {
  readonly verdict: string;
  readonly value: string;
}

const AS_ASKED: Made = { verdict: DONE, value: '' };
const REMOVED: Made = { verdict: DONE, value: '1' };

export class Changes {
  readonly #batch: WishlistBatch;

  constructor(batch: WishlistBatch) {
    this.#batch = batch;
  }

  /**
   * Makes a change; resolves when its events are in the stream.
   * @returns a redirect (a string) if the visitor's profile is elsewhere; then nothing was done
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_items`
   */
  make(place: Place, change: Change): Promise<Made | string> {
    return this.#batch.make(place, change).then((answer) => madeOf(change, answer));
  }

  /**
   * `make`, once per operation if there is one.
   * @throws as `make`
   */
  async makeOnce(
    place: Place,
    change: Change,
    operation: KeyedOperation | undefined,
  ): Promise<Made | string> {
    if (operation === undefined) return this.make(place, change);
    return operation.doAt<Made | string>(
      place.profileId,
      async (recordId, done) => {
        if (done !== undefined) return { verdict: DONE, value: done.record };
        return this.make(place, { ...change, once: { recordId, seconds: REMEMBERED_S } });
      },
      isFenced,
    );
  }
}

/** True if a retry has made the change at another profile. */
function isFenced(made: Made | string): boolean {
  return typeof made !== 'string' && made.verdict === FENCED;
}

function madeOf({ kind }: Change, answer: WishlistAnswer): Made | string {
  if (answer === undefined) return kind === 'remove' ? REMOVED : AS_ASKED;
  return isRedirect(answer) ? answer : { verdict: answer.charAt(0), value: answer.slice(1) };
}
