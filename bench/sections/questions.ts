// The time of the analysts' questions over 28 days, and of three views of all time, with a year's rows in ClickHouse.

import { join } from 'node:path';
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { createClickHouse, select } from '../../src/clickhouse/client.js';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { QUESTIONS } from '../../src/clickhouse/views.js';
import { startClickHouse } from '../../src/extras/embedded/clickhouse/start.js';
import type { Bench } from '../bench.js';
import { same } from '../proofs/proof.js';
import { untilMerged } from '../servers/clickhouse.js';
import { median } from '../statistics.js';
import { LAST_DAYS, makeYear } from '../traffic/year.js';

const VIEWS = ['events_per_day', 'top_products', 'shares_by_channel', ...QUESTIONS] as const;
const TIMES = 3;
const PARAMETERS = `(from = '${LAST_DAYS.from}', to = '${LAST_DAYS.to}')`;
const UNTIL = `(until = '${LAST_DAYS.to}')`;
const VISITS_PER_EVENT = 10;
/** Of the last days, as many as `momentum` compares. Totals of a whole year take minutes, and no question reads them. */
const TOTALLED_DAYS = 56;
const TOTALLED = `toDateTime64('${LAST_DAYS.to}', 3, 'UTC') - INTERVAL ${TOTALLED_DAYS - 1} DAY`;
const DATABASE = 'year';
/** For one statement that makes a year's visits. */
const LONGEST_MS = 600_000;

export interface Questions {
  readonly events: number;
  readonly visits: number;
  /** View -> milliseconds, medians. */
  readonly ms: Readonly<Record<string, number>>;
}

export async function measureQuestions({ settings, folder, say }: Bench): Promise<Questions> {
  const clickhouse = await startClickHouse({ dir: join(folder(), 'clickhouse'), restart: false });
  const admin = createClickHouse(clickhouse.url);
  const client = createClient({
    ...{ url: clickhouse.url, database: DATABASE, request_timeout: LONGEST_MS },
    log: { level: ClickHouseLogLevel.OFF },
  });
  try {
    await migrate(admin, DATABASE);
    const size = { events: settings.rows, visits: settings.rows * VISITS_PER_EVENT, days: settings.days };
    await makeYear(client, size);
    say('the year is made');
    await client.command({
      query: `INSERT INTO visit_days_stored (day, time_zone, totalled_at)
        SELECT DISTINCT toDate(hour), 'UTC', now64(3) + INTERVAL 1 DAY FROM visit_hours WHERE hour < ${TOTALLED}`,
    });
    await totalDays(client, Date.now() + 2 * QUIET_MS);
    // ClickHouse merges these by itself within an hour.
    await client.command({ query: 'OPTIMIZE TABLE profile_merges_stored FINAL' });
    await untilMerged(client);
    await countsAreRight(client);
    say('and merged');
    const ms: Record<string, number> = {};
    for (const view of VIEWS) ms[view] = await timeOf(client, view);
    return { ...size, ms };
  } finally {
    await client.close();
    await admin.close();
    await clickhouse.stop();
  }
}

/** @throws if the totals lack a visit, or two questions disagree about the wishes */
async function countsAreRight(client: ClickHouseClient): Promise<void> {
  const [found] = await select<Record<'visits' | 'total' | 'bySource' | 'byProduct', number>>(
    client,
    `SELECT
      (SELECT toUInt32(count()) FROM visits WHERE occurred_at >= ${TOTALLED}) AS visits,
      (SELECT toUInt32(sum(visits)) FROM visits_per_day) AS total,
      (SELECT toUInt32(sum(adds)) FROM adds_by_source${PARAMETERS}) AS bySource,
      (SELECT toUInt32(sum(adds)) FROM most_wished${PARAMETERS}) AS byProduct`,
  );
  same('visits in the daily totals', found?.total, found?.visits);
  same('wishes by source and by product', found?.bySource, found?.byProduct);
}

function parametersOf(view: string): string {
  if (view === 'momentum') return UNTIL;
  return (QUESTIONS as readonly string[]).includes(view) ? PARAMETERS : '';
}

/** @throws if the answer is empty */
async function timeOf(client: ClickHouseClient, view: string): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < TIMES; n++) {
    const began = performance.now();
    const rows = await select(client, `SELECT * FROM ${view}${parametersOf(view)}`);
    took.push(performance.now() - began);
    if (rows.length === 0) throw new Error(`${view} shows nothing`);
  }
  return median(took);
}
