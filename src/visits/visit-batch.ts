// Visits and doors in Redis: every operation of an event-loop turn goes to lua/visits.lua in one call (on a cluster, one
// for each node). An operation that is elsewhere says so in its answer; src/identity/places.ts then asks there.

import { ServiceError } from '../errors.js';
import { isCustomerName } from '../identity-rules.js';
import type { Batched, BatchFormat } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import type { Keys } from '../redis/keys.js';
import { bucketOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';
import { type VisitLog, visitLine } from './visit-log.js';

/** What is done with a count. */
export type VisitKind = 'visit' | 'visitAndCount' | 'read' | 'reset';
/** Where an identity is; `resolve` makes an unknown one known. */
type DoorKind = 'resolve' | 'peek';

/** An operation at a door (of an identity at home), on the door itself, or at a room. */
export interface Entry extends Batched<VisitAnswer> {
  readonly kind: VisitKind | DoorKind;
  /** Empty for an operation on a door itself. */
  readonly handle: string;
  /** The identity's own profile, or the one whose room it is. */
  readonly profileId: string;
  /** At a room: own profile of the identity that is checked; not used else. */
  readonly own: string;
  /** Whether it is at a room; never an operation on a door itself. */
  readonly isRoom: boolean;
  /** At a room: what a door that is checked must say. */
  readonly field: string;
  /**
   * The identity, `c:<customer>` or `s:<session>`. At a room: whose door is checked in the same step; empty where it
   * was asked before.
   */
  readonly name: string;
  /** Of a visit, as its visitor sent it: it is logged. */
  readonly device: string | null;
}

/**
 * The count, where one was asked for.
 * For `resolve` and `peek` the identity's field, as in lua/visits.lua.
 * Another text says that nothing was done here, and where to ask: `@<field>`, or a profile's heir.
 */
export type VisitAnswer = string | number | undefined;

export type VisitBatch = Batcher<Entry, VisitAnswer>;

const LETTERS: Record<Entry['kind'], string> = {
  visit: 'v',
  visitAndCount: 'c',
  read: 'g',
  reset: 'd',
  resolve: 'r',
  peek: 'p',
};
/** Of a customer at home, who does not end as guests do. */
const LETTERS_OF_CUSTOMERS: Record<Entry['kind'], string> = { ...LETTERS, visit: 'w', visitAndCount: 'x' };

/**
 * @param maxProducts products that a profile may count; one more is `too_many_products`
 * @param guestsS see StoreOptions
 * @param log undefined where visits are counted only
 * @param onCounted told how many visits of a batch were counted
 */
export function visitFormat(
  keys: Keys,
  maxProducts: number,
  guestsS: number,
  log?: VisitLog,
  onCounted?: (visits: number) => void,
): BatchFormat<Entry, VisitAnswer> {
  return {
    script: loadScript('visits'),
    tag: ({ profileId }) => bucketOf(profileId),
    mixesTags: true,
    writes: ({ kind }) => kind !== 'read' && kind !== 'peek',
    encode(entries, call, address) {
      let lines = '';
      let visits = '';
      for (const entry of entries) {
        if (log !== undefined && isVisit(entry))
          visits += visitLine(entry.profileId, entry.handle, entry.device);
        lines += linesOf(keys, entry);
      }
      call.arg(maxProducts);
      call.arg(guestsS);
      call.arg(lines);
      if (visits !== '') log?.give(call, visits, address);
    },
    encodeAlone(entry, call, lane) {
      const { kind, profileId, own, isRoom, name } = entry;
      call.key(isRoom ? keys.room(profileId) : keys.door(profileId));
      if (isRoom || !(isVisit(entry) || kind === 'read')) call.key(keys.profile(profileId));
      if (isRoom && name !== '') call.key(keys.door(own));
      call.arg(maxProducts);
      call.arg(guestsS);
      call.arg(linesOf(keys, entry));
      call.arg(lane);
    },
    decode(entries, reply, address) {
      const answers = new Array<VisitAnswer | Error>(entries.length).fill(undefined);
      const list = reply as (number | string | Error)[];
      let missed = 0;
      for (let i = 0; i < list.length; i += 2) {
        const answer = list[i + 1];
        if (list[i] === 0) {
          missed = answer as number;
          continue;
        }
        answers[(list[i] as number) - 1] =
          answer === LUA.TOO_MANY ? new ServiceError('too_many_products') : answer;
      }
      let counted = 0;
      for (let i = 0; i < answers.length; i++) if (isCounted(entries[i] as Entry, answers[i])) counted++;
      onCounted?.(counted);
      if (log !== undefined && missed !== 0) {
        const visits = entries
          .filter((entry, i) => isCounted(entry, answers[i]))
          .map(({ profileId, handle, device, deadline }) => {
            return { profileId, line: visitLine(profileId, handle, device), deadline };
          });
        log.notLogged(missed, visits, address);
      }
      return answers;
    },
  };
}

function isVisit({ kind }: Entry): boolean {
  return kind === 'visit' || kind === 'visitAndCount';
}

/** An operation, as lua/visits.lua reads it. */
function linesOf(keys: Keys, { kind, profileId, own, isRoom, name, field, handle }: Entry): string {
  if (isRoom) {
    const lines = `${LETTERS[kind].toUpperCase()}${keys.room(profileId)}\n${handle}\n${keys.profile(profileId)}\n`;
    return name === '' ? `${lines}\n` : `${lines}${keys.door(own)}\n${field}\n`;
  }
  const letters = isCustomerName(name) ? LETTERS_OF_CUSTOMERS : LETTERS;
  return `${letters[kind]}${keys.door(profileId)}\n${handle}\n`;
}

/** A visit without an answer was counted; so was one whose answer is its count. */
function isCounted(entry: Entry, answer: VisitAnswer | Error): boolean {
  return isVisit(entry) && (answer === undefined || typeof answer === 'number');
}
