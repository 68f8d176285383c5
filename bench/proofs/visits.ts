// Proof of wishmeter's visits: answers through the API, and afterwards all counts in Redis.

import { createKeys } from '../../src/redis/keys.js';
import type { Target } from '../servers/target.js';
import type { Visit } from '../traffic/requests.js';
import { answers, ask, type Proof, same, sumIsRight } from './proof.js';

/** It is counted once before any load. */
export const PROOF_VISIT: Visit = { sessionId: 'proof-of-bench', productHandle: 'red-shoe' };
const { sessionId, productHandle } = PROOF_VISIT;

/** Two visits and a read, a reset, one visit more. */
async function answersRight({ port }: Target): Promise<number> {
  const identity = { sessionId, device: 'desktop' };
  const write = (method: 'POST' | 'DELETE', query = '') =>
    ask(port, method, `/product/visit${query}`, { identity, productHandle });
  answers('a visit', await write('POST'), { productHandle });
  answers('a visit and its count', await write('POST', '?count=true'), { productHandle, count: 2 });
  same('the count read', await readCount(port, PROOF_VISIT), 2);
  await write('DELETE');
  same('the count after a reset', await readCount(port, PROOF_VISIT), 0);
  await write('POST');
  return 1;
}

export async function readCount(port: number, visit: Visit): Promise<unknown> {
  const query = new URLSearchParams({ ...visit, device: 'desktop' });
  return (await ask(port, 'GET', `/product/visit?${query}`))['count'];
}

export const visitsProof: Proof = {
  before: answersRight,
  after: sumIsRight(createKeys('wm').counts('*.*')),
};

/** For guests that are copies: their counts before are no visits. */
export const copiedVisitsProof: Proof = { before: answersRight, async after() {} };
