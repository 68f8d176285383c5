// Proofs of the other servers: the same sums, in their own keys. The limit stores nothing and only has to answer right.

import { notEqual } from 'node:assert/strict';
import { answers, ask, type Proof, sumIsRight } from './proof.js';

const visit = { identity: { sessionId: 'proof-of-bench', device: 'desktop' }, productHandle: 'red-shoe' };
const echoed = { profileId: 'proof-of-bench', productHandle: 'red-shoe' };

export const bareProof: Proof = {
  async before({ port }) {
    answers('a visit', await ask(port, 'POST', '/product/visit', visit), echoed);
    return 0;
  },
  async after() {},
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
  after: sumIsRight('fl:{*}:v:*'),
};

export const fastifyProof: Proof = {
  async before({ port }) {
    for (const count of [1, 2])
      answers('a visit', await ask(port, 'POST', '/product/visit', visit), { ...echoed, count });
    return 2;
  },
  after: sumIsRight('visits:*'),
};

/** webdis, and nginx with Lua. */
export const commandsProof: Proof = {
  async before({ port }) {
    for (const count of [1, 2])
      answers('HINCRBY', await ask(port, 'GET', '/HINCRBY/visits:proof/red-shoe/1'), { HINCRBY: count });
    answers('HGET', await ask(port, 'GET', '/HGET/visits:proof/red-shoe'), { HGET: '2' });
    return 2;
  },
  after: sumIsRight('visits:*'),
};
