// Proof of events and items: every acknowledged event is in ClickHouse once, and nothing waits in Redis any more.

import { ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { sumHashes } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import type { ItemBody } from '../traffic/requests.js';
import { ask } from './http.js';
import { answers, type Proof, type Sent, same, total } from './proof.js';

const DRAINED_WITHIN_MS = 60_000;
const keys = createKeys('wm');

const identity = { sessionId: 'proof-of-bench', device: 'desktop' };

export const eventsProof: Proof = {
  async before({ port }) {
    const event = { identity, type: 'add', payload: { productId: '1001', source: 'pdp' } };
    const first = await ask(port, 'POST', '/event', event);
    answers('the same visitor again', await ask(port, 'POST', '/event', event), first);
    return 2;
  },
  async after(target, sent, leftBefore) {
    await eventsArrived(target, sent, leftBefore);
  },
};

export const itemsProof: Proof = {
  async before({ port }) {
    const item = {
      identity,
      productId: '1001',
      variantId: null,
      productTitle: 'Red shoe',
      productHandle: 'red-shoe',
      image: 'https://cdn.example/red-shoe.jpg',
      price: '59.00',
      compareAt: null,
      inventoryAvailable: true,
      quantity: 1,
    };
    const first = await ask(port, 'POST', '/item/add', item);
    answers('the same item again', await ask(port, 'POST', '/item/add', { ...item, quantity: 2 }), {
      profileId: first['profileId'],
      itemId: first['itemId'],
      quantity: 2,
    });
    return 2;
  },
  async after(target, sent, leftBefore) {
    await eventsArrived(target, sent, leftBefore);
    if (!target.redis) throw new Error('there is no Redis to look into');
    const stored = await sumHashes(target.redis, keys.items('*.*'));
    same('items in Redis', stored.fields, new Set(sent.flatMap(itemsOf)).size + 1);
  },
};

/** Waits until nothing is pending, then counts. */
async function eventsArrived(target: Target, sent: readonly Sent[], leftBefore: number): Promise<void> {
  if (!target.clickhouseUrl) throw new Error('there is no ClickHouse to look into');
  await untilDrained(target);
  const clickhouse = createClickHouse(target.clickhouseUrl, 'wishmeter');
  try {
    const result = await clickhouse.query({
      query: 'SELECT toUInt32(count()) AS events, toUInt32(uniqExact(event_id)) AS ids FROM events_stored',
      format: 'JSONEachRow',
    });
    const [row] = await result.json<{ events: number; ids: number }>();
    const least = total(sent) + leftBefore;
    const most = least + sent.reduce((sum, { unsure = 0 }) => sum + unsure, 0);
    const ids = row?.ids ?? 0;
    ok(ids >= least && ids <= most, `events in ClickHouse: ${ids}, not ${least} to ${most}`);
    same('rows in ClickHouse', row?.events, ids);
  } finally {
    await clickhouse.close();
  }
}

/** Events in Redis that are not in ClickHouse yet. */
export async function pendingEvents({ redis }: Pick<Target, 'redis'>): Promise<number> {
  return Number((await redis?.hget(keys.eventsState(0), 'events')) ?? 0);
}

export async function untilDrained(target: Pick<Target, 'redis'>): Promise<void> {
  const deadline = performance.now() + DRAINED_WITHIN_MS;
  while ((await pendingEvents(target)) > 0) {
    if (performance.now() > deadline) throw new Error('the stream does not drain');
    await sleep(20);
  }
}

function itemsOf({ pool, first, count }: Sent): string[] {
  const all = pool.items ?? [];
  return Array.from({ length: Math.min(count, pool.size) }, (_, i) => {
    const { identity: who, productId, variantId } = all[(first + i) % pool.size] as ItemBody;
    return `${who.sessionId} ${productId} ${variantId}`;
  });
}
