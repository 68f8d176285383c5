// Changes of wishlists in Redis: those of an event-loop turn go to lua/wishlist.lua in one call, with their events. One
// that is elsewhere says so in its answer; src/identity/places.ts then asks there.

import { ServiceError } from '../errors.js';
import type { OnRecorded } from '../events/appender.js';
import type { Place } from '../redis/at-profile.js';
import type { Batched, Batcher, BatchFormat } from '../redis/batcher.js';
import { type EventShards, shardOf } from '../redis/event-shards.js';
import { bucketOf, type Keys } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import type { ScriptCall } from '../redis/script-call.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

/** An event before it happens. */
export interface PendingEvent {
  readonly id: string;
  readonly type: string;
  /** From encodeEvent; that of a removal that fills its payload from beginEvent. */
  readonly line: string;
}

interface Operation {
  /** Where given, it is done once under this record, whatever is there. */
  readonly once?: { readonly recordId: string; readonly seconds: number } | undefined;
}

/** Adds an item or updates it. */
interface Addition extends Operation {
  readonly kind: 'add';
  readonly field: string;
  /** Its lines as they are stored where it is new, see newItem. */
  readonly born: string;
  readonly others: string;
  readonly event: PendingEvent;
}

/** Removes items that are there, with an event for each. */
export interface Removal extends Operation {
  readonly kind: 'remove';
  readonly items: readonly {
    readonly field: string;
    readonly event: PendingEvent;
    /** Fields of the item that make the event's payload, separated by spaces; empty where the line is whole. */
    readonly payload: string;
  }[];
}

/** Gives the profile a share code, where it has none. */
interface Sharing extends Operation {
  readonly kind: 'share';
  /** One that was drawn, and whether its key is written already. */
  readonly code: string;
  readonly isWritten: boolean;
  /** Its line has the drawn code. */
  readonly event: PendingEvent;
}

export type Change = Addition | Removal | Sharing;

interface Making {
  readonly kind: 'make';
  readonly profileId: string;
  readonly place: Place;
  readonly change: Change;
}

/** An event of an outbox is in the stream. */
interface Sent {
  readonly kind: 'sent';
  readonly profileId: string;
  readonly id: string;
}

type Request = Making | Sent;

class Entry implements Batched<WishlistAnswer> {
  deadline = 0;

  /** @param shard the stream that its batch's events go to, on one server: chosen once, their number may rise meanwhile */
  constructor(
    readonly request: Request,
    readonly shard: number,
    readonly done: (answer: WishlistAnswer) => void,
    readonly failed: (error: Error) => void,
  ) {}
}

/**
 * Undefined: done as asked, and the event is in the stream. Else a text, see lua/wishlist.lua: one of these with what
 * belongs to it, or where to ask instead.
 */
export type WishlistAnswer = string | undefined;

export const DONE = '=';
export const NOT_NOW = '~';
export const WRITE_CODE = '?';
export const FENCED = '-';
const VERDICTS = DONE + NOT_NOW + WRITE_CODE + FENCED;

/** Whether an answer says where to ask instead. */
export function isElsewhere(answer: string): boolean {
  return !VERDICTS.includes(answer.charAt(0));
}

/** Items of a profile, and bytes of them together, beyond which none is added; 0: any number. */
export interface ItemLimits {
  readonly maxItems: number;
  readonly maxBytes: number;
}

export interface WishlistOptions extends Partial<ItemLimits> {
  /** Streams that new events are spread over, and bytes at which one takes no more. */
  readonly shards: Pick<EventShards, 'current'>;
  readonly highWater: number;
  /** Told of events that came into a stream with their changes: on one server. */
  readonly onRecorded?: OnRecorded;
}

export class WishlistBatch {
  readonly #batcher: Batcher<Entry, WishlistAnswer>;
  readonly #shards: Pick<EventShards, 'current'>;

  /** @param onBatch told of each batch: entries in it, milliseconds until Redis answered */
  constructor(store: Store, options: WishlistOptions, onBatch?: (size: number, ms: number) => void) {
    this.#shards = options.shards;
    const format = wishlistFormat(store.keys, !store.isCluster, store.guestsS, options);
    this.#batcher = store.batcher(format, onBatch);
  }

  /**
   * Makes a change, if it belongs to this place.
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_items`
   */
  make(place: Place, change: Change): Promise<WishlistAnswer> {
    return this.#run({ kind: 'make', profileId: place.profileId, place, change });
  }

  /** Takes an event out of its outbox: it is in the stream. @returns a text where the profile was merged away */
  sent(profileId: string, id: string): Promise<WishlistAnswer> {
    return this.#run({ kind: 'sent', profileId, id });
  }

  async close(): Promise<void> {
    await this.#batcher.close();
  }

