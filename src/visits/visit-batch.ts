// Visits and links in Redis: every operation of an event-loop turn goes to lua/visits/countVisits.lua in one call (on a cluster, one
// for each node). One whose visitor is elsewhere is answered with a redirect, which src/profiles/places.ts follows.

import { ServiceError } from '../errors.js';
import type { Batched, BatchFormat } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import type { Keys } from '../redis/keys.js';
import { bucketOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { countsOf, type Place } from '../redis/place.js';
import { REMEMBERED_S } from '../redis/requests.js';
import type { ScriptCall } from '../redis/script-call.js';
import { loadScript } from '../redis/scripts.js';
import { KeptGuests } from './kept-guests.js';
import { type VisitLog, visitLine } from './visit-log.js';

/** What is done with a count, in the words of lua/visits/countVisits.lua. */
export type VisitKind = 'visit' | 'count' | 'read' | 'reset';
/** The link of an identity; `resolve` makes an unknown session known. */
type LinkKind = 'resolve' | 'peek';

/** An operation at a place; of `peek` and `resolve` it is the guest's. */
export interface VisitEntry extends Place, Batched<VisitAnswer> {
  readonly kind: VisitKind | LinkKind;
  /** Empty for `peek` and `resolve`. */
  readonly handle: string;
  /** Of a visit, as its visitor sent it: it is logged. */
  readonly device: string | null;
  /** Id of the record under which a `count` or `reset` is done once. */
  readonly recordId?: string | undefined;
  /** Set by `encode`: sent as `kept`, so that the script doesn't check the guest's TTL. */
  isKept?: boolean;
}

/**
 * The count, where one was asked for; for `resolve` and `peek` the identity's link, as in lua/visits/countVisits.lua. Another text is a
 * redirect, or says that the record was fenced: nothing was done.
 */
export type VisitAnswer = string | number | undefined;

export type VisitBatch = Batcher<VisitEntry, VisitAnswer>;

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
): BatchFormat<VisitEntry, VisitAnswer> {
  const kept = new KeptGuests();
  return {
    script: loadScript('visits/countVisits'),
    tag: ({ profileId }) => bucketOf(profileId),
    mixesTags: true,
    writes: ({ kind }) => kind !== 'read' && kind !== 'peek',
    encode(entries, call, address) {
      kept.forgetOld(performance.now());
      let lines = '';
      if (log !== undefined)
        for (const entry of entries)
          if (isVisit(entry)) lines += visitLine(entry.profileId, entry.handle, entry.device);
      call.arg(maxProducts);
      call.arg(guestsS);
      for (const arg of lines === '' || log === undefined ? NOT_LOGGED : log.args(lines, address))
        call.arg(arg);
      for (const entry of entries) putOperation(keys, call, entry, kept);
    },
    decode(entries, reply) {
      const answers = new Array<VisitAnswer | Error>(entries.length).fill(undefined);
      const list = reply as (number | string | Error)[];
      for (let i = 0; i < list.length; i += 2) {
        const answer = list[i + 1];
        if (list[i] === 0) log?.notLogged(answer as number);
        else
          answers[(list[i] as number) - 1] =
            answer === LUA.TOO_MANY ? new ServiceError('too_many_products') : answer;
      }
      let counted = 0;
      for (let i = 0; i < answers.length; i++) {
        const entry = entries[i] as VisitEntry;
        if (!isCounted(entry, answers[i])) continue;
        counted++;
        if (entry.isKept !== true && isAtDefaultProfile(entry)) kept.add(entry.profileId);
      }
      onCounted?.(counted);
      return answers;
    },
  };
}

const NOT_LOGGED = ['', '', 0, ''];

export function isVisit({ kind }: { readonly kind: VisitEntry['kind'] }): boolean {
  return kind === 'visit' || kind === 'count';
}

/** Whether it is a guest's that has its default profile. */
function isAtDefaultProfile({ generation, checked, profileId }: VisitEntry): boolean {
  return generation === '' && checked === profileId;
}

/** An operation, as lua/visits/countVisits.lua reads it. */
function putOperation(keys: Keys, call: ScriptCall, entry: VisitEntry, kept: KeptGuests): void {
  const { kind, profileId, handle, recordId } = entry;
  if (recordId !== undefined) {
    call.arg('once');
    call.arg(keys.operation(profileId, recordId));
    call.arg(REMEMBERED_S);
  }
  if (isAtDefaultProfile(entry)) {
    entry.isKept = kind === 'visit' && kept.has(profileId);
    call.arg(entry.isKept ? 'kept' : kind);
    call.arg(keys.identity(profileId));
  } else {
    call.arg('at');
    call.arg(entry.checked === '' ? '' : keys.identity(entry.checked));
    call.arg(entry.link);
    call.arg(keys.profile(profileId));
    call.arg(entry.generation);
    call.arg(kind);
    call.arg(countsOf(keys, entry));
  }
  call.arg(handle);
}

/** A visit without an answer was counted; so was one whose answer is its count. */
function isCounted(entry: VisitEntry, answer: VisitAnswer | Error): boolean {
  return isVisit(entry) && (answer === undefined || typeof answer === 'number');
}
