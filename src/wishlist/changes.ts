// Changes of wishlists, once under an operation, wherever the profile is. A change and its events are made in one step
// (lua/wishlist.lua). A caller without an answer sends the request again, under its Idempotency-Key: then it is not made
// again. Without a key two requests are two requests.

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

/** Encodes an event before it happens. @param at when the service took it, milliseconds since 1970 */
export function prepareEvent(event: Omit<NewEvent, 'id' | 'at'>, at = Date.now()): PendingEvent {
  return { type: event.type, line: encodeEvent({ ...event, id: newEventId(at), at }) };
}

/** What a change came to: a verdict of lua/wishlist.lua, and its value. */
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
   * Makes a change; resolves when it is made and its events are in the stream.
   * @returns a redirect (a text) where the visitor is elsewhere; then nothing was done
   * @throws ServiceError `unavailable`, `overloaded`: the request may be sent again; `too_many_items`
   */
  make(place: Place, change: Change): Promise<Made | string> {
    return this.#batch.make(place, change).then((answer) => madeOf(change, answer));
  }

  /**
   * `make` under an operation, where there is one: once, however often it is tried and wherever the profile moves.
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

/** Whether a retry has taken a change to another place. */
function isFenced(made: Made | string): boolean {
  return typeof made !== 'string' && made.verdict === FENCED;
}

function madeOf({ kind }: Change, answer: WishlistAnswer): Made | string {
  if (answer === undefined) return kind === 'remove' ? REMOVED : AS_ASKED;
  return isRedirect(answer) ? answer : { verdict: answer.charAt(0), value: answer.slice(1) };
}
