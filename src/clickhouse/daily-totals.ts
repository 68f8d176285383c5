// Totals of the days that are over, so that questions about months read a row for each day and product in place of
// every visit. A day is totalled as a whole and as often as need be; it replaces all of its rows, and so a replay of visits,
// a second process that does the same, or a crash in between never count anything twice. A product whose visits were all
// erased gets a row of 0 visits, which the views leave out.
//
// A day is open, and its visits are read themselves, until its totals are newer than the last row that came in (the view
// visit_days). So late visits need nothing but that the day is totalled again, and so does another SHOP_TIMEZONE: totals name
// the zone whose day they are of, and are not used in another one.
//
// That ends with VISIT_RETENTION_DAYS. A day that is as old is sealed once its totals are newer than its rows, and only rows
// of sealed days are deleted: there is no TTL, which would not wait for totals. So no change of settings, and no pause of
// `flush`, loses a total. A row that comes in after its day is sealed is in no total.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { localTable, onCluster } from './cluster.js';

/**
 * Milliseconds that no row of a day has come in before it is totalled: more than an insert takes from its row in
 * visit_hours to its rows in visits_stored, so that none is between the two.
 */
export const QUIET_MS = 600_000;
/** Milliseconds from one look at the days to the next. */
const EVERY_MS = 300_000;
/** A day is totalled once more on each of so many days after it: visitors who sign in later become one with the guest. */
const FOLLOW_DAYS = 7;
/** `totalled_at` of a sealed day: no row comes in later. */
const SEALED = "toDateTime64('2200-01-01 00:00:00', 3, 'UTC')";

export interface DaysToTotal {
  /** Days that rows of visits are kept; 0 is for ever. */
  readonly keptDays: number;
  /** SHOP_TIMEZONE, as the views have it. */
  readonly timeZone: string;
  /** Name, empty for one server. */
  readonly cluster: string;
}

/**
 * Totals the days that are over and open, and recent ones whose totals are a day old. Then seals those that are older than
 * visits are kept, and deletes visits of sealed days.
 * @param client with the database that holds `visits_stored`
 * @param now milliseconds since 1970 by ClickHouse's clock
 * @returns days as `2026-03-01`, in order
 * @throws ClickHouse's or the connection's error
 */
export async function totalDays(
  client: ClickHouseClient,
  now: number,
  { keptDays = 0, timeZone = 'UTC', cluster = '' }: Partial<DaysToTotal> = {},
  signal?: AbortSignal,
): Promise<string[]> {
  const abort = signal === undefined ? {} : { abort_signal: signal };
  const today = `toDate(fromUnixTimestamp64Milli({now: Int64}), '${timeZone}')`;
  const answer = await client.query({
    query: `SELECT toString(visit_days.day) AS day FROM visit_days
      WHERE visit_days.day < ${today}
        AND touched_at < fromUnixTimestamp64Milli({quiet: Int64}, 'UTC')
        AND totalled_at < ${SEALED}
        AND (is_open
          OR (visit_days.day >= ${today} - {follow: UInt8}
            AND totalled_at < fromUnixTimestamp64Milli({yesterday: Int64}, 'UTC')))
      ORDER BY day`,
    query_params: {
      now,
      quiet: now - QUIET_MS,
      yesterday: now - 86_400_000,
      follow: FOLLOW_DAYS,
    },
    format: 'JSONEachRow',
    ...abort,
  });
  const days = (await answer.json<{ day: string }>()).map(({ day }) => day);
  for (const day of days) {
    signal?.throwIfAborted();
    await total(client, day, timeZone, now, abort);
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

/** Whether the day of UTC of a time is over for longer than `keptDays`. As numbers: a Date ends at 1970. */
function isOver(time: string): string {
  const today = "toInt32(toDate(fromUnixTimestamp64Milli({now: Int64}, 'UTC')))";
  return `({keptDays: Int32} > 0 AND toInt32(toDate(${time}, 'UTC')) + {keptDays: Int32} < ${today})`;
}

/** Days of one mutation; the rest follows at the next look. */
const DAYS_AT_ONCE = 1_000;

/** Deletes visits that are old enough, of sealed days. A day of another zone is deleted in parts, as its days of UTC are over. */
async function deleteVisits(
  client: ClickHouseClient,
  { keptDays, timeZone, cluster }: DaysToTotal,
  now: number,
  abort: object,
): Promise<void> {
  const query_params = { now, keptDays };
  const day = `toDate(occurred_at, '${timeZone}')`;
  const answer = await client.query({
    query: `SELECT toString(${day}) AS gone FROM visits_stored
      WHERE ${isOver('occurred_at')} AND ${day} IN (SELECT day FROM visit_days WHERE totalled_at = ${SEALED})
      GROUP BY gone ORDER BY gone LIMIT ${DAYS_AT_ONCE}`,
    query_params,
    format: 'JSONEachRow',
    ...abort,
  });
  const days = (await answer.json<{ gone: string }>()).map(({ gone }) => `'${gone}'`);
  if (days.length === 0) return;
  await client.command({
    query: `ALTER TABLE ${localTable('visits_stored', cluster)}${onCluster(cluster)}
      DELETE WHERE ${isOver('occurred_at')} AND ${day} IN (${days.join(',')})`,
    query_params,
    // 2: on all replicas.
    clickhouse_settings: { mutations_sync: cluster === '' ? '1' : '2' },
    ...abort,
  });
}

async function total(
  client: ClickHouseClient,
  day: string,
  timeZone: string,
  now: number,
  abort: object,
): Promise<void> {
  const query_params = { day, now, asOf: now - QUIET_MS };
  const start = (date: string) => `toDateTime64(${date}, 3, '${timeZone}')`;
  const ofThatDay = `occurred_at >= ${start('{day: Date}')} AND occurred_at < ${start('{day: Date} + 1')}`;
  const ofTotals = `day = {day: Date} AND time_zone = '${timeZone}'`;
  const at = "fromUnixTimestamp64Milli({now: Int64}, 'UTC')";
  // Each in one block, so that a crash leaves all of a day's rows or none.
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

/** Totals days from now on, until it is closed. What fails is logged and tried again at the next look. */
export function keepDaysTotalled(
  client: ClickHouseClient,
  which: DaysToTotal,
  log: Logger,
): { close(): Promise<void> } {
  const closing = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const look = async () => {
    try {
      const days = await totalDays(client, await clockOf(client), which, closing.signal);
      if (days.length > 0)
        log.info({ days: days.length, last: days.at(-1) }, 'visits of these days totalled');
    } catch (error) {
      if (!closing.signal.aborted) log.warn({ err: error }, 'daily totals of visits have to wait');
    }
    if (!closing.signal.aborted) timer = setTimeout(() => (looking = look()), EVERY_MS);
  };
  let looking = look();
  return {
    async close() {
      closing.abort();
      clearTimeout(timer);
      await looking;
    },
  };
}

/** Milliseconds since 1970, as ClickHouse has it: it stamped the rows. */
async function clockOf(client: ClickHouseClient): Promise<number> {
  const answer = await client.query({
    query: 'SELECT toUnixTimestamp64Milli(now64(3)) AS now',
    format: 'JSONEachRow',
  });
  const [row] = await answer.json<{ now: string }>();
  return Number(row?.now);
}
