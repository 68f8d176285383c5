// The proofs by name, for the table of cases.

import { createKeys } from '../../src/redis/keys.js';
import { eventsProof, itemsProof } from './events.js';
import { bareProof, commandsProof, fastifyProof, floorProof } from './peers.js';
import { type Proof, sumIsRight } from './proof.js';
import { copiedVisitsProof, visitsProof } from './visits.js';

export const PROOFS = {
  bare: bareProof,
  floor: floorProof,
  fastify: fastifyProof,
  commands: commandsProof,
  visits: visitsProof,
  /** The order of answers is open, so only the sum is known. */
  sums: { ...visitsProof, after: sumIsRight(createKeys('wm').identity('*.*')) },
  copies: copiedVisitsProof,
  events: eventsProof,
  items: itemsProof,
} satisfies Record<string, Proof>;

export type ProofName = keyof typeof PROOFS;
