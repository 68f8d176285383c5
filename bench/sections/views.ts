// What the analysts' views take with few and with many rows: three of all time, and the twelve questions over 28 days.

import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { QUESTIONS } from '../../src/clickhouse/views.js';
import { startClickHouse } from '../../src/embedded/clickhouse.js';
import type { Bench } from '../bench.js';
import { rowsOf, untilMerged } from '../servers/clickhouse.js';
import { median } from '../statistics.js';

const VIEWS = ['events_per_day', 'top_products', 'shares_by_channel', ...QUESTIONS] as const;
const LOOKS = 5;
/** Rows of one insert: about as many as the flusher brings in one. */
const BLOCK = 100_000;
const DAYS = 90;
const SINCE = Date.UTC(2026, 0);
/** The questions are about these days, the last 28. */
const PARAMETERS = "(from = '2026-03-04', to = '2026-03-31')";
const UNTIL = "(until = '2026-03-31')";
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
      await fill(client, rows);
      await fillVisits(client, rows * VISITS);
      await totalDays(client, Date.now() + 2 * QUIET_MS);
      await untilMerged(client);
      ms[rows] = await look(client);
      await client.close();
    }
    return { ms };
  } finally {
    await clickhouse.stop();
  }
}

/**
 * Rows made by ClickHouse itself, through SQL, as the stream would bring them: 90 days in the order of time, block
 * after block; products by Zipf's law (500 of them), events by the shares of bench/traffic/events.ts.
 */
async function fill(client: ClickHouseClient, rows: number): Promise<void> {
  for (let from = 0; from < rows; from += BLOCK) {
    await client.command({
      query: `
        INSERT INTO events_stored
          (event_id, type, occurred_at, profile_id, session_id, device, locale, origin, product_id, variant_id,
           product_handle, source, channel, share_code, quantity, price, payload)
        WITH
          rand64(1) AS chance, rand64(2) AS visitor_chance,
          visitor_chance % 1000000 AS visitor,
          chance % 1000 AS share,
          multiIf(share < 600, 'add', share < 780, 'remove', share < 910, 'moveToCart', share < 970, 'share',
                  'autoRemoveAfterPurchase') AS kind,
          toUInt32(exp(log(500) * (rand(3) / 4294967296))) AS product,
          hex(sipHash128(visitor)) AS digest
        SELECT
          generateUUIDv4(),
          kind,
          fromUnixTimestamp64Milli(toInt64(${SINCE} + (${from} + number) * (86400000. * ${DAYS} / ${rows})), 'UTC'),
          concat(lower(hex(visitor % 16384)), '.s', substring(digest, 1, 16)),
          lower(concat(substring(digest, 1, 8), '-', substring(digest, 9, 4), '-4', substring(digest, 14, 3), '-9',
                       substring(digest, 18, 3), '-', substring(digest, 21, 12))),
          visitor % 3 = 0 ? 'desktop' : 'mobile',
          ['en', 'de', 'fr'][1 + visitor % 3],
          'event',
          kind = 'share' ? '' : toString(8123000000000 + product * 32768),
          kind = 'share' ? '' : toString(44567000000000 + product * 98304),
          kind = 'moveToCart' ? concat('product-', toString(product)) : '',
          kind IN ('add', 'remove') ? 'pdp' : '',
          kind = 'share' ? ['Link', 'Email', 'Facebook'][1 + chance % 3] : '',
          kind = 'share' ? lower(hex(visitor)) : '',
          kind = 'moveToCart' ? 1 : NULL,
          kind = 'moveToCart' ? toDecimal64(9 + product, 2) : NULL,
          concat('{"productId":"gid://shopify/Product/', toString(8123000000000 + product * 32768), '"}')
        FROM numbers(${Math.min(BLOCK, rows - from)})`,
    });
  }
}

/** Visits of the same visitors and products over the same days. */
async function fillVisits(client: ClickHouseClient, rows: number): Promise<void> {
  const block = BLOCK * VISITS;
  for (let from = 0; from < rows; from += block) {
    await client.command({
      query: `
        INSERT INTO visits_stored (occurred_at, stream, entry, place, profile_id, product_handle, device)
        WITH rand64(2) % 1000000 AS visitor, hex(sipHash128(visitor)) AS digest
        SELECT
          fromUnixTimestamp64Milli(toInt64(${SINCE} + (${from} + number) * (86400000. * ${DAYS} / ${rows})), 'UTC'),
          0, intDiv(${from} + number, 100), (${from} + number) % 100,
          concat(lower(hex(visitor % 16384)), '.s', substring(digest, 1, 16)),
          concat('product-', toString(toUInt32(exp(log(500) * (rand(3) / 4294967296))))),
          visitor % 3 = 0 ? 'desktop' : 'mobile'
        FROM numbers(${Math.min(block, rows - from)})`,
    });
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
      if (rows.length === 0 && parametersOf(view) === '') throw new Error(`${view} shows nothing`);
    }
    ms[view] = median(took);
  }
  return ms;
}
