// Looks up the stored events, as analysts do, and compares them with the diaries of the visitors.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { select } from '../../src/clickhouse/client.js';
import type { Diary } from './diary.js';

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
 * Every acknowledged event is stored once, under the profile that its visitor has now, and no other is stored. After a
 * refused request the diary is incomplete: more may be stored.
 * @returns a sentence for each event that is not so
 */
export function compareEvents(everyone: readonly Known[], stored: readonly StoredEvents[]): string[] {
  const wrong: string[] = [];
  const known = new Map(everyone.map((one) => [one.diary.number, one]));
  const found = new Map<string, number>();
  for (const { visitor, event, profile_id, times } of stored) {
    const what = `visitor ${visitor}: ${event}`;
    found.set(what, (found.get(what) ?? 0) + times);
    const { diary, profileId = profile_id } = known.get(visitor) ?? {};
    if (profile_id !== profileId) wrong.push(`${what}: of profile ${profile_id}, not ${profileId}`);
    const mayBeMore = diary !== undefined && diary.left === undefined;
    if (!mayBeMore && !diary?.events.includes(event)) wrong.push(`${what}: was never acknowledged`);
  }
  for (const { diary } of everyone)
    for (const event of new Set(diary.events)) {
      const what = `visitor ${diary.number}: ${event}`;
      const [is, should] = [found.get(what) ?? 0, diary.events.filter((one) => one === event).length];
      const isMore = is > should && diary.left !== undefined;
      if (is < should || isMore) wrong.push(`${what}: ${is} times, not ${should}`);
    }
  return wrong;
}

/** A visitor's events that look the same. */
export interface StoredEvents {
  readonly visitor: number;
  /** As the diary names it. */
  readonly event: string;
  /** The profile that the visitor has now. */
  readonly profile_id: string;
  readonly times: number;
}

export function storedEvents(analyst: ClickHouseClient): Promise<StoredEvents[]> {
  return select<StoredEvents>(
    analyst,
    `SELECT
       toUInt32(if(session_id IS NULL, substring(ifNull(customer_id, ''), 2), splitByChar('-', ifNull(session_id, ''))[2])) AS visitor,
       concat(type, ' ', product_id, ':', variant_id) AS event, profile_id, toUInt32(count()) AS times
     FROM events_by_visitor GROUP BY ALL`,
  );
}

/** Milliseconds until as many events are there as should be; undefined if that takes longer than `limitMs`. */
export async function untilArrived(
  analyst: ClickHouseClient,
  events: number,
  limitMs: number,
): Promise<number | undefined> {
  const began = performance.now();
  while (performance.now() - began < limitMs) {
    const [row] = await select<{ times: number }>(analyst, 'SELECT toUInt32(count()) AS times FROM events');
    if (row !== undefined && row.times >= events) return performance.now() - began;
    await sleep(50);
  }
  return undefined;
}
