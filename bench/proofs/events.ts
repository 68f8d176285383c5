// Proof of events and items: every acknowledged event is in ClickHouse once, and nothing waits in Redis.

import { setTimeout as sleep } from 'node:timers/promises';
import { createClickHouse, select } from '../../src/clickhouse/client.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Target } from '../servers/target.js';
import { answers, ask, type Proof, same, total } from './proof.js';

const DRAINED_WITHIN_MS = 60_000;
/** A doubled event would come with the flusher's next interval. */
const MORE_MS = 300;
const keys = createKeys('wm');

const identity = { sessionId: 'proof-of-bench', device: 'desktop' };
const item = {
  ...{ productId: '1001', variantId: null, productTitle: 'Red shoe', productHandle: 'red-shoe' },
  ...{ image: 'https://cdn.example/red-shoe.jpg', price: '59.00', compareAt: null, inventoryAvailable: true },
};

export const eventsProof: Proof = {
  async before({ port }) {
    const event = { identity, type: 'add', payload: { productId: '1001', source: 'pdp' } };
    const first = await ask(port, 'POST', '/event', event);
    answers('the same visitor again', await ask(port, 'POST', '/event', event), first);
    return 2;
  },
  after: eventsArrived,
};

export const itemsProof: Proof = {
  async before({ port }) {
    const add = (quantity: number) => ask(port, 'POST', '/item/add', { identity, ...item, quantity });
    const { profileId, itemId } = await add(1);
    answers('the same item again', await add(2), { profileId, itemId, quantity: 2 });
    return 2;
  },
  after: eventsArrived,
};

async function eventsArrived(...[target, sent, leftBefore]: Parameters<Proof['after']>): Promise<void> {
  if (!target.clickhouseUrl) throw new Error('there is no ClickHouse');
  await untilDrained(target);
  await sleep(MORE_MS);
  const clickhouse = createClickHouse(target.clickhouseUrl, 'wishmeter');
  const query = 'SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(event_id)) AS ids FROM events';
  const [found] = await select<{ rows: number; ids: number }>(clickhouse, query);
  await clickhouse.close();
  const expected = total(sent) + leftBefore;
  same('ids in ClickHouse', found?.ids, expected);
  same('rows in ClickHouse', found?.rows, expected);
  same('dead letters', await target.redis?.xlen(keys.eventsDead(0)), 0);
}

/** Events in Redis that are not in ClickHouse yet. */
export async function pendingEvents(target: Pick<Target, 'redis'>): Promise<number> {
  return await pendingRows(target, keys.eventsState(0));
}

async function pendingRows({ redis }: Pick<Target, 'redis'>, state: string): Promise<number> {
  return Number((await redis?.hget(state, 'events')) ?? 0);
}

/** Resolves when the flusher has taken all events and visits. */
export async function untilDrained(target: Pick<Target, 'redis'>): Promise<void> {
  const deadline = performance.now() + DRAINED_WITHIN_MS;
  const visits = keys.visits.eventsState(0);
  while ((await pendingEvents(target)) + (await pendingRows(target, visits)) > 0) {
    if (performance.now() > deadline) throw new Error('the streams do not drain');
    await sleep(20);
  }
}
