// Sends again what ClickHouse has: events and purchases since a moment go into a receiver's queue once more, under the same
// ids.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import type { DeliveryQueue } from './queue.js';
import { DELIVERY_TYPES, type Receiver, takesType } from './receiver.js';

/** Of a line, see Line in message.ts. */
const QUERY = `SELECT event_id, type, toUnixTimestamp64Milli(occurred_at) AS occurred_at, profile_id, customer_id,
    session_id, device, locale, origin, order_id, product_id, variant_id, quantity, price, discount, amount, currency, test,
    payload
  FROM events_stored AS events
  WHERE events.occurred_at >= fromUnixTimestamp64Milli({since: Int64}) AND type IN {types: Array(String)}
  ORDER BY events.occurred_at, event_id LIMIT 1 BY event_id`;
/** As src/events/row.ts writes numbers. */
const AS_LINES = {
  output_format_json_quote_decimals: 1,
  output_format_json_quote_64bit_integers: 0,
  output_format_decimal_trailing_zeros: 1,
} as const;
const WAIT_MS = 200;

/**
 * @param queue more is queued as it is delivered, so that nothing becomes a dead letter for want of room
 * @param since milliseconds since 1970
 * @returns how many were queued @throws Redis's and ClickHouse's errors
 */
export async function replay(
  clickhouse: ClickHouseClient,
  receiver: Receiver,
  queue: DeliveryQueue,
  since: number,
): Promise<number> {
  const types = DELIVERY_TYPES.filter((type) => takesType(receiver, type));
  const answer = await clickhouse.query({
    query: QUERY,
    query_params: { since, types },
    format: 'JSONEachRow',
    clickhouse_settings: AS_LINES,
  });
  let queued = 0;
  for await (const rows of answer.stream()) {
    while ((await queue.stand()).bytes > queue.highWater / 2) await sleep(WAIT_MS);
    await queue.add(rows.map(({ text }) => text));
    queued += rows.length;
  }
  return queued;
}
