// Changes of wishlists. A change and its events are one atomic step (lua/wishlist/changeItems.lua), made once per
// Idempotency-Key, wherever the profile moves.

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

/** @param at milliseconds since 1970 */
export function prepareEvent(event: Omit<NewEvent, 'id' | 'at'>, at = Date.now()): PendingEvent {
  return { type: event.type, line: encodeEvent({ ...event, id: newEventId(at), at }) };
}

/** Reply of lua/wishlist/changeItems.lua. */
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
   * Resolves when the events are in the stream.
   * @returns a redirect (a string) if the profile is elsewhere; nothing was changed
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_items`
   */
  make(place: Place, change: Change): Promise<Made | string> {
    return this.#batch.make(place, change).then((answer) => madeOf(change, answer));
  }

  /** `make`, once per operation. @throws as `make` */
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

/** A retry has made the change at another profile. */
function isFenced(made: Made | string): boolean {
  return typeof made !== 'string' && made.verdict === FENCED;
}

function madeOf({ kind }: Change, answer: WishlistAnswer): Made | string {
  if (answer === undefined) return kind === 'remove' ? REMOVED : AS_ASKED;
  return isRedirect(answer) ? answer : { verdict: answer.charAt(0), value: answer.slice(1) };
}
