// The cases, as data: server, load and proof of each. The ratios to reach are in figures.ts.

import { eventsProof, itemsProof } from './proofs/events.js';
import { bareProof, commandsProof, fastifyProof, floorProof } from './proofs/peers.js';
import type { Proof } from './proofs/proof.js';
import { visitsProof } from './proofs/visits.js';
import type { Target, TargetSpec } from './servers/target.js';
import { COLD_PER_SLICE, type PoolName } from './traffic/pools.js';

export interface Case extends Omit<TargetSpec, 'dir' | 'root'> {
  readonly name: string;
  readonly title: string;
  /** Pools that are replayed before the timing: `all` of a pool for its data, or `some` of it to warm up code. */
  readonly before: readonly (readonly ['all' | 'some', PoolName])[];
  /** Runs before that, for data that is too large to replay. */
  readonly fill?: (target: Target) => Promise<void>;
  readonly load: PoolName;
  readonly proof: Proof;
  /** Connections of the load, if not the usual 64. */
  readonly connections?: number;
  /** A slice with refused requests counts as disturbed. */
  readonly maySeeRefusals?: boolean;
  /** Requests of a slice, if each request may be sent only once. */
  readonly freshPerSlice?: number;
}

/** Cases whose slices take turns and are compared with each other. */
export interface Group {
  /** Cases that the others are compared with: they run if any of the others does. */
  readonly reference: readonly string[];
  readonly cases: readonly Case[];
  /** With as many rounds as others have in two starts: to start its servers takes longest. */
  readonly startsOnce?: true;
}

const VISITED = [['all', 'visits']] as const;
const VISITS = { load: 'visits', before: VISITED } as const;

export const bare: Case = {
  ...{ ...VISITS, name: 'bare', title: 'bare uWebSockets.js, no Redis', server: 'bare', proof: bareProof },
};

const floor: Case = {
  ...{ ...VISITS, name: 'floor', title: 'the floor of a visit', server: 'floor', proof: floorProof },
};

const webdis: Case = {
  ...{ name: 'webdis-hincrby', title: 'webdis, HINCRBY', server: 'webdis', proof: commandsProof },
  ...{ before: [['all', 'increments']], load: 'increments' },
};

export const visit: Case = {
  ...{ ...VISITS, name: 'visit', title: 'visit', server: 'wishmeter', proof: visitsProof },
};

const cluster: Case = { ...visit, name: 'visit-cluster', title: 'visit, cluster of 3 masters', masters: 3 };

/**
 * A cluster is for loads that fill the batches of all its nodes. From 257 requests in a tick on, serve sheds load if the
 * tick lasts long, as it does on a busy machine.
 */
const BUSY = { connections: 512, maySeeRefusals: true } as const;

const event: Case = {
  ...{ ...visit, name: 'event', title: 'event, flusher running', flushes: true },
  ...{ load: 'events', before: [['all', 'events']], proof: eventsProof },
};

const itemAdd: Case = {
  ...{ ...visit, name: 'item-add', title: 'item/add, flusher running', flushes: true },
  ...{ load: 'items', before: [['all', 'items']], proof: itemsProof },
};

const cold: Case = {
  ...{ ...visit, name: 'visit-cold', title: 'visit, new session' },
  ...{ load: 'cold', before: [['some', 'cold']], freshPerSlice: COLD_PER_SLICE },
};

const read: Case = {
  ...{ ...visit, name: 'read', title: 'read' },
  ...{ load: 'reads', before: [...VISITED, ['some', 'reads']] },
};

export const GROUPS = {
  visits: {
    reference: ['bare', 'floor', 'visit'],
    cases: [
      bare,
      floor,
      visit,
      { ...visit, name: 'visit-flushed', title: 'visit, flusher running, as `make run`', flushes: true },
      cold,
      read,
      webdis,
      {
        ...{ ...webdis, name: 'webdis-hget', title: 'webdis, HGET' },
        ...{ load: 'hashReads', before: [...webdis.before, ['some', 'hashReads']] },
      },
      { ...webdis, name: 'nginx-hincrby', title: 'nginx with Lua, HINCRBY', server: 'nginx' },
      {
        ...VISITS,
        name: 'fastify',
        title: 'Fastify, ioredis, HINCRBY',
        server: 'fastify',
        proof: fastifyProof,
      },
    ],
  },
  wishlist: {
    reference: ['visit'],
    cases: [
      visit,
      event,
      itemAdd,
      {
        ...{ ...visit, name: 'visit-batch', title: 'visit, in batches of 100', connections: 8 },
        ...{ load: 'batches', before: [...VISITED, ['some', 'batches']] },
      },
    ],
  },
  cluster: {
    startsOnce: true,
    reference: ['visit'],
    cases: [
      visit,
      cluster,
      { ...visit, ...BUSY, name: 'visit-busy', title: 'visit, 512 connections' },
      { ...cluster, ...BUSY, name: 'cluster-busy', title: 'visit, cluster of 3 masters, 512 connections' },
    ],
  },
} as const satisfies Readonly<Record<string, Group>>;

export type GroupName = keyof typeof GROUPS;

/** What `make bench-compare` measures. */
export const COMPARED: readonly Case[] = [visit, cold, read, event, itemAdd];
