// Totals of the days that are over, so that questions about months read a row for each day and product in place of
// every visit. A day is totalled as a whole and as often as need be; it replaces its rows, and so a replay of visits,
// a second process that does the same, or a crash in between never count anything twice.
//
// A day is open, and its visits are read themselves, until its totals are newer than the last row that came in. So late
// visits need nothing but that the day is totalled again.
//
// That ends with VISIT_RETENTION_DAYS: once the rows of a day may be gone, its totals are sealed. A row that comes in later
// than that is in no total.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';

/**
 * Milliseconds that no row of a day has come in before it is totalled: more than an insert takes from its row in
 * visit_days to its rows in visits_stored, so that none is between the two.
 */
export const QUIET_MS = 600_000;
/** Milliseconds from one look at the days to the next. */
const EVERY_MS = 300_000;
/** A day is totalled once more on each of so many days after it: visitors who sign in later become one with the guest. */
const FOLLOW_DAYS = 7;
/** `totalled_at` of a sealed day: no row comes in later. */
const SEALED = "toDateTime64('2200-01-01 00:00:00', 3, 'UTC')";

/**
 * Totals the days that are over and open, and recent ones whose totals are a day old. Then seals those whose rows are
 * about to go.
 * @param client with the database that holds `visits_stored`
 * @param now milliseconds since 1970 by ClickHouse's clock
 * @param keptDays days that rows of visits are kept; 0 is for ever
 * @returns days as `2026-03-01`, in order
 * @throws ClickHouse's or the connection's error
 */
export async function totalDays(
  client: ClickHouseClient,
  now: number,
  keptDays = 0,
  signal?: AbortSignal,
): Promise<string[]> {
  const abort = signal === undefined ? {} : { abort_signal: signal };
  const answer = await client.query({
    query: `SELECT toString(day) AS day FROM visit_days GROUP BY visit_days.day
      HAVING visit_days.day < toDate(fromUnixTimestamp64Milli({now: Int64}, 'UTC'))
        AND max(touched_at) < fromUnixTimestamp64Milli({quiet: Int64}, 'UTC')
        AND (max(totalled_at) = 0 OR NOT ${mayBeGone(0)})
        AND (max(touched_at) >= max(totalled_at)
          OR (visit_days.day >= toDate(fromUnixTimestamp64Milli({now: Int64}, 'UTC')) - {follow: UInt8}
            AND max(totalled_at) < fromUnixTimestamp64Milli({yesterday: Int64}, 'UTC')))
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
    await total(client, day, now, abort);
  }
  // A day ahead, so that a row which comes in after the others are gone finds its day sealed.
  await client.command({
    query: `INSERT INTO visit_days (day, totalled_at)
      SELECT visit_days.day, ${SEALED} FROM visit_days GROUP BY visit_days.day
      HAVING max(totalled_at) > 0 AND max(totalled_at) < ${SEALED}
        AND (${mayBeGone(0)} OR (${mayBeGone(1)} AND max(touched_at) < max(totalled_at)))`,
    query_params: { now, keptDays },
    ...abort,
  });
  return days;
}

/** Whether rows of `visit_days.day` may be gone so many days from now. */
function mayBeGone(days: number): string {
  // As numbers: a Date ends at 1970.
  const today = "toInt32(toDate(fromUnixTimestamp64Milli({now: Int64}, 'UTC')))";
  return `({keptDays: Int32} > 0 AND toInt32(visit_days.day) + {keptDays: Int32} < ${today} + ${days})`;
}

async function total(client: ClickHouseClient, day: string, now: number, abort: object): Promise<void> {
  const query_params = { day, now, asOf: now - QUIET_MS };
  const ofThatDay = 'occurred_at >= {day: Date} AND occurred_at < {day: Date} + 1';
  const at = "fromUnixTimestamp64Milli({now: Int64}, 'UTC')";
  // Each in one block, so that a crash leaves all of a day's rows or none.
  const clickhouse_settings = { min_insert_block_size_rows: '100000000', max_block_size: '65505' };
  for (const query of [
    `INSERT INTO visits_per_day_stored
      SELECT toDate(occurred_at) AS day, product_handle, device, count(), ${at}
      FROM visits_stored FINAL WHERE ${ofThatDay} GROUP BY day, product_handle, device`,
    `INSERT INTO visitors_per_day_stored
      SELECT toDate(occurred_at) AS day, arrayJoin(['', product_handle]) AS handle, count(),
        uniqCombinedState(14)(profile_id), ${at}
      FROM visits_by_visitor WHERE ${ofThatDay} GROUP BY day, handle`,
    `INSERT INTO visit_days (day, totalled_at)
      SELECT {day: Date}, fromUnixTimestamp64Milli({asOf: Int64}, 'UTC')`,
  ])
    await client.command({ query, query_params, clickhouse_settings, ...abort });
}

/**
 * Totals days from now on, until it is closed. What fails is logged and tried again at the next look.
 * @param keptDays see totalDays
 */
export function keepDaysTotalled(
  client: ClickHouseClient,
  keptDays: number,
  log: Logger,
): { close(): Promise<void> } {
  const closing = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const look = async () => {
    try {
      const days = await totalDays(client, await clockOf(client), keptDays, closing.signal);
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
