// Changes of wishlists in Redis: those of an event-loop turn go to lua/wishlist.lua in one call, with their events. One
// whose visitor is elsewhere is answered with a redirect, which src/identity/places.ts follows.

import { PAYLOAD_COLUMNS } from '../clickhouse/columns.js';
import { overloaded, ServiceError } from '../errors.js';
import type { OnRecorded } from '../events/appender.js';
import type { Batched, BatchFormat } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import { bucketOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import type { Place } from '../redis/place.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

/** An event before it happens. */
export interface PendingEvent {
  readonly type: string;
  /** From encodeEvent; that of a removal that fills its payload from beginEvent. */
  readonly line: string;
}

interface Recorded {
  /** Where given, it is done once under this record. */
  readonly once?: { readonly recordId: string; readonly seconds: number } | undefined;
}

/** Adds an item or updates it. */
interface Addition extends Recorded {
  readonly kind: 'add';
  readonly field: string;
  /** Its lines as they are stored where it is new, see newItem. */
  readonly creationLine: string;
  readonly others: string;
  readonly event: PendingEvent;
}

/** Removes items that are there, with an event for each. */
export interface Removal extends Recorded {
  readonly kind: 'remove';
  readonly items: readonly {
    readonly field: string;
    readonly event: PendingEvent;
    /** Fields of the item that make the event's payload, separated by spaces; empty where the line is whole. */
    readonly payload: string;
  }[];
}

/** Shares a profile by its code. */
interface Sharing extends Recorded {
  readonly kind: 'share';
  /** The profile's, or one for it whose key is written; undefined to ask for the profile's. */
  readonly code?: string;
  /** Whether it is one for it. */
  readonly isNew?: boolean;
  /** Has the code. */
  readonly event?: PendingEvent;
}

/** Notes what an item's wisher was told. */
export interface Telling extends Recorded {
  readonly kind: 'tell';
  readonly field: string;
  /** The item as it was read; nothing is done where it is another one by now. */
  readonly item: string;
  /** Its second line from now on. */
  readonly told: string;
  /** What the wisher's receivers are told, if anything. */
  readonly event?: PendingEvent | undefined;
}

export type Change = Addition | Removal | Sharing | Telling;

/**
 * Undefined: done as asked, and the events are in the stream. Else a text, see lua/wishlist.lua: one of these with what
 * belongs to it, or a redirect.
 */
export type WishlistAnswer = string | undefined;

export const DONE = '=';
export const HAS_CODE = '?';
export const FENCED = '-';
export const OTHER_ITEM = '#';
interface WishlistEntry extends Batched<WishlistAnswer> {
  readonly place: Place;
  readonly change: Change;
}

/** Items of a profile, and bytes of them together, beyond which none is added; 0: any number. */
export interface ItemLimits {
  readonly maxItems: number;
  readonly maxBytes: number;
}

export interface WishlistOptions extends Partial<ItemLimits> {
  /** Bytes at which a stream takes no more. */
  readonly highWater: number;
  /** Told of events that came into a stream with their changes. */
  readonly onRecorded?: OnRecorded;
}

export class WishlistBatch {
  readonly #batcher: Batcher<WishlistEntry, WishlistAnswer>;

  /** @param onBatch told of each batch: entries in it, milliseconds until Redis answered */
  constructor(store: Store, options: WishlistOptions, onBatch?: (size: number, ms: number) => void) {
    this.#batcher = store.batcher(wishlistFormat(store, options), onBatch);
  }

  /**
   * Makes a change, if it belongs to this place.
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_items`
   */
  make(place: Place, change: Change): Promise<WishlistAnswer> {
    return this.#batcher.run({ place, change });
  }

  async close(): Promise<void> {
    await this.#batcher.close();
  }
}

/** What a removal's event has of the item, as lua/wishlist.lua reads it. */
const COLUMN_NAMES = Object.entries(PAYLOAD_COLUMNS)
  .map(([field, column]) => `${field}=${column} `)
  .join('');

function wishlistFormat(
  { keys, guestsS, streamAt }: Pick<Store, 'keys' | 'guestsS' | 'streamAt'>,
  { highWater, maxItems = 0, maxBytes = 0, onRecorded }: WishlistOptions,
): BatchFormat<WishlistEntry, WishlistAnswer> {
  return {
    script: loadScript('wishlist'),
    tag: ({ place }) => bucketOf(place.profileId),
    mixesTags: true,
    writes: () => true,
    size: sizeOf,
    encode(entries, call, address) {
      const stream = streamAt(address);
      let lines = '';
      let events = '';
      const contents: string[] = [];
      for (const { place, change } of entries) {
        const { profileId, generation, checked, link } = place;
        const { once } = change;
        lines += `${LETTERS[change.kind]}${keys.profile(profileId)}\n${keys.items(profileId)}\n`;
        lines += `${checked === '' ? '' : keys.identity(checked)}\n${link}\n${generation}\n`;
        lines += once === undefined ? '\n' : `${keys.operation(profileId, once.recordId)}\n${once.seconds}\n`;
        lines += linesOf(change);
        if (change.kind !== 'remove') events += change.event?.line ?? '';
        if (change.kind === 'add') contents.push(change.others);
      }
      call.arg(keys.events(stream));
      call.arg(keys.eventsState(stream));
      call.arg(highWater);
      call.arg(guestsS);
      call.arg(maxItems);
      call.arg(maxBytes);
      call.arg(COLUMN_NAMES);
      call.arg(lines);
      call.arg(events);
      for (const content of contents) call.arg(content);
    },
    decode(entries, reply) {
      const answers = new Array<WishlistAnswer | Error>(entries.length).fill(undefined);
      const list = reply as (number | WishlistAnswer)[];
      for (let i = 0; i < list.length; i += 2) {
        const answer = list[i + 1];
        answers[(list[i] as number) - 1] = typeof answer === 'number' ? errorOf(answer) : answer;
      }
      if (onRecorded !== undefined)
        for (const [i, { change }] of entries.entries()) tellEvents(change, answers[i], onRecorded);
      return answers;
    },
  };
}

/** The events that came into the stream with a change. */
function tellEvents(change: Change, answer: WishlistAnswer | Error, onRecorded: OnRecorded): void {
  if (answer instanceof Error || (answer !== undefined && !answer.startsWith(DONE))) return;
  if (change.kind !== 'remove') {
    if (change.event !== undefined) onRecorded(change.event.type, 1);
    return;
  }
  const [first] = change.items;
  const removed = answer === undefined ? 1 : Number.parseInt(answer.slice(DONE.length), 10) || 0;
  if (first !== undefined && removed > 0) onRecorded(first.event.type, removed);
}

const LETTERS = { add: 'a', remove: 'r', share: 'c', tell: 't' } as const;

function linesOf(change: Change): string {
  switch (change.kind) {
    case 'add':
      return `${change.field}\n${change.creationLine}\n`;
    case 'share':
      return `${change.code ?? ''}\n${change.isNew ? 1 : ''}\n`;
    case 'tell':
      return `${change.field}\n${change.item}\n${change.told}\n${change.event === undefined ? '' : 1}\n`;
    case 'remove': {
      let lines = `${change.items.length}\n`;
      // A whole line of an event ends by itself.
      for (const { field, event, payload } of change.items)
        lines += `${field}\n${event.line}${payload === '' ? '' : '\n'}${payload}\n`;
      return lines;
    }
  }
}

function sizeOf({ change }: WishlistEntry): number {
  if (change.kind === 'add')
    return change.creationLine.length + change.others.length + change.event.line.length;
  if (change.kind === 'tell') return change.item.length + (change.event?.line.length ?? 0);
  return change.kind === 'share' ? 0 : change.items.reduce((sum, { event }) => sum + event.line.length, 0);
}

function errorOf(code: number): ServiceError {
  return code === LUA.TOO_MANY ? new ServiceError('too_many_items') : overloaded('stream');
}
