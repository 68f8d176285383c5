// Checks of the stored events against the diaries of the visitors.

import { CURRENCIES } from './catalogue.js';
import type { Diary, EventColumns } from './diary.js';
import type { StoredEvents, StoredMerge, StoredRevenue } from './stored.js';

/** One promise, and where it was broken. */
export interface Finding {
  readonly sentence: string;
  readonly wrong: readonly string[];
}

/** A visitor whose diary is complete has one profile. */
export interface Known {
  readonly diary: Diary;
  readonly profileId: string | undefined;
}

/**
 * Every acknowledged event is stored once, as what it was, under the profile that its visitor has now; nothing
 * else is stored. What is not so, one sentence each. Of a visitor whose diary is not complete more may be stored.
 */
export function compareEvents(everyone: readonly Known[], stored: readonly StoredEvents[]): string[] {
  const wrong: string[] = [];
  const byVisitor = new Map<number, StoredEvents[]>();
  for (const row of stored) {
    const rows = byVisitor.get(visitorOf(row));
    if (rows) rows.push(row);
    else byVisitor.set(visitorOf(row), [row]);
  }
  for (const { diary, profileId } of everyone) {
    const rows = byVisitor.get(diary.number) ?? [];
    byVisitor.delete(diary.number);
    const found = tally(rows.map((row) => [describe(row), row.times]));
    const asked = tally(diary.events.map((event) => [describe(event), 1]));
    for (const what of new Set([...asked.keys(), ...found.keys()])) {
      const [is, should] = [found.get(what) ?? 0, asked.get(what) ?? 0];
      const isMore = is > should && diary.left !== undefined;
      if (is < should || isMore) wrong.push(`visitor ${diary.number}: ${what}: ${is} times, not ${should}`);
    }
    if (profileId === undefined) continue;
    for (const row of rows.filter((row) => row.profile_id !== profileId)) {
      wrong.push(`visitor ${diary.number}: ${describe(row)}: of profile ${row.profile_id}, not ${profileId}`);
    }
  }
  for (const row of [...byVisitor.values()].flat()) wrong.push(`of no visitor: ${describe(row)}`);
  return wrong;
}

/** Every profile that became part of another is in `profile_merges`, once, with the one that its visitor has now. */
export function compareMerges(everyone: readonly Known[], stored: readonly StoredMerge[]): string[] {
  const wrong: string[] = [];
  for (const { diary, profileId } of everyone) {
    if (profileId === undefined) continue;
    for (const former of diary.formerProfiles) {
      const heirs = stored.filter(({ old_id }) => old_id === former).map(({ new_id }) => new_id);
      if (heirs.length === 1 && heirs[0] === profileId) continue;
      wrong.push(`visitor ${diary.number}: ${former} became [${heirs.join(', ')}], not ${profileId}`);
    }
  }
  return wrong;
}

/** Every line of an order is stored once, revenue in each currency is what was paid, and test orders are beside it. */
export function compareRevenue(asked: StoredRevenue, stored: StoredRevenue): string[] {
  const figures = ({ lines, paid, testLines }: StoredRevenue) => ({ lines, testLines, ...paid });
  const [is, should] = [figures(stored), figures(asked)];
  return (['lines', 'testLines', ...CURRENCIES] as const)
    .filter((what) => is[what] !== should[what])
    .map((what) => `${what}: ${is[what]}, not ${should[what]}`);
}

/** The visitor's number, from either id. */
function visitorOf({ session_id, customer_id }: StoredEvents): number {
  return Number(session_id === null ? customer_id?.slice(10) : session_id.split('-')[2]);
}

function describe(event: EventColumns): string {
  const { type, origin, product_id, variant_id, product_handle, source } = event;
  const { channel, share_code, order_id, currency, quantity, price } = event;
  const rest = [
    origin,
    product_id,
    variant_id,
    product_handle,
    source,
    channel,
    share_code,
    order_id,
    currency,
  ];
  return `${type} (${[...rest, quantity ?? '', price ?? ''].join('|')})`;
}

function tally(entries: readonly (readonly [what: string, times: number])[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [what, times] of entries) sums.set(what, (sums.get(what) ?? 0) + times);
  return sums;
}
