// Proofs of the peers: the same sums, in their own keys. The limit stores nothing and only has to answer right.

import { sumHashes } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import { ask } from './http.js';
import { answers, type Proof, type Sent, same, total } from './proof.js';

const visit = { identity: { sessionId: 'proof-of-bench', device: 'desktop' }, productHandle: 'red-shoe' };
const echoed = { profileId: 'proof-of-bench', productHandle: 'red-shoe' };

export const bareProof: Proof = {
  async before({ port }) {
    answers('a visit', await ask(port, 'POST', '/product/visit', visit), echoed);
    return 0;
  },
  async outside() {},
  async inside() {},
};

export const fastifyProof: Proof = {
  async before({ port }) {
    for (const count of [1, 2])
      answers('a visit', await ask(port, 'POST', '/product/visit', visit), { ...echoed, count });
    return 2;
  },
  async outside() {},
  inside: countsAreThere,
};

export const webdisProof: Proof = {
  async before({ port }) {
    for (const count of [1, 2])
      answers('HINCRBY', await ask(port, 'GET', '/HINCRBY/visits:proof/red-shoe/1'), { HINCRBY: count });
    answers('HGET', await ask(port, 'GET', '/HGET/visits:proof/red-shoe'), { HGET: '2' });
    return 2;
  },
  async outside() {},
  inside: countsAreThere,
};

async function countsAreThere({ redis }: Target, sent: readonly Sent[], leftBefore: number): Promise<void> {
  if (!redis) throw new Error('there is no Redis to look into');
  const { sum } = await sumHashes(redis, 'visits:*');
  same('counts in Redis, summed up', sum, total(sent.filter(({ pool }) => pool.writes)) + leftBefore);
}
