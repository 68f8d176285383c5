// What the analysts' views take with few and with many rows: three of all time, and the questions over 28 days.

import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { QUESTIONS } from '../../src/clickhouse/views.js';
import { startClickHouse } from '../../src/embedded/clickhouse/start.js';
import type { Bench } from '../bench.js';
import { rowsOf, untilMerged } from '../servers/clickhouse.js';
import { median } from '../statistics.js';
import { LAST_DAYS, makeYear } from '../traffic/year.js';

const VIEWS = ['events_per_day', 'top_products', 'shares_by_channel', ...QUESTIONS] as const;
const LOOKS = 5;
/** The questions are about these days. */
const PARAMETERS = `(from = '${LAST_DAYS.from}', to = '${LAST_DAYS.to}')`;
const UNTIL = `(until = '${LAST_DAYS.to}')`;
/** Visits for each event. */
const VISITS = 10;

export interface Views {
  /** Rows -> view -> milliseconds, medians. */
  readonly ms: Readonly<Record<number, Readonly<Record<(typeof VIEWS)[number], number>>>>;
}

export async function measureViews({ settings, folder, say }: Bench): Promise<Views> {
  const clickhouse = await startClickHouse({ dir: join(folder(), 'clickhouse'), restart: false });
  try {
    const ms: Record<number, Record<(typeof VIEWS)[number], number>> = {};
    for (const rows of settings.rows) {
      const database = `rows${rows}`;
      const admin = createClickHouse(clickhouse.url);
      await migrate(admin, database);
      await admin.close();
      const client = createClickHouse(clickhouse.url, database);
      say(`${rows} events for the analysts`);
      await makeYear(client, { events: rows, visits: rows * VISITS });
      await totalDays(client, Date.now() + 2 * QUIET_MS);
      await client.command({ query: 'OPTIMIZE TABLE profile_merges_stored FINAL' }); // as ClickHouse has it an hour later
      await untilMerged(client);
      ms[rows] = await look(client);
      await client.close();
    }
    return { ms };
  } finally {
    await clickhouse.stop();
  }
}

function parametersOf(view: (typeof VIEWS)[number]): string {
  if (view === 'momentum') return UNTIL;
  return (QUESTIONS as readonly string[]).includes(view) ? PARAMETERS : '';
}

async function look(client: ClickHouseClient): Promise<Record<(typeof VIEWS)[number], number>> {
  const ms = {} as Record<(typeof VIEWS)[number], number>;
  for (const view of VIEWS) {
    const took: number[] = [];
    for (let n = 0; n < LOOKS; n++) {
      const began = performance.now();
      const rows = await rowsOf(client, `SELECT * FROM ${view}${parametersOf(view)}`);
      took.push(performance.now() - began);
      if (rows.length === 0) throw new Error(`${view} shows nothing`);
    }
    ms[view] = median(took);
  }
  return ms;
}
