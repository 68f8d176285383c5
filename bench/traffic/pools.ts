// Pools of requests: files of finished requests, written on first use and replayed in order. So the number of answers says
// which requests were sent, and how often each.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BenchSettings, mostRounds } from '../settings.js';
import {
  BATCH,
  getVisit,
  hashIncrement,
  hashRead,
  postEvents,
  postItems,
  postVisit,
  postVisitBatch,
  shuffled,
  type Visit,
  visitsOf,
} from './requests.js';

export interface Pool {
  /** Requests, each ended by a zero byte. */
  readonly file: string;
  readonly size: number;
  /** True if each of its requests writes something. */
  readonly writes: boolean;
  /** Operations of a request. */
  readonly perRequest: number;
}

/** The most new sessions of a slice, and of the load before it. */
export const COLD_PER_SLICE = 20_000;
/** Requests that warm up a server. */
export const WARM_UP = 10_000;
/** Of so many guests, how many visit: the first ones. */
export const visiting = (guests: number) => Math.min(guests, 200_000);

type Contents = Omit<Pool, 'file' | 'size' | 'perRequest'> & {
  readonly requests: readonly string[];
  /** 1 by default. */
  readonly perRequest?: number;
};

const everyone = ({ visitors }: BenchSettings) => visitsOf(shuffled(visitors));

const MAKERS = {
  /** One visit of each visitor. */
  visits: (settings) => ofVisits(everyone(settings), postVisit),
  batches: (settings) => {
    const visits = everyone(settings);
    const requests = Array.from({ length: Math.floor(visits.length / BATCH) }, (_, n) =>
      postVisitBatch(visits.slice(n * BATCH, (n + 1) * BATCH)),
    );
    return { writes: true, perRequest: BATCH, requests };
  },
  /** A read of each visitor's count. */
  reads: (settings) => ofVisits(everyone(settings), getVisit, false),
  /** Visits of new visitors. */
  cold: (settings) => {
    // Each round has a lead and a slice, and there is one lead before all of them.
    const sessions = WARM_UP + (1 + mostRounds(settings) * 2) * COLD_PER_SLICE;
    const newcomers = Array.from({ length: sessions }, (_, n) => settings.visitors + n);
    return ofVisits(visitsOf(newcomers), postVisit);
  },
  few: ({ guests }) => ofVisits(visitsOf(shuffled(visiting(guests.few))), postVisit),
  many: ({ guests }) => ofVisits(visitsOf(shuffled(visiting(guests.many))), postVisit),
  weighed: ({ weighed }) => ofVisits(visitsOf(shuffled(weighed)), postVisit),
  increments: (settings) => ofVisits(everyone(settings), hashIncrement),
  hashReads: (settings) => ofVisits(everyone(settings), hashRead, false),
  events: ({ visitors }) => ({ writes: true, requests: postEvents(shuffled(visitors)) }),
  items: ({ visitors }) => ({ writes: true, requests: postItems(shuffled(visitors)) }),
} as const satisfies Readonly<Record<string, (settings: BenchSettings) => Contents>>;

export type PoolName = keyof typeof MAKERS;

function ofVisits(visits: readonly Visit[], request: (visit: Visit) => string, writes = true): Contents {
  return { writes, requests: visits.map((visit) => request(visit)) };
}

/** @param dir folder of their files */
export function createPools(dir: string, settings: BenchSettings): (name: PoolName) => Pool {
  const made = new Map<PoolName, Pool>();
  return (name) => {
    const existing = made.get(name);
    if (existing !== undefined) return existing;
    const { requests, ...about }: Contents = MAKERS[name](settings);
    const file = join(dir, `${name}.requests`);
    writeFileSync(file, `${requests.join('\0')}\0`);
    const pool = { perRequest: 1, ...about, file, size: requests.length };
    made.set(name, pool);
    return pool;
  };
}
