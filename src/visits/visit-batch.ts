// One call of lua/visits/countVisits.lua per node and tick.

import { ServiceError } from '../errors.js';
import type { AskLink, LinkKind } from '../profiles/link.js';
import type { Batched, BatchFormat } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import type { Keys } from '../redis/keys.js';
import { bucketOf } from '../redis/keys.js';
import { isCustomers, type Location, ownLocation } from '../redis/location.js';
import { LUA } from '../redis/lua-codes.js';
import { REMEMBERED_S } from '../redis/requests.js';
import type { ScriptCall } from '../redis/script-call.js';
import { loadScript } from '../redis/scripts.js';
import { KeptGuests } from './kept-guests.js';
import { type VisitLog, visitLine } from './visit-log.js';

export type VisitKind = 'visit' | 'count' | 'read' | 'reset';

export interface VisitEntry extends Location, Batched<VisitAnswer> {
  readonly kind: VisitKind | LinkKind;
  readonly handle: string;
  readonly device: string | null;
  /** The record that makes a `count` or `reset` idempotent. */
  readonly recordId?: string | undefined;
  /** Set by `encode` if the visit was sent as `kept`. */
  isKept?: boolean;
}

/** The count, if asked for, or the link. A redirect or FENCED means that nothing was done. */
export type VisitAnswer = string | number | undefined;

export type VisitBatch = Batcher<VisitEntry, VisitAnswer>;

/** Links are read in the same batch as visits: both are in the hash of counts. */
export function linkReader(batch: VisitBatch): AskLink {
  return async (profileId, kind) =>
    (await batch.run({ kind, handle: '', device: null, ...ownLocation(profileId) })) as string;
}

export interface VisitFormatSpec {
  readonly keys: Keys;
  readonly maxProducts: number;
  readonly guestsS: number;
  /** If undefined, visits are counted but not logged. */
  readonly log?: VisitLog | undefined;
  readonly onCounted?: (visits: number) => void;
}

export function visitFormat(spec: VisitFormatSpec): BatchFormat<VisitEntry, VisitAnswer> {
  const { keys, maxProducts, guestsS, log, onCounted } = spec;
  const kept = new KeptGuests();
  return {
    script: loadScript('visits/countVisits'),
    tag: ({ profileId }) => bucketOf(profileId),
    mixesTags: true,
    writes: ({ kind }) => kind !== 'read' && kind !== 'peek',
    mayWait: ({ kind }) => kind === 'visit',
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
        if (entry.isKept !== true && !isCustomers(entry.profileId)) kept.add(entry.profileId);
      }
      onCounted?.(counted);
      return answers;
    },
  };
}

const NOT_LOGGED = ['', '', 0, ''];

function isVisit({ kind }: { readonly kind: VisitEntry['kind'] }): boolean {
  return kind === 'visit' || kind === 'count';
}

function putOperation(keys: Keys, call: ScriptCall, entry: VisitEntry, kept: KeptGuests): void {
  const { kind, profileId, handle, recordId } = entry;
  if (recordId !== undefined) {
    call.arg('once');
    call.arg(keys.operation(profileId, recordId));
    call.arg(REMEMBERED_S);
  }
  if (entry.session !== '') {
    call.arg('by');
    call.arg(keys.members(profileId));
    call.arg(entry.session);
    call.arg(entry.linkId);
  }
  entry.isKept = kind === 'visit' && (isCustomers(profileId) || kept.has(profileId));
  call.arg(entry.isKept ? 'kept' : kind);
  call.arg(keys.counts(profileId));
  call.arg(handle);
}

function isCounted(entry: VisitEntry, answer: VisitAnswer | Error): boolean {
  return isVisit(entry) && (answer === undefined || typeof answer === 'number');
}
