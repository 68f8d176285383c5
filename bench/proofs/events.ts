// Proof of events and items: every acknowledged event is in ClickHouse once, and nothing waits in Redis any more.

import { ok } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { rowsOf } from '../servers/clickhouse.js';
import { sumHashes } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import { ask } from './http.js';
import { answers, type Proof, type Sent, same, total } from './proof.js';

const DRAINED_WITHIN_MS = 60_000;
/** What is there twice, or should not be there, would come as late as the next interval of the flusher. */
const MORE_MS = 300;
const keys = createKeys('wm');

const identity = { sessionId: 'proof-of-bench', device: 'desktop' };

export const eventsProof: Proof = {
  async before({ port }) {
    const event = { identity, type: 'add', payload: { productId: '1001', source: 'pdp' } };
    const first = await ask(port, 'POST', '/event', event);
    answers('the same visitor again', await ask(port, 'POST', '/event', event), first);
    return 2;
  },
  outside: eventsArrive,
  inside: nothingWaits,
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
  outside: eventsArrive,
  async inside(target, sent) {
    await nothingWaits(target);
    if (!target.redis) throw new Error('there is no Redis to look into');
    const stored = await sumHashes([target.redis], keys.items('*.*'));
    same('items in Redis', stored.fields, new Set(sent.flatMap(itemsOf)).size + 1);
  },
};

/** Waits until all are there, and looks again whether more come. */
async function eventsArrive(target: Target, sent: readonly Sent[], leftBefore: number): Promise<void> {
  if (!target.clickhouseUrl) throw new Error('there is no ClickHouse to look into');
  const least = total(sent) + leftBefore;
  const most = least + sent.reduce((sum, { unsure = 0 }) => sum + unsure, 0);
  const clickhouse = createClickHouse(target.clickhouseUrl, 'wishmeter');
  try {
    const deadline = performance.now() + DRAINED_WITHIN_MS;
    while ((await countEvents(clickhouse)).rows < least && performance.now() < deadline) await sleep(50);
    await sleep(MORE_MS);
    const { rows, ids } = await countEvents(clickhouse);
    ok(ids >= least && ids <= most, `events in ClickHouse: ${ids}, not ${least} to ${most}`);
    same('rows in ClickHouse', rows, ids);
  } finally {
    await clickhouse.close();
  }
}

async function countEvents(clickhouse: ClickHouseClient): Promise<{ rows: number; ids: number }> {
  const query = 'SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(event_id)) AS ids FROM events';
  const [row] = await rowsOf<{ rows: number; ids: number }>(clickhouse, query);
  return row ?? { rows: 0, ids: 0 };
}

async function nothingWaits(target: Target): Promise<void> {
  same('events that wait in Redis', await pendingEvents(target), 0);
  same('refused events', await target.redis?.xlen(keys.eventsDead(0)), 0);
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

function itemsOf({ pool, count }: Sent): string[] {
  return (pool.items ?? [])
    .slice(0, count)
    .map(({ identity: who, productId, variantId }) => `${who.sessionId} ${productId} ${variantId}`);
}