  #run(request: Request): Promise<WishlistAnswer> {
    const shard = shardOf(request.profileId, this.#shards.current);
    return new Promise((done, failed) => this.#batcher.add(new Entry(request, shard, done, failed)));
  }
}

/** What a removal's event has of the item: field -> column. */
const COLUMNS = {
  productId: 'product_id',
  variantId: 'variant_id',
  productHandle: 'product_handle',
  quantity: 'quantity',
  price: 'price',
  compareAt: 'compare_at',
  currencyCode: 'currency',
  inventoryAvailable: 'inventory_available',
};
const COLUMN_NAMES = Object.entries(COLUMNS)
  .map(([field, column]) => `${field}=${column} `)
  .join('');

/** @param isOneServer where visitors, wishlists and streams can be reached in one step */
function wishlistFormat(
  keys: Keys,
  isOneServer: boolean,
  guestsS: number,
  { highWater, maxItems = 0, maxBytes = 0, onRecorded }: WishlistOptions,
): BatchFormat<Entry, WishlistAnswer> {
  return {
    script: loadScript('wishlist'),
    tag: ({ request, shard }) => (isOneServer ? `e${shard}` : bucketOf(request.profileId)),
    mixesTags: false,
    writes: () => true,
    size: sizeOf,
    encode(entries, call) {
      if (isOneServer) {
        const { shard } = entries[0] as Entry;
        call.key(keys.events(shard));
        call.key(keys.eventsState(shard));
      }
      let lines = '';
      const given = { events: '', contents: [] as string[] };
      for (const { request } of entries) {
        const { kind, profileId } = request;
        call.key(keys.profile(profileId));
        if (kind === 'sent') {
          call.key(keys.outbox(profileId));
          lines += `s\n${request.id}\n`;
          continue;
        }
        const { place, change } = request;
        const { checked, own, field } = place;
        // On a cluster a code's key is in another slot, and its sender writes it.
        call.key(change.kind === 'share' && isOneServer ? keys.share(change.code) : keys.items(profileId));
        if (!isOneServer) call.key(keys.outbox(profileId));
        lines += `${LETTERS[change.kind]}${checked}\n`;
        if (checked !== '') lines += `${field}\n`;
        lines += linesOf(change, profileId, call, keys, given);
        if (checked !== '') call.key(keys.door(own));
      }
      call.arg(isOneServer ? highWater : '');
      call.arg(maxItems);
      call.arg(maxBytes);
      call.arg(COLUMN_NAMES);
      call.arg(guestsS);
      call.arg(lines);
      call.arg(given.events);
      for (const content of given.contents) call.arg(content);
    },
    decode(entries, reply) {
      const answers = new Array<WishlistAnswer | Error>(entries.length).fill(undefined);
      const list = reply as (number | WishlistAnswer)[];
      for (let i = 0; i < list.length; i += 2) {
        const answer = list[i + 1];
        answers[(list[i] as number) - 1] = typeof answer === 'number' ? errorOf(answer) : answer;
      }
      if (isOneServer && onRecorded !== undefined)
        for (const [i, { request }] of entries.entries()) tellEvents(request, answers[i], onRecorded);
      return answers;
    },
  };
}

/** The events that came into the stream with a change. */
function tellEvents(request: Request, answer: WishlistAnswer | Error, onRecorded: OnRecorded): void {
  if (request.kind !== 'make' || answer instanceof Error) return;
  if (answer !== undefined && !answer.startsWith(DONE)) return;
  const { change } = request;
  if (change.kind !== 'remove') {
    onRecorded(change.event.type, 1);
    return;
  }
  const [first] = change.items;
  const removed = answer === undefined ? 1 : Number.parseInt(answer.slice(DONE.length), 10) || 0;
  if (first !== undefined && removed > 0) onRecorded(first.event.type, removed);
}

const LETTERS = { add: 'a', remove: 'r', share: 'c' } as const;

function linesOf(
  change: Change,
  profileId: string,
  call: ScriptCall,
  keys: Keys,
  given: { events: string; readonly contents: string[] },
): string {
  const { once } = change;
  if (once !== undefined) call.key(keys.operation(profileId, once.recordId));
  const recorded = `${once?.seconds ?? ''}\n`;
  // Lines of events end by themselves.
  switch (change.kind) {
    case 'add': {
      const { field, born, others, event } = change;
      given.events += event.line;
      given.contents.push(others);
      return `${recorded}${field}\n${born}\n`;
    }
    case 'share': {
      const { code, isWritten, event } = change;
      given.events += event.line;
      return `${recorded}${code}\n${isWritten ? 1 : 0}\n${profileId}\n`;
    }
    case 'remove': {
      const { items } = change;
      let lines = `${recorded}${items.length}\n`;
      for (const { field, event, payload } of items)
        lines += `${field}\n${event.line}${payload === '' ? '' : '\n'}${payload}\n`;
      return lines;
    }
  }
}

function sizeOf({ request }: Entry): number {
  if (request.kind !== 'make') return 0;
  const { change } = request;
  if (change.kind === 'add') return change.born.length + change.others.length + change.event.line.length;
  return change.kind === 'share' ? 0 : change.items.reduce((sum, { event }) => sum + event.line.length, 0);
}

function errorOf(code: number): ServiceError {
  return new ServiceError(code === LUA.TOO_MANY ? 'too_many_items' : 'overloaded');
}
