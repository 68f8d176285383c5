// Reads from ClickHouse how many visitors have saved each product. An answer is bounded: the most saved products, and
// their bytes. Each row stays the JSON that ClickHouse wrote, which is what `GET /popular` answers.

import { setImmediate } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { MAX_HANDLE_CHARACTERS, MAX_ID_BYTES } from '../../identity-rules.js';

const MAX_PRODUCTS = 100_000;
const MAX_BYTES = 16 * 1024 * 1024;
export const MAX_TOP = 100;
/** UTF-8 has at most 4 bytes per character. */
const MAX_HANDLE_BYTES = MAX_HANDLE_CHARACTERS * 4;

// A visitor and product group by one hash, and the join has the known products on its left, because a product without a
// present visitor keeps its handle. 1 million events of 100,000 visitors take 0.25 s of CPU.
const QUERY = `
  SELECT
    products.product_id AS productId,
    if(length(products.product_handle) > ${MAX_HANDLE_BYTES}, '', products.product_handle) AS productHandle,
    if(saved.visitors < {from: UInt32}, 0, toUInt32(saved.visitors)) AS wishers
  FROM products
  LEFT ANY JOIN
  (
    SELECT product, count() AS visitors
    FROM
    (
      SELECT any(steps.product) AS product
      FROM steps_by_visitor AS steps
      WHERE steps.step IN ('add', 'remove', 'moveToCart', 'autoRemoveAfterPurchase')
        AND ({days: UInt32} = 0 OR steps.occurred_at >= now64(3) - toIntervalDay({days: UInt32}))
      GROUP BY cityHash64(steps.visitor, steps.product)
      HAVING maxIf(steps.occurred_at, steps.step = 'add') > maxIf(steps.occurred_at, steps.step != 'add')
    )
    GROUP BY product
  ) AS saved ON saved.product = sipHash64(products.product_id)
  WHERE length(products.product_id) <= ${MAX_ID_BYTES}
  ORDER BY saved.visitors DESC, productId
  LIMIT ${MAX_PRODUCTS}`;

export interface PopularProducts {
  /** Product id -> its JSON. */
  readonly byId: ReadonlyMap<string, string>;
  /** The most saved ones, at most MAX_TOP. */
  readonly top: readonly string[];
}

export interface Counting {
  /** A number below it is 0. */
  readonly from: number;
  /** Events of the last days that count; 0 means all events. */
  readonly days: number;
}

interface Row {
  readonly productId: string;
  readonly wishers: number;
}

/** @throws ClickHouse's errors, and the signal's reason */
export async function look(
  client: ClickHouseClient,
  counting: Counting,
  deadlineMs: number,
  closing: AbortSignal,
): Promise<PopularProducts> {
  const signal = AbortSignal.any([closing, AbortSignal.timeout(deadlineMs)]);
  const answer = await client.query({
    query: QUERY,
    format: 'JSONEachRow',
    query_params: { ...counting },
    abort_signal: signal,
    clickhouse_settings: {
      // ClickHouse ends the query, too, and leaves cores to others.
      max_execution_time: Math.ceil(deadlineMs / 1_000),
      cancel_http_readonly_queries_on_client_close: 1,
      max_threads: 2,
      // A view joins tables of all shards.
      distributed_product_mode: 'global',
      output_format_json_escape_forward_slashes: 0,
      // Otherwise an error after the first rows would look like a row.
      http_write_exception_in_output_format: 0,
    },
  });
  const close = () => answer.close();
  signal.addEventListener('abort', close);
  try {
    const byId = new Map<string, string>();
    const top: string[] = [];
    let bytes = 0;
    for await (const rows of answer.stream<Row>()) {
      for (const row of rows) {
        const { productId, wishers } = row.json();
        bytes += Buffer.byteLength(row.text);
        if (bytes > MAX_BYTES) return { byId, top };
        byId.set(productId, row.text);
        if (wishers > 0 && top.length < MAX_TOP) top.push(row.text);
      }
      // Chunks that wait would all be read in one tick, and requests would be late.
      await setImmediate();
    }
    signal.throwIfAborted();
    return { byId, top };
  } finally {
    signal.removeEventListener('abort', close);
    close();
  }
}
