// Sends a tick's wishlist changes and their events to lua/wishlist/changeItems.lua in one call.

import { PAYLOAD_COLUMNS } from '../clickhouse/columns.js';
import { overloaded, ServiceError } from '../errors.js';
import type { OnRecorded } from '../events/appender.js';
import { type Batched, type BatchFormat, listedAnswers } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import { bucketOf } from '../redis/keys.js';
import type { Location } from '../redis/location.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

export interface PendingEvent {
  readonly type: string;
  /** Made by encodeEvent, or by beginEvent if the script adds the payload. */
  readonly line: string;
}

interface Recorded {
  readonly once?: { readonly recordId: string; readonly seconds: number } | undefined;
}

interface Addition extends Recorded {
  readonly kind: 'add';
  readonly field: string;
  /** This and `others` are made by newItem. */
  readonly creationLine: string;
  readonly others: string;
  readonly event: PendingEvent;
}

export interface Removal extends Recorded {
  readonly kind: 'remove';
  readonly items: readonly {
    readonly field: string;
    readonly event: PendingEvent;
    /** Payload fields to copy from the item, separated by spaces; '' if the line is complete. */
    readonly payload: string;
  }[];
}

interface Sharing extends Recorded {
  readonly kind: 'share';
  /** Undefined to read the profile's code. The key of a new code must exist. */
  readonly code?: string;
  readonly isNew?: boolean;
  readonly event?: PendingEvent;
}

export type Change = Addition | Removal | Sharing;

/** Undefined if done as usual; else a code of LUA, perhaps with a value. See lua/wishlist/changeItems.lua. */
export type WishlistAnswer = string | undefined;

interface WishlistEntry extends Batched<WishlistAnswer> {
  readonly location: Location;
  readonly change: Change;
}

/** Limits of a profile; 0 means no limit. */
export interface ItemLimits {
  readonly maxItems: number;
  readonly maxBytes: number;
}

export interface WishlistOptions extends Partial<ItemLimits> {
  readonly highWater: number;
  /** Seconds until a guest expires, by default the store's; 0 means never. */
  readonly guestsS?: number;
  readonly onRecorded?: OnRecorded;
}

export class WishlistBatch {
  readonly #batcher: Batcher<WishlistEntry, WishlistAnswer>;

  constructor(store: Store, options: WishlistOptions, onBatch?: (size: number, ms: number) => void) {
    this.#batcher = store.batcher(wishlistFormat(store, options), onBatch);
  }

  make(location: Location, change: Change): Promise<WishlistAnswer> {
    return this.#batcher.run({ location, change });
  }

  async close(): Promise<void> {
    await this.#batcher.close();
  }
}

const COLUMN_NAMES = Object.entries(PAYLOAD_COLUMNS)
  .map(([field, column]) => `${field}=${column} `)
  .join('');

function wishlistFormat(
  { keys, guestsS: storeGuestsS, streamAt }: Pick<Store, 'keys' | 'guestsS' | 'streamAt'>,
  { highWater, guestsS = storeGuestsS, maxItems = 0, maxBytes = 0, onRecorded }: WishlistOptions,
): BatchFormat<WishlistEntry, WishlistAnswer> {
  return {
    script: loadScript('wishlist/changeItems'),
    tag: ({ location }) => bucketOf(location.profileId),
    mixesTags: true,
    writes: () => true,
    size: sizeOf,
    encode(entries, call, address) {
      const stream = streamAt(address);
      let lines = '';
      let events = '';
      const contents: string[] = [];
      for (const { location, change } of entries) {
        const { profileId, session, linkId } = location;
        const { once } = change;
        lines += `${LETTERS[change.kind]}${keys.profile(profileId)}\n${session}\n${linkId}\n`;
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
      const answers = itemAnswers(entries.length, reply);
      if (onRecorded !== undefined)
        for (const [i, { change }] of entries.entries()) reportEvents(change, answers[i], onRecorded);
      return answers;
    },
  };
}

/** @returns as listedAnswers(), from a script that answers an error by its number */
export function itemAnswers(ops: number, reply: unknown) {
  return listedAnswers<string>(ops, reply, (answer) =>
    typeof answer === 'number' ? errorOf(answer) : answer,
  );
}

function reportEvents(change: Change, answer: WishlistAnswer | Error, onRecorded: OnRecorded): void {
  if (answer instanceof Error || (answer !== undefined && !answer.startsWith(LUA.DONE))) return;
  if (change.kind !== 'remove') {
    if (change.event !== undefined) onRecorded(change.event.type, 1);
    return;
  }
  const [first] = change.items;
  const removed = answer === undefined ? 1 : Number.parseInt(answer.slice(LUA.DONE.length), 10) || 0;
  if (first !== undefined && removed > 0) onRecorded(first.event.type, removed);
}

const LETTERS = { add: 'a', remove: 'r', share: 'c' } as const;

function linesOf(change: Change): string {
  switch (change.kind) {
    case 'add':
      return `${change.field}\n${change.creationLine}\n`;
    case 'share':
      return `${change.code ?? ''}\n${change.isNew ? 1 : ''}\n`;
    case 'remove': {
      let lines = `${change.items.length}\n`;
      // Only a line of encodeEvent ends with a newline. The script completes the others, which name payload fields.
      for (const { field, event, payload } of change.items)
        lines += `${field}\n${event.line}${payload === '' ? '' : '\n'}${payload}\n`;
      return lines;
    }
  }
}

function sizeOf({ change }: WishlistEntry): number {
  if (change.kind === 'add')
    return change.creationLine.length + change.others.length + change.event.line.length;
  return change.kind === 'share' ? 0 : change.items.reduce((sum, { event }) => sum + event.line.length, 0);
}

function errorOf(code: number): ServiceError {
  return code === LUA.TOO_MANY ? new ServiceError('too_many_items') : overloaded('stream');
}
