// The figures that are to be reached, as data: how each is made of the results, and what it should be.

import type { GroupName } from './cases.js';
import type { Results } from './results.js';
import type { CaseResult } from './sections/slices.js';
import type { Part } from './servers/target.js';
import { cpuUs, type Figure, medianOf, type Slice } from './slice.js';

export interface Aim {
  readonly title: string;
  readonly reach: { readonly atLeast: number } | { readonly atMost: number };
  readonly unit?: string;
  /** undefined where what it is made of was not measured. */
  readonly of: (results: Results) => Figure | number | undefined;
}

/** Made slice by slice of two cases. */
function compare(
  ours: CaseResult | undefined,
  theirs: CaseResult | undefined,
  figure: (ours: Slice, theirs: Slice) => number,
): Figure | undefined {
  return ours && theirs && medianOf([ours.slices, theirs.slices], figure);
}

/** The same of a group's. */
function within(
  group: GroupName,
  ours: string,
  theirs: string,
  figure: (ours: Slice, theirs: Slice) => number,
): Aim['of'] {
  return ({ groups }) => compare(groups?.[group]?.[ours], groups?.[group]?.[theirs], figure);
}

/** One case's requests per second to another's. */
const rates = (a: Slice, b: Slice) => a.perSecond / b.perSecond;

/** One case's CPU per operation to another's, of these parts. */
function cpu(group: GroupName, ours: string, theirs: string, ...parts: Part[]): Aim['of'] {
  return within(group, ours, theirs, (a, b) => cpuUs(a, ...parts) / cpuUs(b, ...parts));
}

function ratio(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a / b;
}

/** What bare uWebSockets.js takes per visit on the machine and in the hour for which the aims below were set. */
const BARE_US = 12.5;

/** Microseconds of CPU per operation as they would have been in that hour. */
function scaled(group: GroupName, name: string, part: Part): Aim['of'] {
  return within(group, name, 'bare', (a, b) => (cpuUs(a, part) * BARE_US) / cpuUs(b, 'server'));
}

const BOTH = ['server', 'redis'] as const;

