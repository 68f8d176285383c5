// Visitors' rights under load: the erasure of a whole shop beside visits at a modest rate; the latency of compliance webhooks; an erasure from ClickHouse.

import type { Bench } from '../bench.js';
import { RATE } from './rights/beside.js';
import { type ErasedRows, measureRows } from './rights/rows.js';
import { type ErasedShop, measureShop } from './rights/shop.js';
import type { Webhooks } from './rights/webhooks.js';

export interface Rights {
  /** Visits per second. */
  readonly rate: number;
  readonly shop: ErasedShop;
  readonly webhooks: Webhooks;
  readonly clickhouse: ErasedRows;
}

export async function measureRights(bench: Bench): Promise<Rights> {
  const { shop, webhooks } = await measureShop(bench);
  return {
    rate: RATE,
    shop,
    webhooks,
    clickhouse: await measureRows(bench),
  };
}
