// Daily totals of visits: one row per day and product.
// A total replaces all rows of its day, so totalling is idempotent. A product whose visits were all erased gets 0
// visits; the views skip it.
// A day is open until its totals are newer than its last row (view visit_days). Late visits or another SHOP_TIMEZONE
// open it again.
// A day older than VISIT_RETENTION_DAYS is sealed once its totals are newer than its rows. Only rows of sealed days are
// deleted, so no total is lost. A row that arrives after the seal is in no total.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { repeat } from '../repeat.js';
import { select } from './client.js';
import { localTable, onCluster } from './cluster.js';

/** Time without new rows before a day is totalled: longer than an insert needs from visit_hours to visits_stored. */
export const QUIET_MS = 600_000;
const EVERY_MS = 300_000;
/** The last seven days are totalled again, because guests who log in are merged into the customer. */
const FOLLOW_DAYS = 7;
const SEALED = "toDateTime64('2200-01-01 00:00:00', 3, 'UTC')";

export interface DaysToTotal {
  readonly keptDays: number;
  readonly timeZone: string;
  readonly cluster: string;
}

/** @param now milliseconds by ClickHouse's clock */
export async function totalDays(
  client: ClickHouseClient,
  now: number,
  { keptDays = 0, timeZone = 'UTC', cluster = '' }: Partial<DaysToTotal> = {},
  signal?: AbortSignal,
): Promise<string[]> {
  const abort = signal === undefined ? {} : { abort_signal: signal };
  const today = `toDate(fromUnixTimestamp64Milli({now: Int64}), '${timeZone}')`;
  const query = `SELECT toString(visit_days.day) AS day FROM visit_days
    WHERE visit_days.day < ${today}
      AND touched_at < fromUnixTimestamp64Milli({quiet: Int64}, 'UTC')
      AND totalled_at < ${SEALED}
      AND (is_open
        OR (visit_days.day >= ${today} - {follow: UInt8}
          AND totalled_at < fromUnixTimestamp64Milli({yesterday: Int64}, 'UTC')))
    ORDER BY day`;
  const query_params = { now, quiet: now - QUIET_MS, yesterday: now - 86_400_000, follow: FOLLOW_DAYS };
  const rows = await select<{ day: string }>(client, query, { query_params, ...abort });
  const days = rows.map(({ day }) => day);
  for (const day of days) {
    signal?.throwIfAborted();
    await total(client, { day, timeZone, now }, abort);
  }
  await client.command({
    query: `INSERT INTO visit_days_stored (day, time_zone, totalled_at)
      SELECT day, time_zone, ${SEALED} FROM visit_days
      WHERE totalled_at > 0 AND totalled_at < ${SEALED} AND NOT is_open
        AND ${isOver(`toDateTime64(visit_days.day, 3, '${timeZone}')`)}`,
    query_params: { now, keptDays },
    ...abort,
  });
  await deleteVisits(client, { keptDays, timeZone, cluster }, now, abort);
  return days;
}

/** SQL: the UTC day ended more than `keptDays` ago. Compares numbers: a Date can't be before 1970. */
function isOver(time: string): string {
  const today = "toInt32(toDate(fromUnixTimestamp64Milli({now: Int64}, 'UTC')))";
  return `({keptDays: Int32} > 0 AND toInt32(toDate(${time}, 'UTC')) + {keptDays: Int32} < ${today})`;
}

const DAYS_PER_STATEMENT = 1_000;

/** Retention counts UTC days, so a shop's day is deleted in two parts. */
async function deleteVisits(
  client: ClickHouseClient,
  { keptDays, timeZone, cluster }: DaysToTotal,
  now: number,
  abort: object,
): Promise<void> {
  const query_params = { now, keptDays };
  const day = `toDate(occurred_at, '${timeZone}')`;
  const query = `SELECT toString(${day}) AS gone FROM visits_stored
    WHERE ${isOver('occurred_at')} AND ${day} IN (SELECT day FROM visit_days WHERE totalled_at = ${SEALED})
    GROUP BY gone ORDER BY gone LIMIT ${DAYS_PER_STATEMENT}`;
  const rows = await select<{ gone: string }>(client, query, { query_params, ...abort });
  const days = rows.map(({ gone }) => `'${gone}'`);
  if (days.length === 0) return;
  await client.command({
    query: `ALTER TABLE ${localTable('visits_stored', cluster)}${onCluster(cluster)}
      DELETE WHERE ${isOver('occurred_at')} AND ${day} IN (${days.join(',')})`,
    query_params,
    clickhouse_settings: { mutations_sync: cluster === '' ? '1' : '2' },
    ...abort,
  });
}

async function total(
  client: ClickHouseClient,
  { day, timeZone, now }: { readonly day: string; readonly timeZone: string; readonly now: number },
  abort: object,
): Promise<void> {
  const query_params = { day, now, asOf: now - QUIET_MS };
  const start = (date: string) => `toDateTime64(${date}, 3, '${timeZone}')`;
  const ofThatDay = `occurred_at >= ${start('{day: Date}')} AND occurred_at < ${start('{day: Date} + 1')}`;
  const ofTotals = `day = {day: Date} AND time_zone = '${timeZone}'`;
  const at = "fromUnixTimestamp64Milli({now: Int64}, 'UTC')";
  // Insert one block, so that a crash leaves all of a day's rows or none.
  const clickhouse_settings = { min_insert_block_size_rows: '100000000', max_block_size: '65505' };
  for (const query of [
    `INSERT INTO visits_per_day_stored
      SELECT {day: Date}, '${timeZone}', handle, kind, sum(n), ${at} FROM (
        SELECT CAST(product_handle, 'String') AS handle, CAST(device, 'String') AS kind, count() AS n
        FROM visits_stored FINAL WHERE ${ofThatDay} GROUP BY handle, kind
        UNION ALL SELECT product_handle, CAST(device, 'String'), 0 FROM visits_per_day_stored WHERE ${ofTotals})
      GROUP BY handle, kind`,
    `INSERT INTO visitors_per_day_stored
      SELECT {day: Date}, '${timeZone}', handle, sum(n), uniqCombinedMergeState(14)(sketch), ${at} FROM (
        SELECT arrayJoin(['', product_handle]) AS handle, count() AS n, uniqCombinedState(14)(profile_id) AS sketch
        FROM visits_by_visitor WHERE ${ofThatDay} GROUP BY handle
        UNION ALL SELECT product_handle, 0, uniqCombinedStateIf(14)('', 0)
        FROM visitors_per_day_stored WHERE ${ofTotals} GROUP BY product_handle)
      GROUP BY handle`,
    `INSERT INTO visit_days_stored (day, time_zone, totalled_at)
      SELECT {day: Date}, '${timeZone}', fromUnixTimestamp64Milli({asOf: Int64}, 'UTC')`,
  ])
    await client.command({ query, query_params, clickhouse_settings, ...abort });
}

export function keepDaysTotalled(
  client: ClickHouseClient,
  which: DaysToTotal,
  log: Logger,
): () => Promise<void> {
  return repeat(EVERY_MS, async (signal) => {
    try {
      const days = await totalDays(client, await clockOf(client), which, signal);
      if (days.length > 0)
        log.info({ days: days.length, last: days.at(-1) }, 'visits of these days totalled');
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, 'daily totals of visits have to wait');
    }
  });
}

/** Returns milliseconds by the clock that stamps the rows. */
async function clockOf(client: ClickHouseClient): Promise<number> {
  const [row] = await select<{ now: string }>(client, 'SELECT toUnixTimestamp64Milli(now64(3)) AS now');
  return Number(row?.now);
}