const AIMS: readonly Aim[] = [
  {
    title: 'visit: CPU of server and Redis against the floor',
    reach: { atMost: 1.1 },
    of: cpu('visits', 'visit', 'floor', ...BOTH),
  },
  {
    title: "visit: server's CPU against bare uWebSockets.js",
    reach: { atMost: 1.75 },
    of: cpu('visits', 'visit', 'bare', 'server'),
  },
  {
    title: 'visit: requests/s against webdis HINCRBY',
    reach: { atLeast: 0.9 },
    of: within('visits', 'visit', 'webdis-hincrby', rates),
  },
  {
    title: 'visit: requests/s against Fastify with ioredis',
    reach: { atLeast: 2 },
    of: within('visits', 'visit', 'fastify', rates),
  },
  {
    title: "visit log: Redis's CPU, on against off",
    reach: { atMost: 1.15 },
    of: cpu('visits', 'visit', 'visit-unlogged', 'redis'),
  },
  {
    title: "visit log: server's CPU, on against off",
    reach: { atMost: 1.05 },
    of: cpu('visits', 'visit', 'visit-unlogged', 'server'),
  },
  {
    title: 'visit log: bytes of a visit that waits',
    reach: { atMost: 70 },
    of: ({ visitLog }) => visitLog?.waitingBytes,
  },
  {
    title: 'visit log: visits flushed per second',
    reach: { atLeast: 400_000 },
    of: ({ visitLog }) => visitLog?.flushed,
  },
  {
    title: 'visit log: bytes of a visit on disk, merged',
    reach: { atMost: 12 },
    of: ({ visitLog }) => visitLog?.diskMerged.bytesPerRow,
  },
  {
    title: "read: CPU against a visit's",
    reach: { atMost: 0.8 },
    of: cpu('visits', 'read', 'visit', ...BOTH),
  },
  {
    title: 'read: requests/s against webdis HGET',
    reach: { atLeast: 0.95 },
    of: within('visits', 'read', 'webdis-hget', rates),
  },
  {
    title: "event: CPU of server and Redis against a visit's",
    reach: { atMost: 1.35 },
    of: cpu('wishlist', 'event', 'visit', ...BOTH),
  },
  {
    title: "/item/add: server's CPU, scaled by bare's drift",
    unit: 'µs',
    reach: { atMost: 60 },
    of: scaled('wishlist', 'item-add', 'server'),
  },
  {
    title: "/item/add: Redis's CPU, scaled by bare's drift",
    unit: 'µs',
    reach: { atMost: 20 },
    of: scaled('wishlist', 'item-add', 'redis'),
  },
  {
    title: "visits in batches of 100: visits per CPU second against single visits'",
    reach: { atLeast: 5 },
    of: within('relays', 'visit-batch', 'visit', (a, b) => cpuUs(b, ...BOTH) / cpuUs(a, ...BOTH)),
  },
  ...([400, 401, 413] as const).map((status) => ({
    title: `a flood of ${status}s: CPU per request against a visit's`,
    reach: { atMost: 1 },
    of: cpu('relays', `flood-${status}`, 'visit', ...BOTH),
  })),
  {
    title: "visit on a cluster of 3 masters: all Redis's CPU against one server's",
    reach: { atMost: 1.15 },
    of: cpu('scale', 'visit-cluster', 'visit', 'redis'),
  },
  {
    title: 'the same at 512 connections',
    reach: { atMost: 1.15 },
    of: cpu('scale', 'visit-cluster-busy', 'visit-busy', 'redis'),
  },
  {
    title: 'p99 at half peak against bare uWebSockets.js at that rate',
    reach: { atMost: 2 },
    of: ({ latency }) =>
      latency && medianOf([latency.runs.visit, latency.runs.bare], (ours, bare) => ours.p99Ms / bare.p99Ms),
  },
  {
    title: 'flusher against direct insert of the same bytes',
    reach: { atLeast: 0.85 },
    of: ({ flusher }) => ratio(flusher?.flushed, flusher?.direct),
  },
  {
    title: 'flusher',
    unit: 'rows/s',
    reach: { atLeast: 150_000 },
    of: ({ flusher }) => flusher?.flushed,
  },
  {
    title: 'Redis per identity',
    unit: 'B',
    reach: { atMost: 71 },
    of: ({ growth }) => growth?.bytesPerIdentity,
  },
  {
    title: 'Redis per visitor with one product',
    unit: 'B',
    reach: { atMost: 121 },
    of: ({ growth }) => growth?.bytesPerVisitor,
  },
  {
    title: 'Redis per pending event beyond its own line',
    unit: 'B',
    reach: { atMost: 18 },
    of: ({ flusher }) => flusher?.redisBytesBeyondLine,
  },
  {
    title: 'visits with 10 million visitors against 10 thousand',
    reach: { atLeast: 0.85 },
    of: ({ growth: { cases } = {} }) =>
      compare(cases?.['10,000,000 visitors'], cases?.['10,000 visitors'], rates),
  },
  {
    title: "Redis's longest pause while a shop is erased",
    unit: 'ms',
    reach: { atMost: 5 },
    of: ({ rights }) => rights?.shop.pauseMs,
  },
  {
    title: "Redis's longest pause while guests who were not seen for long go",
    unit: 'ms',
    reach: { atMost: 5 },
    of: ({ rights }) => rights?.sweep.pauseMs,
  },
  {
    title: 'compliance webhook, longest answer under load',
    unit: 'ms',
    reach: { atMost: 1_000 },
    of: ({ rights }) => rights?.webhooks.longestMs,
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
  readonly isDisturbed: boolean;
  readonly reach: string;
  readonly reached: boolean;
}

/** Every figure whose parts were measured. */
export function measuredFigures(results: Results): Measured[] {
  return AIMS.flatMap(({ title, reach, unit, of }) => {
    const found = of(results);
    if (found === undefined) return [];
    const { value, isDisturbed } = typeof found === 'number' ? { value: found, isDisturbed: false } : found;
    const [sign, bound] = 'atLeast' in reach ? ['≥', reach.atLeast] : ['≤', reach.atMost];
    const reached = 'atLeast' in reach ? value >= bound : value <= bound;
    return [{ title, value: show(value, unit), isDisturbed, reach: `${sign} ${show(bound, unit)}`, reached }];
  });
}

function show(value: number, unit: string | undefined): string {
  if (unit === undefined) return value.toFixed(2);
  const digits = value < 1_000 && !Number.isInteger(value) ? 1 : 0;
  return `${value.toLocaleString('en', { maximumFractionDigits: digits })} ${unit}`;
}
