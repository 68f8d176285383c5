// The cases, as data: server, load and neighbours of each. The figures to be reached are in figures.ts.

import type { ProofName } from './proofs/proofs.js';
import type { Target, TargetSpec } from './servers/target.js';
import { COLD_PER_SLICE, type PoolName } from './traffic/pools.js';

export interface Case extends Omit<TargetSpec, 'dir' | 'root' | 'nodeArgs'> {
  readonly name: string;
  readonly title: string;
  /** The limit does nothing but HTTP, the floor is the least that a visit needs, peers are what else one could run. */
  readonly who: 'limit' | 'floor' | 'peer' | 'ours';
  /** Replayed before anything is timed: `all` of a pool for what it leaves in Redis, or `some` of it to warm up code. */
  readonly before: readonly (readonly ['all' | 'some', PoolName])[];
  /** Done before that, for what is too large to be replayed. @returns how many counts are then there */
  readonly fill?: (target: Target) => Promise<number>;
  readonly load: PoolName;
  readonly proof: ProofName;
  /** Connections of the load, where they are not the usual 64. */
  readonly connections?: number;
  /** Most requests of a slice. */
  readonly requests?: number;
  /** Whether each request of the load has to be refused (4xx); else each has to be answered well. */
  readonly isRefused?: boolean;
  /** Whether a request may be sent once only. */
  readonly isPoolUsedUp?: boolean;
}

/** Cases whose slices take turns, and are compared with each other. */
export interface Group {
  /** Names of cases that the others are compared with: they run wherever one of the others does. */
  readonly reference: readonly string[];
  readonly cases: readonly Case[];
}

const VISITED = [['all', 'visits']] as const;
const OURS = { who: 'ours', server: 'wishmeter', proof: 'visits', before: VISITED } as const;

const bare: Case = {
  ...{ name: 'bare', title: 'bare uWebSockets.js, no Redis', who: 'limit', server: 'bare', proof: 'bare' },
  ...{ before: VISITED, load: 'visits' },
};

const floor: Case = {
  ...{ name: 'floor', title: 'the floor of a visit', who: 'floor', server: 'floor', proof: 'floor' },
  ...{ before: VISITED, load: 'visits' },
};

const webdis: Case = {
  ...{ name: 'webdis-hincrby', title: 'webdis HINCRBY', who: 'peer', server: 'webdis', proof: 'webdis' },
  ...{ before: [['all', 'webdisVisits']], load: 'webdisVisits' },
};

const webdisRead: Case = {
  ...webdis,
  ...{ name: 'webdis-hget', title: 'webdis HGET', load: 'webdisReads' },
  before: [...webdis.before, ['some', 'webdisReads']],
};

const fastify: Case = {
  ...{ name: 'fastify', title: 'Fastify, ioredis HINCRBY', who: 'peer', server: 'fastify', proof: 'fastify' },
  ...{ before: VISITED, load: 'visits' },
};

export const visit: Case = { ...OURS, name: 'visit', title: 'visit, warm', load: 'visits' };

export const event: Case = {
  ...OURS,
  ...{ name: 'event', title: 'event, flusher running', load: 'events', proof: 'events', flushes: true },
  before: [['all', 'events']],
};

const itemAdd: Case = {
  ...OURS,
  ...{ name: 'item-add', title: 'item/add, flusher running', load: 'items', proof: 'items', flushes: true },
  before: [['all', 'items']],
};

/** A case that reads, or goes on, after visits that it warms up with. */
function afterVisits(name: string, title: string, load: PoolName, more: Partial<Case> = {}): Case {
  return { ...OURS, name, title, load, before: [...VISITED, ['some', load]], ...more };
}

function flood(status: 400 | 401 | 413): Case {
  const load = `refused${status}` as const;
  return {
    ...OURS,
    ...{ name: `flood-${status}`, title: `refused, ${status}`, load, proof: load, isRefused: true },
    before: [['some', load]],
  };
}

/**
 * A cluster is for loads that fill its batches: 64 connections share three nodes' batches, so each is a third of one
 * server's.
 */
const BUSY = { connections: 512 } as const;

export const GROUPS = {
  visits: {
    reference: ['bare', 'floor', 'visit'],
    cases: [
      bare,
      floor,
      visit,
      { ...visit, name: 'visit-unlogged', title: 'visit, warm, `VISIT_LOG=off`', isUnlogged: true },
      afterVisits('visit-count', 'visit, warm, `?count=true`', 'countedVisits'),
      {
        ...OURS,
        ...{ name: 'visit-cold', title: 'visit, cold (new session)', load: 'cold' },
        ...{ before: [['some', 'cold']], requests: COLD_PER_SLICE, isPoolUsedUp: true },
      },
      afterVisits('read', 'read', 'reads'),
      webdis,
      webdisRead,
      fastify,
    ],
  },
  wishlist: { reference: ['bare', 'visit'], cases: [bare, visit, event, itemAdd] },
  relays: {
    reference: ['visit'],
    cases: [
      visit,
      afterVisits('visit-batch', 'visit, in batches of 100', 'batches', { connections: 8 }),
      afterVisits('visit-list', 'visit/list, 24 products', 'lists'),
      flood(400),
      flood(401),
      flood(413),
    ],
  },
  scale: {
    reference: ['visit'],
    cases: [
      visit,
      { ...visit, name: 'visit-cluster', title: 'visit, warm, cluster of 3 masters', masters: 3 },
      { ...visit, ...BUSY, name: 'visit-busy', title: 'visit, warm, 512 connections' },
      {
        ...{ ...visit, ...BUSY, masters: 3 },
        ...{ name: 'visit-cluster-busy', title: 'visit, warm, cluster of 3 masters, 512 connections' },
      },
      { ...visit, name: 'visit-replicated', title: 'visit, warm, `REDIS_REPLICAS=1`', replicas: 1 },
      { ...visit, name: 'visit-2', title: 'visit, warm, 2 `serve` processes', workers: 2 },
      { ...visit, name: 'visit-4', title: 'visit, warm, 4 `serve` processes', workers: 4 },
    ],
  },
} as const satisfies Readonly<Record<string, Group>>;

export type GroupName = keyof typeof GROUPS;

export const COMPARED: readonly Case[] = [visit, ...GROUPS.visits.cases.slice(4, 7), event, itemAdd];
