// Pools of requests: files of finished requests, written when they are first wanted and replayed in order, so that
// who was asked what, and how often, is known from the number of answers.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchSettings } from '../settings.js';
import {
  events,
  getVisit,
  type ItemBody,
  itemsOf,
  postEvent,
  postItem,
  postVisit,
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
  /** What request i is about, where proofs want to know. */
  readonly visits?: readonly Visit[];
  readonly items?: readonly ItemBody[];
}

/** New sessions that cold visits may use up per second: more than any server here answers. */
const COLD_PER_SECOND = 60_000;
/** Requests that warm a server up. */
export const WARM_UP = 10_000;

/** What a pool is made of. */
export type PoolContents = Omit<Pool, 'file' | 'size'> & { readonly requests: readonly string[] };

const MAKERS = {
  /** One visit of each visitor. */
  visits: ({ visitors }: BenchSettings) => ofVisits(visitsOf(shuffled(visitors)), postVisit),
  /** A read of each of those counts. */
  reads: ({ visitors }: BenchSettings) => ofVisits(visitsOf(shuffled(visitors)), getVisit, false),
  /** Visitors who have never been there. */
  cold: ({ seconds, visitors }: BenchSettings) => {
    const newcomers = Array.from({ length: WARM_UP + seconds * COLD_PER_SECOND }, (_, n) => visitors + n);
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

export type PoolName = keyof typeof MAKERS;

export function ofVisits(
  visits: readonly Visit[],
  request: (visit: Visit) => string,
  writes = true,
): PoolContents {
  return { writes, visits, requests: visits.map(request) };
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
    return this.#made.get(name) ?? this.add(name, MAKERS[name](this.#settings));
  }

  /** A pool of a section's own. */
  add(name: string, { requests, ...about }: PoolContents): Pool {
    const file = join(this.#dir, `${name}.requests`);
    writeFileSync(file, `${requests.join('\0')}\0`);
    const pool = { ...about, file, size: requests.length };
    this.#made.set(name, pool);
    return pool;
  }
}
