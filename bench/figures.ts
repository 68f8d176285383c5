// The figures that are to be reached, as data: how each is made of the results, and what it should be.

import type { Results } from './results.js';
import type { CaseResult } from './sections/throughput.js';

export interface Figure {
  readonly title: string;
  readonly reach: { readonly atLeast: number } | { readonly atMost: number };
  readonly unit?: string;
  /** undefined where what it is made of was not measured. */
  readonly of: (results: Results) => number | undefined;
}

/** One case's requests per second to another's. */
function rates(ours: string, theirs: string): Figure['of'] {
  return ({ throughput }) => ratio(throughput?.[ours]?.perSecond, throughput?.[theirs]?.perSecond);
}

function ratio(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a / b;
}

export const FIGURES: readonly Figure[] = [
  { title: 'visit, warm: against webdis', reach: { atLeast: 1.15 }, of: rates('visit', 'webdis-hincrby') },
  {
    title: 'visit, warm: against Fastify with ioredis',
    reach: { atLeast: 2.2 },
    of: rates('visit', 'fastify'),
  },
  {
    title: 'visit, warm: against bare uWebSockets.js',
    reach: { atLeast: 0.6 },
    of: rates('visit', 'bare'),
  },
  { title: 'visit, cold against warm', reach: { atLeast: 0.85 }, of: rates('visit-cold', 'visit') },
  { title: 'read against webdis HGET', reach: { atLeast: 1.15 }, of: rates('read', 'webdis-hget') },
  { title: 'event against visit, flusher running', reach: { atLeast: 0.8 }, of: rates('event', 'visit') },
  {
    title: 'p99 at half peak against bare uWebSockets.js at that rate',
    reach: { atMost: 2 },
    of: ({ latency }) => ratio(latency?.cases.visit.p99Ms, latency?.cases.bare.p99Ms),
  },
  {
    title: 'flusher against direct insert of the same bytes',
    reach: { atLeast: 0.7 },
    of: ({ flusher }) => ratio(flusher?.flushed, flusher?.direct),
  },
  {
    title: 'flusher',
    unit: 'rows/s',
    reach: { atLeast: 100_000 },
    of: ({ flusher }) => flusher?.flushed,
  },
  {
    title: 'Redis per identity',
    unit: 'B',
    reach: { atMost: 80 },
    of: ({ crowd }) => crowd?.bytesPerIdentity,
  },
  {
    title: 'Redis per visitor with one product',
    unit: 'B',
    reach: { atMost: 190 },
    of: ({ crowd }) => crowd?.bytesPerVisitor,
  },
  {
    title: 'Redis per pending event beyond its own line',
    unit: 'B',
    reach: { atMost: 30 },
    of: ({ flusher }) => flusher?.redisBytesBeyondLine,
  },
  {
    title: 'visits with 1 million visitors against 10 thousand',
    reach: { atLeast: 0.85 },
    of: ({ crowd }) => ratio(crowd?.many.perSecond, crowd?.few.perSecond),
  },
  {
    title: 'ClickHouse disk per event, parts merged',
    unit: 'B',
    reach: { atMost: 60 },
    of: ({ flusher }) => flusher?.diskMerged.bytesPerRow,
  },
  {
    title: 'ready after start, installed, empty data folder',
    unit: 'ms',
    reach: { atMost: 3_000 },
    of: ({ start }) => start?.readyMs,
  },
];

export interface Measured {
  readonly title: string;
  /** With its unit. */
  readonly value: string;
  readonly reach: string;
  readonly reached: boolean;
}

/** Every figure whose parts were measured. */
export function measuredFigures(results: Results): Measured[] {
  return FIGURES.flatMap(({ title, reach, unit, of }) => {
    const value = of(results);
    if (value === undefined) return [];
    const [sign, bound] = 'atLeast' in reach ? ['≥', reach.atLeast] : ['≤', reach.atMost];
    const reached = 'atLeast' in reach ? value >= bound : value <= bound;
    return [{ title, value: show(value, unit), reach: `${sign} ${show(bound, unit)}`, reached }];
  });
}

function show(value: number, unit: string | undefined): string {
  if (unit === undefined) return value.toFixed(2);
  const digits = value < 1_000 && !Number.isInteger(value) ? 1 : 0;
  return `${value.toLocaleString('en', { maximumFractionDigits: digits })} ${unit}`;
}

/** Requests per second of a case as a share of another's, for the table; empty where one is missing. */
export function against(one: CaseResult, other: CaseResult | undefined): string {
  return other === undefined ? '' : (one.perSecond / other.perSecond).toFixed(2);
}
