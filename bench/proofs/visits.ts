// Proof of wishmeter's visits: through the API for a sample of visitors, and in Redis for all of them.

import { createKeys } from '../../src/redis/keys.js';
import { type HashTotals, sumHashes } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import type { Visit } from '../traffic/requests.js';
import { ask } from './http.js';
import { answers, type Proof, type Sent, same, total } from './proof.js';

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
  const written = sent.filter(({ pool }) => pool.writes);
  for (const { visits = [] } of written.map(({ pool }) => pool)) {
    const step = Math.max(1, Math.floor(visits.length / SAMPLE));
    for (let index = 0; index < visits.length; index += step) {
      const visit = visits[index] as Visit;
      // Pools have the same visit at the same place, or have other visitors.
      const times = written.map((one) =>
        one.pool.visits?.[index]?.sessionId === visit.sessionId ? timesSent(one, index) : 0,
      );
      same(
        `count of ${visit.sessionId}`,
        await readCount(port, visit),
        times.reduce((a, b) => a + b),
      );
    }
  }
}

/** How often visit `index` of a pool was sent. */
function timesSent({ pool, count }: Sent, index: number): number {
  const request = Math.floor(index / pool.perRequest);
  return Math.ceil(Math.max(0, count - request) / pool.size);
}

export const visitsProof: Proof = {
  before: answersRight,
  outside: sampledCountsAreRight,
  async inside(target, sent, leftBefore) {
    const written = sent.filter(({ pool }) => pool.writes);
    const counts = await sumIsRight(target, sent, leftBefore);
    const visitors = new Set(written.flatMap(visitorsOf)).size;
    same('visitors in Redis', counts.keys, visitors + leftBefore);
  },
};

/** For loads whose visitors come again by chance. */
export const visitSumsProof: Proof = {
  before: answersRight,
  async outside() {},
  async inside(target, sent, leftBefore) {
    await sumIsRight(target, sent, leftBefore);
  },
};

/** For so many visitors that to look at each would take minutes. */
export const visitAnswersProof: Proof = { before: answersRight, async outside() {}, async inside() {} };

async function sumIsRight(
  { redis, masters = redis && [redis] }: Target,
  sent: readonly Sent[],
  leftBefore: number,
): Promise<HashTotals> {
  if (!masters) throw new Error('there is no Redis to look into');
  const counts = await sumHashes(masters, createKeys('wm').identity('*.*'));
  const written = sent.filter(({ pool }) => pool.writes);
  same('counts in Redis, summed up', counts.sum, total(written) + leftBefore);
  return counts;
}

function visitorsOf({ pool, count }: Sent): string[] {
  return (pool.visits ?? []).slice(0, count * pool.perRequest).map((visit) => visit.sessionId);
}

async function readCount(port: number, visit: Visit): Promise<unknown> {
  const query = new URLSearchParams({ ...visit, device: 'desktop' });
  return (await ask(port, 'GET', `/product/visit?${query}`))['count'];
}
