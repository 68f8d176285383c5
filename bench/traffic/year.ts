// A shop's year in ClickHouse, made there by one INSERT for each kind of row, by time as the flusher would insert it.
// Every visitor starts as a guest and signs in later: 3 of 10 rows have a profile that was merged into another.

import type { ClickHouseClient } from '@clickhouse/client';

/** Rows and days of it. */
export interface YearSpec {
  readonly events: number;
  readonly visits: number;
  readonly days: number;
}

/** The first millisecond after the last day. */
const END = Date.UTC(2026, 3);
const DAY_MS = 86_400_000;
const PRODUCTS = 2_000;
/** Visitors, and merges, for each event. A visitor is hashed as UInt64 everywhere: another type has another digest. */
const VISITORS = 0.1;

/** The last 28 days: the questions are about them. */
export const LAST_DAYS = { from: '2026-03-04', to: '2026-03-31' } as const;

const OLD = "concat(lower(hex(visitor % 16384)), '.s', substring(digest, 17, 16))";
const PRESENT = "concat(lower(hex(visitor % 16384)), '.c', substring(digest, 1, 16))";
const PRODUCT = `toUInt32(exp(log(${PRODUCTS}) * (rand(3) / 4294967296)))`;

/** @param client with a migrated database, and time for statements of minutes @throws ClickHouse's errors */
export async function makeYear(client: ClickHouseClient, { events, visits, days }: YearSpec): Promise<void> {
  const visitors = Math.max(1, Math.round(events * VISITORS));
  const at = (rows: number) =>
    `fromUnixTimestamp64Milli(toInt64(${END - days * DAY_MS} + number * (${days * DAY_MS}. / ${rows})), 'UTC')`;
  const insert = (rows: number, select: string) =>
    client.command({
      query: `INSERT INTO ${select} FROM numbers(${rows})`,
      clickhouse_settings: { max_partitions_per_insert_block: '0' },
    });

  const merges = insert(
    visitors,
    `events_stored (event_id, type, occurred_at, profile_id, origin, payload)
      WITH number AS visitor, hex(sipHash128(visitor)) AS digest
      SELECT generateUUIDv4(), 'merge', ${at(visitors)}, ${OLD}, 'merge',
        concat('{"into":"', ${PRESENT}, '"}')`,
  );
  // 5 of 100 rows are lines of orders. Prices go up and down, by day.
  const steps = insert(
    events,
    `events_stored
        (event_id, type, occurred_at, profile_id, session_id, device, locale, origin, product_id, variant_id,
         product_handle, source, channel, share_code, currency, inventory_available, order_id, quantity, price, payload)
      WITH
        rand64(1) AS chance, toUInt64(rand64(2) % ${visitors}) AS visitor, chance % 1000 AS share,
        multiIf(share < 600, 'add', share < 760, 'remove', share < 880, 'moveToCart', share < 930, 'share',
                share < 950, 'autoRemoveAfterPurchase', 'purchase') AS kind,
        ${PRODUCT} AS product, hex(sipHash128(visitor)) AS digest, ${at(events)} AS at
      SELECT
        generateUUIDv4(), kind, at, rand(4) % 10 < 3 ? ${OLD} : ${PRESENT},
        lower(concat(substring(digest, 1, 8), '-', substring(digest, 9, 4), '-4', substring(digest, 14, 3), '-9',
                     substring(digest, 18, 3), '-', substring(digest, 21, 12))),
        visitor % 3 = 0 ? 'desktop' : 'mobile',
        ['en', 'de', 'fr'][1 + visitor % 3],
        kind = 'purchase' ? 'order' : 'item',
        kind = 'share' ? '' : toString(8123000000000 + product * 32768),
        kind = 'share' ? '' : toString(44567000000000 + product * 98304 + chance % 4),
        kind IN ('add', 'moveToCart') ? concat('product-', toString(product)) : '',
        kind = 'add' ? ['pdp', 'collection', 'pdpSmartSave', 'email'][1 + chance % 4] : '',
        kind = 'share' ? ['Link', 'Email', 'Facebook'][1 + chance % 3] : '',
        kind = 'share' ? lower(hex(visitor)) : '',
        kind IN ('add', 'moveToCart', 'purchase') ? 'EUR' : '',
        kind = 'add' ? chance % 7 != 0 : NULL,
        kind = 'purchase' ? hex(chance) : '',
        kind IN ('moveToCart', 'purchase') ? 1 : NULL,
        if(kind IN ('add', 'moveToCart', 'purchase'), toDecimal64(20 + product % 50 + toDayOfMonth(at) % 3, 2) AS listed, NULL),
        kind = 'purchase'
          ? concat('{"line":"1","version":1,"occurredAt":"', toString(at), '","updatedAt":"', toString(at), '","productId":"',
                   toString(8123000000000 + product * 32768), '","variantId":"', toString(44567000000000 + product * 98304 + chance % 4),
                   '","quantity":1,"price":"', toString(listed), '","discount":"0.00","amount":"', toString(listed),
                   '","currency":"EUR","test":false}')
          : concat('{"productId":"gid://shopify/Product/', toString(8123000000000 + product * 32768),
                   '","productTitle":"Product ', toString(product), '"}')`,
  );
  const looks = insert(
    visits,
    `visits_stored (occurred_at, stream, entry, line, profile_id, product_handle, device)
      WITH toUInt64(rand64(2) % ${visitors}) AS visitor, hex(sipHash128(visitor)) AS digest
      SELECT
        ${at(visits)},
        0, intDiv(number, 100), number % 100,
        rand(4) % 10 < 3 ? ${OLD} : ${PRESENT},
        concat('product-', toString(${PRODUCT})),
        visitor % 3 = 0 ? 'desktop' : 'mobile'`,
  );
  await Promise.all([merges, steps, looks]);
}
