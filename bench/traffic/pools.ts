// Pools of requests: files of finished requests, written when they are first needed and replayed in order. So the number
// of answers says which requests were sent, and how often each.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BenchSettings, mostRounds } from '../settings.js';
import {
  BATCH,
  events,
  getVisit,
  type ItemBody,
  itemsOf,
  postEvent,
  postItem,
  postVisit,
  postVisitBatch,
  postVisitList,
  refused,
  shuffled,
  type Visit,
  visitsOf,
  webdisIncrement,
  webdisRead,
} from './requests.js';

export interface Pool {
  /** Requests, each ended by a zero byte. */
  readonly file: string;
  readonly size: number;
  /** Whether each of its requests writes something. */
  readonly writes: boolean;
  /** Operations that a request asks for. */
  readonly perRequest: number;
  /** What it is about, where proofs want to know: so many of `visits` for each request, one of `items`. */
  readonly visits?: readonly Visit[];
  readonly items?: readonly ItemBody[];
}

/** New sessions that a slice of cold visits may use up, and so many what comes before it. */
export const COLD_PER_SLICE = 20_000;
/** Requests that warm a server up. */
export const WARM_UP = 10_000;

/** What a pool is made of. */
export type PoolContents = Omit<Pool, 'file' | 'size' | 'perRequest'> & {
  readonly requests: readonly string[];
  /** 1 unless it is given. */
  readonly perRequest?: number;
};

const MAKERS = {
  /** One visit of each visitor. */
  visits: ({ visitors }: BenchSettings) => ofVisits(visitsOf(shuffled(visitors)), postVisit),
  countedVisits: ({ visitors }: BenchSettings) =>
    ofVisits(visitsOf(shuffled(visitors)), (visit) => postVisit(visit, '?count=true')),
  batches: ({ visitors }: BenchSettings) => {
    const visits = visitsOf(shuffled(visitors));
    const requests = Array.from({ length: Math.floor(visitors / BATCH) }, (_, n) =>
      postVisitBatch(visits.slice(n * BATCH, (n + 1) * BATCH)),
    );
    return { writes: true, perRequest: BATCH, visits: visits.slice(0, requests.length * BATCH), requests };
  },
  lists: ({ visitors }: BenchSettings) => ofVisits(visitsOf(shuffled(visitors)), postVisitList, false),
  refused400: () => ({ writes: false, requests: Array(64).fill(refused[400]) }),
  refused401: () => ({ writes: false, requests: Array(64).fill(refused[401]) }),
  refused413: () => ({ writes: false, requests: Array(64).fill(refused[413]) }),
  /** A read of each warm visitor's count. */
  reads: ({ visitors }: BenchSettings) => ofVisits(visitsOf(shuffled(visitors)), getVisit, false),
  /** Visits of unknown visitors. */
  cold: (settings: BenchSettings) => {
    const { visitors } = settings;
    const sessions = WARM_UP + (1 + mostRounds(settings) * 2) * COLD_PER_SLICE;
    const newcomers = Array.from({ length: sessions }, (_, n) => visitors + n);
    return ofVisits(visitsOf(newcomers), postVisit);
  },
  webdisVisits: ({ visitors }: BenchSettings) => ofVisits(visitsOf(shuffled(visitors)), webdisIncrement),
  webdisReads: ({ visitors }: BenchSettings) => ofVisits(visitsOf(shuffled(visitors)), webdisRead, false),
  events: ({ visitors }: BenchSettings) => ({
    writes: true,
    requests: events(visitors, visitors).map(postEvent),
  }),
  items: ({ visitors }: BenchSettings) => {
    const items = itemsOf(shuffled(visitors));
    return { writes: true, items, requests: items.map(postItem) };
  },
} satisfies Record<string, (settings: BenchSettings) => PoolContents>;

/** Of those above, or of a section's own. */
export type PoolName = keyof typeof MAKERS | `growth-${string}` | 'rights';

function ofVisits(visits: readonly Visit[], request: (visit: Visit) => string, writes = true): PoolContents {
  return { writes, visits, requests: visits.map((visit) => request(visit)) };
}

export class Pools {
  readonly #dir: string;
  readonly #settings: BenchSettings;
  readonly #made = new Map<string, Pool>();

  constructor(dir: string, settings: BenchSettings) {
    this.#dir = dir;
    this.#settings = settings;
  }

  get(name: PoolName): Pool {
    const made = this.#made.get(name);
    if (made !== undefined) return made;
    const make = (MAKERS as Partial<Record<PoolName, (settings: BenchSettings) => PoolContents>>)[name];
    if (make === undefined) throw new Error(`there are no requests named ${name}`);
    return this.add(name, make(this.#settings));
  }

  /** A pool of a section's own. */
  add(name: PoolName, { requests, ...about }: PoolContents): Pool {
    const file = join(this.#dir, `${name}.requests`);
    writeFileSync(file, `${requests.join('\0')}\0`);
    const pool = { perRequest: 1, ...about, file, size: requests.length };
    this.#made.set(name, pool);
    return pool;
  }
}
