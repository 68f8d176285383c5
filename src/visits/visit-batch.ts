// Visits and links in Redis: every operation of an event-loop turn goes to lua/visits.lua in one call (on a cluster, one
// for each node). One whose visitor is elsewhere is answered with a redirect, which src/identity/places.ts follows.

import { ServiceError } from '../errors.js';
import type { Batched, BatchFormat } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import type { Keys } from '../redis/keys.js';
import { bucketOf } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { countsOf, type Place } from '../redis/place.js';
import { loadScript } from '../redis/scripts.js';
import { type VisitLog, visitLine } from './visit-log.js';

/** What is done with a count. */
export type VisitKind = 'visit' | 'visitAndCount' | 'read' | 'reset';
/** The link of an identity; `resolve` makes an unknown session known. */
type LinkKind = 'resolve' | 'peek';

/** An operation at a place; of `peek` and `resolve` it is the guest's. */
export interface VisitEntry extends Place, Batched<VisitAnswer> {
  readonly kind: VisitKind | LinkKind;
  /** Empty for `peek` and `resolve`. */
  readonly handle: string;
  /** Of a visit, as its visitor sent it: it is logged. */
  readonly device: string | null;
}

/**
 * The count, where one was asked for; for `resolve` and `peek` the identity's link, as in lua/visits.lua. Another text is a
 * redirect: nothing was done.
 */
export type VisitAnswer = string | number | undefined;

export type VisitBatch = Batcher<VisitEntry, VisitAnswer>;

const LETTERS: Record<VisitEntry['kind'], string> = {
  visit: 'v',
  visitAndCount: 'c',
  read: 'g',
  reset: 'd',
  resolve: 'r',
  peek: 'p',
};
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
      for (let i = 0; i < answers.length; i++) if (isCounted(entries[i] as VisitEntry, answers[i])) counted++;
      onCounted?.(counted);
      return answers;
    },
  };
}

function isVisit({ kind }: VisitEntry): boolean {
  return kind === 'visit' || kind === 'visitAndCount';
}

/** An operation, as lua/visits.lua reads it. */
function linesOf(keys: Keys, entry: VisitEntry): string {
  const { kind, profileId, generation, checked, link, handle } = entry;
  if (generation === '' && checked === profileId)
    return `${LETTERS[kind]}${keys.identity(profileId)}\n${handle}\n`;
  const identity = checked === '' ? '' : keys.identity(checked);
  const place = `${identity}\n${link}\n${keys.profile(profileId)}\n${generation}\n`;
  return `${LETTERS[kind].toUpperCase()}${countsOf(keys, entry)}\n${handle}\n${place}`;
}

/** A visit without an answer was counted; so was one whose answer is its count. */
function isCounted(entry: VisitEntry, answer: VisitAnswer | Error): boolean {
  return isVisit(entry) && (answer === undefined || typeof answer === 'number');
}
