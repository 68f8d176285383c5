// What analysts find of one demo in ClickHouse.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { select } from '../../src/clickhouse/client.js';

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
