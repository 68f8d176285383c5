// Replays events and purchases from ClickHouse: queues them again with the same ids.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { MONEY_AS_TEXT } from '../../clickhouse/client.js';
import { StartupError } from '../../errors.js';
import { isErased, readErasures } from '../../flush/erasures.js';
import type { Store } from '../../redis/store.js';
import { DELIVERY_TYPES, type Receiver, takesType } from './receiver.js';
import type { Receivers } from './receivers.js';

/** The first condition, on the time alone, lets ClickHouse use the sorting key. */
const QUERY = `SELECT event_id, type, toUnixTimestamp64Milli(occurred_at) AS occurred_at, profile_id, customer_id,
    session_id, device, locale, origin, payload
  FROM events_stored AS events
  WHERE events.occurred_at BETWEEN fromUnixTimestamp64Milli({at: Int64}) AND fromUnixTimestamp64Milli({until: Int64})
    AND (events.occurred_at, event_id) > (fromUnixTimestamp64Milli({at: Int64}), {after: UUID})
    AND type IN {types: Array(String)} AND origin != 'import'
  ORDER BY events.occurred_at, event_id LIMIT 1 BY event_id LIMIT {page: UInt32}`;
/** Settings that format numbers as src/events/row.ts does. */
const AS_LINES = { ...MONEY_AS_TEXT, output_format_json_quote_64bit_integers: 0 } as const;
const NO_EVENT = '00000000-0000-0000-0000-000000000000';
const PAGE = 1_000;
const WAIT_MS = 200;

export interface Replay {
  readonly clickhouse: ClickHouseClient;
  readonly store: Store;
  readonly receivers: Receivers;
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly since: number;
  readonly page?: number;
}

/**
 * @returns the number of queued deliveries
 * @throws StartupError if the receiver is disabled; ServiceError `not_found`; database errors
 */
export async function replay(replay: Replay): Promise<number> {
  const { clickhouse, store, receivers, id, since, page = PAGE } = replay;
  const until = Date.now();
  let queued = 0;
  for (let [at, after] = [since, NO_EVENT]; ; ) {
    const receiver = await untilRoom(receivers, id);
    const types = DELIVERY_TYPES.filter((type) => takesType(receiver, type));
    // Erasures are read before the rows. A later erasure drops deliveries from the queue itself (row-eraser.ts): it
    // waits 10 s first, and by then these rows are in the queue.
    const erasures = await readErasures(store.client, store.keys);
    const answer = await clickhouse.query({
      query: QUERY,
      query_params: { at, after, until, types, page },
      format: 'JSONEachRow',
      clickhouse_settings: AS_LINES,
    });
    const rows = (await answer.text()).split('\n').filter((row) => row !== '');
    const lines = rows.filter((row) => !isErased(row, erasures));
    await receivers.queue(id).add(lines);
    queued += lines.length;
    if (rows.length < page) return queued;
    ({ occurred_at: at, event_id: after } = JSON.parse(rows.at(-1) as string));
  }
}

/** Waits until the queue is half empty: beyond the high-water mark, deliveries would become dead letters. */
async function untilRoom(receivers: Receivers, id: string): Promise<Receiver> {
  for (;;) {
    const receiver = await receivers.get(id);
    if (!receiver.isEnabled) throw new StartupError(`Receiver ${id} is disabled: resume it first.`);
    const queue = receivers.queue(id);
    if ((await queue.status()).bytes <= queue.highWater / 2) return receiver;
    await sleep(WAIT_MS);
  }
}
