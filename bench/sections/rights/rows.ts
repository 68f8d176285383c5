// The erasure of visitors' rows from ClickHouse.

import { deepEqual } from 'node:assert/strict';
import { join } from 'node:path';
import { createClickHouse } from '../../../src/clickhouse/client.js';
import { eraseRows, VISITOR_TABLES } from '../../../src/clickhouse/erase.js';
import { migrate } from '../../../src/clickhouse/migrate.js';
import { startClickHouse } from '../../../src/embedded/clickhouse/start.js';
import type { Bench } from '../../bench.js';
import { rowsOf, untilMerged } from '../../servers/clickhouse.js';
import { makeYear } from '../../traffic/year.js';

const ERASED_PROFILES = 1_000;
/** Share of events among the rows; the others are visits. */
const EVENTS_SHARE = 0.1;

export interface ErasedRows {
  readonly rows: number;
  readonly profiles: number;
  readonly seconds: number;
}

export async function measureRows({ settings, folder, say }: Bench): Promise<ErasedRows> {
  const rows = settings.rows[1];
  const clickhouse = await startClickHouse({ dir: join(folder(), 'clickhouse'), restart: false });
  const admin = createClickHouse(clickhouse.url);
  await migrate(admin, 'rights');
  await admin.close();
  const client = createClickHouse(clickhouse.url, 'rights');
  try {
    say(`${rows} rows in ClickHouse, of which those of ${ERASED_PROFILES} profiles go`);
    const events = Math.round(rows * EVENTS_SHARE);
    await makeYear(client, { events, visits: rows - events });
    await untilMerged(client);
    const found = await rowsOf<{ id: string }>(
      client,
      `SELECT DISTINCT profile_id AS id FROM visits_stored ORDER BY sipHash64(id) LIMIT ${ERASED_PROFILES}`,
    );
    const until = { server: Date.now(), redis: Date.now() };
    const erased = new Map(found.map(({ id }) => [id, { until }]));
    const count = async (name: string, profile: string, isHash = false) => {
      const ids = found.map(({ id }) => (isHash ? `sipHash64('${id}')` : `'${id}'`)).join();
      const [row] = await rowsOf<{ all: number; theirs: number }>(
        client,
        `SELECT toFloat64(count()) AS all, toFloat64(countIf(${profile} IN (${ids}))) AS theirs FROM ${name}`,
      );
      return row as { all: number; theirs: number };
    };
    const counts = async () =>
      Object.fromEntries(
        await Promise.all(
          VISITOR_TABLES.map(
            async ({ name, profile, isHash }) => [name, await count(name, profile, isHash)] as const,
          ),
        ),
      );
    const before = await counts();
    for (const [name, { theirs }] of Object.entries(before))
      if (theirs === 0) throw new Error(`${name} has no row of them`);
    const began = performance.now();
    await eraseRows(client, erased);
    const seconds = (performance.now() - began) / 1_000;
    say(`erased from ClickHouse in ${seconds.toFixed(1)} s`);
    const expected = Object.entries(before).map(([name, { all, theirs }]) => [
      name,
      { all: all - theirs, theirs: 0 },
    ]);
    deepEqual(await counts(), Object.fromEntries(expected));
    return { rows, profiles: erased.size, seconds };
  } finally {
    await client.close();
    await clickhouse.stop();
  }
}
