// Proofs of the peers: the same sums, in their own keys. The limit stores nothing and only has to answer right.

import { notEqual } from 'node:assert/strict';
import { sumHashes } from '../servers/redis.js';
import { ask } from './http.js';
import { answers, type Proof, same, total } from './proof.js';

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

export const floorProof: Proof = {
  async before({ port }) {
    const post = (body: object) => ask(port, 'POST', '/product/visit', body, {});
    const first = await post(visit);
    answers('a visit', first, { productHandle: 'red-shoe' });
    answers('the same visitor again', await post(visit), first);
    const other = await post({ ...visit, identity: { sessionId: 'another' } });
    notEqual(other['profileId'], first['profileId'], 'another visitor has another profile');
    return 3;
  },
  async outside() {},
  inside: countsAreThere('fl:{*}:v:*'),
};

export const fastifyProof: Proof = {
  async before({ port }) {
    for (const count of [1, 2])
      answers('a visit', await ask(port, 'POST', '/product/visit', visit), { ...echoed, count });
    return 2;
  },
  async outside() {},
  inside: countsAreThere('visits:*'),
};

export const webdisProof: Proof = {
  async before({ port }) {
    for (const count of [1, 2])
      answers('HINCRBY', await ask(port, 'GET', '/HINCRBY/visits:proof/red-shoe/1'), { HINCRBY: count });
    answers('HGET', await ask(port, 'GET', '/HGET/visits:proof/red-shoe'), { HGET: '2' });
    return 2;
  },
  async outside() {},
  inside: countsAreThere('visits:*'),
};

/** @param hashes their keys, as a pattern */
function countsAreThere(hashes: string): Proof['inside'] {
  return async ({ redis }, sent, leftBefore) => {
    if (!redis) throw new Error('there is no Redis to look into');
    const { sum } = await sumHashes([redis], hashes);
    same('counts in Redis, summed up', sum, total(sent.filter(({ pool }) => pool.writes)) + leftBefore);
  };
}
