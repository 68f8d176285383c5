// What a call of the script for visits costs, by the number of visits in it: CPU of the process that sends it, without
// HTTP, and of Redis, on one warm cluster node. The real batcher sends one call at a time.

import { Redis } from 'ioredis';
import { identityName } from '../../src/identity-rules.js';
import { createProfileIds } from '../../src/profiles/profile-id.js';
import { Store } from '../../src/redis/store.js';
import { type VisitAnswer, type VisitEntry, visitFormat } from '../../src/visits/visit-batch.js';
import { VisitLog } from '../../src/visits/visit-log.js';
import { startMasters } from '../servers/cluster.js';
import { median } from '../statistics.js';

const SIZES = [1, 2, 5, 10, 30, 100] as const;
const VISITORS = 50_000;
const PRODUCTS = 200;
const BUCKETS = 16_384;
const GUESTS_S = 86_400;
const SLICE_MS = 500;
/** The log would grow without a flusher. */
const HIGH_WATER = 64 * 1024 * 1024;

/** µs of CPU for a call. */
export interface CallCost {
  readonly serve: number;
  readonly redis: number;
}

/** For each size of SIZES, a cost per round. */
export async function measureCalls(dir: string, rounds: number): Promise<ReadonlyMap<number, CallCost[]>> {
  const [master] = await startMasters(dir, 1);
  const { url = '', stop } = master ?? {};
  const redis = new Redis(url);
  // Two URLs mean a cluster.
  const urls = [url, url.replace('127.0.0.1', 'localhost')];
  const connection = { urls, name: 'bench', timeoutMs: 5_000, keyPrefix: 'wm', buckets: BUCKETS };
  const store = await Store.open({ ...connection, guestsS: GUESTS_S, onError: () => {} });
  try {
    const send = createSender(store);
    // Each visitor has seen the product, and all code is compiled.
    for (let sent = 0; sent < VISITORS * 2; sent += 100) await send(100);
    const costs = new Map<number, CallCost[]>(SIZES.map((size) => [size, []]));
    for (let round = 0; round < rounds; round++)
      for (const size of round % 2 === 0 ? SIZES : SIZES.toReversed()) {
        await redis.del(store.keys.visits.events(0), store.keys.visits.eventsState(0));
        costs.get(size)?.push(await measureSlice(redis, () => send(size)));
      }
    return costs;
  } finally {
    store.close();
    redis.disconnect();
    await stop?.();
  }
}

/** Each call of the function sends one batch of as many visits, of one visitor after the other. */
function createSender(store: Store): (size: number) => Promise<unknown> {
  const log = new VisitLog(store, { highWater: HIGH_WATER, onNotLogged: () => {} });
  const limits = { maxProducts: 1_000, guestsS: GUESTS_S };
  const batcher = store.batcher<VisitEntry, VisitAnswer>(visitFormat({ keys: store.keys, ...limits, log }));
  const profileIds = createProfileIds(store.deployment.salt, BUCKETS);
  const visitors = Array.from({ length: VISITORS }, (_, n) =>
    profileIds.of(identityName('s', `session-${n}`)),
  );
  let next = 0;
  const visit = () => {
    const profileId = visitors[next] as string;
    const handle = `product-${next % PRODUCTS}`;
    next = (next + 1) % VISITORS;
    return batcher.run({ kind: 'visit', handle, device: 'desktop', profileId, session: '', linkId: '' });
  };
  return (size) => Promise.all(Array.from({ length: size }, visit));
}

async function measureSlice(redis: Redis, send: () => Promise<unknown>): Promise<CallCost> {
  const before = await cpu(redis);
  const end = performance.now() + SLICE_MS;
  let calls = 0;
  for (; performance.now() < end; calls++) await send();
  const after = await cpu(redis);
  return { serve: (after.serve - before.serve) / calls, redis: (after.redis - before.redis) / calls };
}

/** µs so far. */
async function cpu(redis: Redis): Promise<CallCost> {
  const info = await redis.info('cpu');
  const seconds = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
  const { user, system } = process.cpuUsage();
  return { serve: user + system, redis: (seconds('used_cpu_user') + seconds('used_cpu_sys')) * 1e6 };
}

/** A call's own cost and a visit's in it, by the least squares of the medians' relative errors. */
export function priceOf(costs: ReadonlyMap<number, readonly CallCost[]>, part: keyof CallCost) {
  let [w, wx, wy, wxx, wxy] = [0, 0, 0, 0, 0];
  for (const [x, all] of costs) {
    const y = median(all.map((cost) => cost[part]));
    const weight = 1 / y ** 2;
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  const visit = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return { call: (wy - visit * wx) / w, visit };
}
