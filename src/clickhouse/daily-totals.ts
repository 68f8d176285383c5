// Totals of the days that are over, so that questions about months read a row for each day and product in place of
// every visit. A day is totalled as a whole and as often as need be; it replaces its rows, and so a replay of visits,
// a second process that does the same, or a crash in between never count anything twice.
//
// A day is open, and its visits are read themselves, until its totals are newer than the last row that came in (the view
// visit_days). So late visits need nothing but that the day is totalled again, and so does another SHOP_TIMEZONE: totals name
// the zone whose day they are of, and are not used in another one.
//
// That ends with VISIT_RETENTION_DAYS: once the rows of a day may be gone, its totals are sealed. A row that comes in later
// than that is in no total.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';

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
}

/**
 * Totals the days that are over and open, and recent ones whose totals are a day old. Then seals those whose rows are
 * about to go.
 * @param client with the database that holds `visits_stored`
 * @param now milliseconds since 1970 by ClickHouse's clock
 * @returns days as `2026-03-01`, in order
 * @throws ClickHouse's or the connection's error
 */
export async function totalDays(
  client: ClickHouseClient,
  now: number,
  { keptDays = 0, timeZone = 'UTC' }: Partial<DaysToTotal> = {},
  signal?: AbortSignal,
): Promise<string[]> {
  const abort = signal === undefined ? {} : { abort_signal: signal };
  const today = `toDate(fromUnixTimestamp64Milli({now: Int64}), '${timeZone}')`;
  const answer = await client.query({
    query: `SELECT toString(visit_days.day) AS day FROM visit_days
      WHERE visit_days.day < ${today}
        AND touched_at < fromUnixTimestamp64Milli({quiet: Int64}, 'UTC')
        AND (totalled_at = 0 OR NOT ${mayBeGone(0, timeZone)})
        AND (is_open
          OR (visit_days.day >= ${today} - {follow: UInt8}
            AND totalled_at < fromUnixTimestamp64Milli({yesterday: Int64}, 'UTC')))
      ORDER BY day`,
    query_params: {
      now,
      keptDays,
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
  // A day ahead, so that a row which comes in after the others are gone finds its day sealed.
  await client.command({
    query: `INSERT INTO visit_days_stored (day, time_zone, totalled_at)
      SELECT day, time_zone, ${SEALED} FROM visit_days
      WHERE totalled_at > 0 AND totalled_at < ${SEALED}
        AND (${mayBeGone(0, timeZone)} OR (${mayBeGone(1, timeZone)} AND NOT is_open))`,
    query_params: { now, keptDays },
    ...abort,
  });
  return days;
}

/** Whether rows of `visit_days.day` may be gone so many days from now: rows go by days of UTC, see visit-retention.ts. */
function mayBeGone(days: number, timeZone: string): string {
  // As numbers: a Date ends at 1970.
  const today = "toInt32(toDate(fromUnixTimestamp64Milli({now: Int64}, 'UTC')))";
  const first = `toInt32(toDate(toDateTime64(visit_days.day, 3, '${timeZone}'), 'UTC'))`;
  return `({keptDays: Int32} > 0 AND ${first} + {keptDays: Int32} < ${today} + ${days})`;
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
  const at = "fromUnixTimestamp64Milli({now: Int64}, 'UTC')";
  // Each in one block, so that a crash leaves all of a day's rows or none.
  const clickhouse_settings = { min_insert_block_size_rows: '100000000', max_block_size: '65505' };
  for (const query of [
    `INSERT INTO visits_per_day_stored
      SELECT {day: Date}, '${timeZone}', product_handle, device, count(), ${at}
      FROM visits_stored FINAL WHERE ${ofThatDay} GROUP BY product_handle, device`,
    `INSERT INTO visitors_per_day_stored
      SELECT {day: Date}, '${timeZone}', arrayJoin(['', product_handle]) AS handle, count(),
        uniqCombinedState(14)(profile_id), ${at}
      FROM visits_by_visitor WHERE ${ofThatDay} GROUP BY handle`,
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
