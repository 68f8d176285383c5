// What analysts find of one demo in ClickHouse.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { rowsOf } from '../servers/clickhouse.js';
import { CURRENCIES, type Currency } from './catalogue.js';
import type { EventColumns } from './diary.js';

/** Events that look the same, as ClickHouse has them: whose they are, and how many. */
export interface StoredEvents extends EventColumns {
  /** The profile that the visitor has now. */
  readonly profile_id: string;
  readonly session_id: string | null;
  readonly customer_id: string | null;
  readonly times: number;
}

export interface StoredMerge {
  readonly old_id: string;
  readonly new_id: string;
}

const ofRun = (run: string) =>
  `startsWith(ifNull(session_id, ''), 'demo-${run}-') OR startsWith(ifNull(customer_id, ''), '${run}')`;

export function storedEvents(analyst: ClickHouseClient, run: string): Promise<StoredEvents[]> {
  return rowsOf<StoredEvents>(
    analyst,
    `SELECT profile_id, session_id, customer_id, type, origin, product_id, variant_id, product_handle, source,
       channel, share_code, JSONExtractString(payload, 'orderId') AS order_id, currency, quantity,
       toFloat64(events_by_visitor.price) AS price, toUInt32(count()) AS times
     FROM events_by_visitor WHERE ${ofRun(run)} GROUP BY ALL`,
  );
}

/** What was bought, as figures of revenue have it, and beside it the lines of test orders. */
export interface StoredRevenue {
  readonly lines: number;
  /** By currency, in its hundredths. */
  readonly paid: Readonly<Record<Currency, number>>;
  readonly testLines: number;
}

export async function storedRevenue(analyst: ClickHouseClient, run: string): Promise<StoredRevenue> {
  const paid = (currency: Currency) =>
    `toInt32(sum(if(currency = '${currency}', ifNull(amount, 0), 0)) * 100) AS ${currency}`;
  const [row] = await rowsOf<Record<Currency, number> & Omit<StoredRevenue, 'paid'>>(
    analyst,
    `SELECT toUInt32(count()) AS lines, ${CURRENCIES.map(paid).join(', ')},
       (SELECT toUInt32(count()) FROM purchases WHERE test AND (${ofRun(run)})) AS testLines
     FROM purchases_by_visitor WHERE ${ofRun(run)}`,
  );
  if (row === undefined) throw new Error('A sum has one row.');
  const { lines, testLines, EUR, USD, JPY } = row;
  return { lines, testLines, paid: { EUR, USD, JPY } };
}

/** Merges of these profiles. */
export async function storedMerges(
  analyst: ClickHouseClient,
  oldIds: readonly string[],
): Promise<StoredMerge[]> {
  if (oldIds.length === 0) return [];
  const list = oldIds.map((id) => `'${id}'`).join(', ');
  return rowsOf<StoredMerge>(analyst, `SELECT old_id, new_id FROM profile_merges WHERE old_id IN (${list})`);
}

/** Milliseconds until as many events and merges are there as should be; undefined where that takes longer than `limitMs`. */
export async function untilArrived(
  analyst: ClickHouseClient,
  run: string,
  events: number,
  oldIds: readonly string[],
  limitMs: number,
): Promise<number | undefined> {
  const began = performance.now();
  while (performance.now() - began < limitMs) {
    const [row] = await rowsOf<{ times: number }>(
      analyst,
      `SELECT toUInt32(count()) AS times FROM events WHERE ${ofRun(run)}`,
    );
    const hasAll = row !== undefined && row.times >= events;
    if (hasAll && (await storedMerges(analyst, oldIds)).length >= oldIds.length)
      return performance.now() - began;
    await sleep(50);
  }
  return undefined;
}
