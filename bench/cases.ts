// The cases, as data: who is asked what. What the figures made of them should reach is in figures.ts.

import type { ProofName } from './proofs/proofs.js';
import type { TargetSpec } from './servers/target.js';
import type { PoolName } from './traffic/pools.js';

export interface Case extends Pick<TargetSpec, 'server' | 'workers' | 'flushes'> {
  readonly name: string;
  readonly title: string;
  /** The limit does nothing but HTTP, peers are what else one could run. */
  readonly who: 'limit' | 'peer' | 'ours';
  /** Replayed before anything is timed: `all` of a pool for what it leaves in Redis, or `some` of it to warm up code. */
  readonly before: readonly (readonly ['all' | 'some', PoolName])[];
  readonly load: PoolName;
  readonly proof: ProofName;
}

const LIMIT = { who: 'limit', server: 'bare', proof: 'bare' } as const;
const FASTIFY = { who: 'peer', server: 'fastify', proof: 'fastify' } as const;
const WEBDIS = { who: 'peer', server: 'webdis', proof: 'webdis' } as const;
const OURS = { who: 'ours', server: 'wishmeter' } as const;

const VISITED = [['all', 'visits']] as const;

const PEERS: readonly Case[] = [
  { ...LIMIT, name: 'bare', title: 'bare uWebSockets.js, no Redis', before: VISITED, load: 'visits' },
  {
    ...WEBDIS,
    name: 'webdis-hincrby',
    title: 'webdis HINCRBY',
    before: [['all', 'webdisVisits']],
    load: 'webdisVisits',
  },
  {
    ...WEBDIS,
    name: 'webdis-hget',
    title: 'webdis HGET',
    before: [
      ['all', 'webdisVisits'],
      ['some', 'webdisReads'],
    ],
    load: 'webdisReads',
  },
  { ...FASTIFY, name: 'fastify', title: 'Fastify, ioredis HINCRBY', before: VISITED, load: 'visits' },
];

const SERVICE: readonly Case[] = [
  { ...OURS, name: 'visit', title: 'visit, warm', before: VISITED, load: 'visits', proof: 'visits' },
  {
    ...OURS,
    name: 'visit-cold',
    title: 'visit, cold (new session)',
    before: [['some', 'cold']],
    load: 'cold',
    proof: 'visits',
  },
  {
    ...OURS,
    name: 'read',
    title: 'read',
    before: [
      ['all', 'visits'],
      ['some', 'reads'],
    ],
    load: 'reads',
    proof: 'visits',
  },
  {
    ...OURS,
    name: 'event',
    title: 'event, flusher running',
    before: [['all', 'events']],
    load: 'events',
    proof: 'events',
    flushes: true,
  },
  {
    ...OURS,
    name: 'item-add',
    title: 'item/add, flusher running',
    before: [['all', 'items']],
    load: 'items',
    proof: 'items',
    flushes: true,
  },
];

const twice = (one: Case): Case => ({
  ...one,
  name: `${one.name}-2`,
  title: `${one.title}, 2 workers`,
  workers: 2,
});

export const CASES: readonly Case[] = [...PEERS, ...SERVICE, ...SERVICE.map(twice)];
