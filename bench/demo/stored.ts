// What analysts find of one demo in ClickHouse.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { rowsOf } from '../servers/clickhouse.js';

/** A visitor's events that look the same. */
export interface StoredEvents {
  readonly visitor: number;
  /** As the diary names it. */
  readonly event: string;
  /** The profile that the visitor has now. */
  readonly profile_id: string;
  readonly times: number;
}

const ofRun = (run: string) =>
  `startsWith(ifNull(session_id, ''), 'demo-${run}-') OR startsWith(ifNull(customer_id, ''), '${run}')`;

export function storedEvents(analyst: ClickHouseClient, run: string): Promise<StoredEvents[]> {
  return rowsOf<StoredEvents>(
    analyst,
    `SELECT
       toUInt32(if(session_id IS NULL, substring(ifNull(customer_id, ''), 11), splitByChar('-', ifNull(session_id, ''))[3])) AS visitor,
       concat(type, ' ', product_id, ':', variant_id) AS event, profile_id, toUInt32(count()) AS times
     FROM events_by_visitor WHERE ${ofRun(run)} GROUP BY ALL`,
  );
}

/** Milliseconds until as many events are there as should be; undefined if that takes longer than `limitMs`. */
export async function untilArrived(
  analyst: ClickHouseClient,
  run: string,
  events: number,
  limitMs: number,
): Promise<number | undefined> {
  const began = performance.now();
  while (performance.now() - began < limitMs) {
    const [row] = await rowsOf<{ times: number }>(
      analyst,
      `SELECT toUInt32(count()) AS times FROM events WHERE ${ofRun(run)}`,
    );
    if (row !== undefined && row.times >= events) return performance.now() - began;
    await sleep(50);
  }
  return undefined;
}
