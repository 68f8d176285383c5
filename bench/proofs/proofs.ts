// The proofs by name, for the table of cases.

import { eventsProof, itemsProof } from './events.js';
import { bareProof, commandsProof, fastifyProof, floorProof } from './peers.js';
import type { Proof } from './proof.js';
import { copiedVisitsProof, visitsProof } from './visits.js';

export const PROOFS = {
  bare: bareProof,
  floor: floorProof,
  fastify: fastifyProof,
  commands: commandsProof,
  visits: visitsProof,
  copies: copiedVisitsProof,
  events: eventsProof,
  items: itemsProof,
} satisfies Record<string, Proof>;

export type ProofName = keyof typeof PROOFS;
