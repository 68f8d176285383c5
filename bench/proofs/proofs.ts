// The proofs by name, for the table of cases.

import { eventsProof, itemsProof } from './events.js';
import { bareProof, fastifyProof, floorProof, webdisProof } from './peers.js';
import type { Proof } from './proof.js';
import { refusalProof } from './refusals.js';
import { visitAnswersProof, visitSumsProof, visitsProof } from './visits.js';

export const PROOFS = {
  bare: bareProof,
  floor: floorProof,
  fastify: fastifyProof,
  webdis: webdisProof,
  visits: visitsProof,
  sums: visitSumsProof,
  answers: visitAnswersProof,
  events: eventsProof,
  items: itemsProof,
  refused400: refusalProof(400),
  refused401: refusalProof(401),
  refused413: refusalProof(413),
} satisfies Record<string, Proof>;

export type ProofName = keyof typeof PROOFS;
