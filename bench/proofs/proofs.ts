// The proofs by name, for the table of cases.

import { eventsProof, itemsProof } from './events.js';
import { bareProof, fastifyProof, webdisProof } from './peers.js';
import type { Proof } from './proof.js';
import { visitsProof } from './visits.js';

export const PROOFS = {
  bare: bareProof,
  fastify: fastifyProof,
  webdis: webdisProof,
  visits: visitsProof,
  events: eventsProof,
  items: itemsProof,
} satisfies Record<string, Proof>;

export type ProofName = keyof typeof PROOFS;
