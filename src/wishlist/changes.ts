// Changes wishlists, once per Idempotency-Key, even if the visitor gets another profile meanwhile.

import { newEventId } from '../events/event-id.js';
import { encodeEvent, type NewEvent } from '../events/row.js';
import { isRedirect, type Location } from '../redis/location.js';
import { LUA } from '../redis/lua-codes.js';
import { type KeyedOperation, REMEMBERED_S } from '../redis/requests.js';
import type { Change, PendingEvent, WishlistAnswer, WishlistBatch } from './wishlist-batch.js';

export function prepareEvent(event: Omit<NewEvent, 'id' | 'at'>, at = Date.now()): PendingEvent {
  return { type: event.type, line: encodeEvent({ ...event, id: newEventId(at), at }) };
}

/** An answer of lua/wishlist/changeItems.lua. */
export interface Made {
  readonly verdict: string;
  readonly value: string;
}

const AS_ASKED: Made = { verdict: LUA.DONE, value: '' };
const REMOVED: Made = { verdict: LUA.DONE, value: '1' };

export class Changes {
  constructor(private readonly batch: WishlistBatch) {}

  make(location: Location, change: Change): Promise<Made | string> {
    return this.batch.make(location, change).then((answer) => madeOf(change, answer));
  }

  async makeOnce(
    location: Location,
    change: Change,
    operation: KeyedOperation | undefined,
  ): Promise<Made | string> {
    if (operation === undefined) return this.make(location, change);
    return operation.doAt<Made | string>(location.profileId, async (recordId, done) => {
      if (done !== undefined) return { verdict: LUA.DONE, value: done.record };
      return this.make(location, { ...change, once: { recordId, seconds: REMEMBERED_S } });
    });
  }
}

function madeOf({ kind }: Change, answer: WishlistAnswer): Made | string {
  if (answer === undefined) return kind === 'remove' ? REMOVED : AS_ASKED;
  return isRedirect(answer) || answer === LUA.FENCED
    ? answer
    : { verdict: answer.charAt(0), value: answer.slice(1) };
}
