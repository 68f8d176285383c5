// Proof of wishmeter's visits: through the API for a sample of visitors, and in Redis for all of them.

import { createKeys } from '../../src/redis/keys.js';
import { sumHashes } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import type { Visit } from '../traffic/requests.js';
import { ask } from './http.js';
import { answers, type Proof, type Sent, same, timesSent, total } from './proof.js';

const SAMPLE = 200;

const identity = { sessionId: 'proof-of-bench', device: 'desktop' };
const productHandle = 'red-shoe';

/** Before: two visits and a read, a reset, one visit more. */
async function answersRight({ port }: Target): Promise<number> {
  const write = (method: 'POST' | 'DELETE', query = '') =>
    ask(port, method, `/product/visit${query}`, { identity, productHandle });
  answers('a visit', await write('POST'), { productHandle });
  answers('a visit and its count', await write('POST', '?count=true'), { productHandle, count: 2 });
  same('the count read', await readCount(port, { ...identity, productHandle }), 2);
  await write('DELETE');
  same('the count after a reset', await readCount(port, { ...identity, productHandle }), 0);
  await write('POST');
  return 1;
}

/** The counts of a sample of visitors, as the API reads them. */
async function sampledCountsAreRight({ port }: Target, sent: readonly Sent[]): Promise<void> {
  for (const pool of new Set(sent.map((one) => one.pool))) {
    if (!pool.visits || !pool.writes) continue;
    const step = Math.max(1, Math.floor(pool.size / SAMPLE));
    for (let index = 0; index < pool.size; index += step) {
      const visit = pool.visits[index] as Visit;
      same(`count of ${visit.sessionId}`, await readCount(port, visit), timesSent(sent, pool, index));
    }
  }
}

export const visitsProof: Proof = {
  before: answersRight,
  outside: sampledCountsAreRight,
  async inside(target, sent, leftBefore) {
    const written = sent.filter(({ pool }) => pool.writes);
    if (!target.redis) throw new Error('there is no Redis to look into');
    const counts = await sumHashes(target.redis, createKeys('wm').visits('*.*'));
    same('counts in Redis, summed up', counts.sum, total(written) + leftBefore);
    const visitors = new Set(written.flatMap(visitorsOf)).size;
    same('visitors in Redis', counts.keys, visitors + leftBefore);
  },
};

function visitorsOf({ pool, first, count }: Sent): string[] {
  const all = pool.visits ?? [];
  if (count >= pool.size) return all.map((visit) => visit.sessionId);
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push((all[(first + i) % pool.size] as Visit).sessionId);
  return ids;
}

async function readCount(port: number, visit: Visit): Promise<unknown> {
  const query = new URLSearchParams({ ...visit, device: 'desktop' });
  return (await ask(port, 'GET', `/product/visit?${query}`))['count'];
}
