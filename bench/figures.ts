// The figures to be reached, as data: how each is computed from the results, and its bound.

import type { GroupName } from './cases.js';
import type { Results } from './results.js';
import type { CaseResult } from './sections/slices.js';
import type { Part } from './servers/target.js';
import { cpuUs, type Figure, medianOf, type Slice } from './slice.js';

export interface Aim {
  readonly title: string;
  readonly reach: { readonly atLeast: number } | { readonly atMost: number };
  readonly unit: string | undefined;
  /** undefined where a part of it was not measured. */
  readonly of: (results: Results) => Figure | number | undefined;
}

/** Computed slice by slice from two cases. */
function compare(
  ours: CaseResult | undefined,
  theirs: CaseResult | undefined,
  figure: (ours: Slice, theirs: Slice) => number,
): Figure | undefined {
  return ours && theirs && medianOf([ours.slices, theirs.slices], figure);
}

/** The same for two cases of a group. */
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

/** A figure with a lower bound. */
const atLeast = (bound: number, title: string, of: Aim['of'], unit?: string): Aim => ({
  title,
  reach: { atLeast: bound },
  of,
  unit,
});

/** A figure with an upper bound. */
const atMost = (bound: number, title: string, of: Aim['of'], unit?: string): Aim => ({
  title,
  reach: { atMost: bound },
  of,
  unit,
});

const AIMS: readonly Aim[] = [
  atMost(1.1, 'visit: CPU of server and Redis against the floor', cpu('visits', 'visit', 'floor', ...BOTH)),
  atMost(1.75, "visit: server's CPU against bare uWebSockets.js", cpu('visits', 'visit', 'bare', 'server')),
  atLeast(
    0.9,
    'visit: requests/s against webdis HINCRBY',
    within('visits', 'visit', 'webdis-hincrby', rates),
  ),
  atLeast(2, 'visit: requests/s against Fastify with ioredis', within('visits', 'visit', 'fastify', rates)),
  atMost(1.15, "visit log: Redis's CPU, on against off", cpu('visits', 'visit', 'visit-unlogged', 'redis')),
  atMost(1.05, "visit log: server's CPU, on against off", cpu('visits', 'visit', 'visit-unlogged', 'server')),
  atMost(70, 'visit log: bytes of a visit that waits', ({ visitLog }) => visitLog?.waitingBytes),
  atLeast(400_000, 'visit log: visits flushed per second', ({ visitLog }) => visitLog?.flushed),
  atMost(
    12,
    'visit log: bytes of a visit on disk, merged',
    ({ visitLog }) => visitLog?.diskMerged.bytesPerRow,
  ),
  atMost(0.8, "read: CPU against a visit's", cpu('visits', 'read', 'visit', ...BOTH)),
  atLeast(0.95, 'read: requests/s against webdis HGET', within('visits', 'read', 'webdis-hget', rates)),
  atMost(
    1.35,
    "event: CPU of server and Redis against a visit's",
    cpu('wishlist', 'event', 'visit', ...BOTH),
  ),
  atMost(
    60,
    "/item/add: server's CPU, scaled by bare's drift",
    scaled('wishlist', 'item-add', 'server'),
    'µs',
  ),
  atMost(20, "/item/add: Redis's CPU, scaled by bare's drift", scaled('wishlist', 'item-add', 'redis'), 'µs'),
  atLeast(
    5,
    "visits in batches of 100: visits per CPU second against single visits'",
    within('relays', 'visit-batch', 'visit', (a, b) => cpuUs(b, ...BOTH) / cpuUs(a, ...BOTH)),
  ),
  ...([400, 401, 413] as const).map((status) =>
    atMost(
      1,
      `a flood of ${status}s: CPU per request against a visit's`,
      cpu('relays', `flood-${status}`, 'visit', ...BOTH),
    ),
  ),
  atMost(
    1.15,
    "visit on a cluster of 3 masters: all Redis's CPU against one server's",
    cpu('scale', 'visit-cluster', 'visit', 'redis'),
  ),
  atMost(1.15, 'the same at 512 connections', cpu('scale', 'visit-cluster-busy', 'visit-busy', 'redis')),
  atMost(
    2,
    'p99 at half peak against bare uWebSockets.js at that rate',
    ({ latency }) =>
      latency && medianOf([latency.runs.visit, latency.runs.bare], (ours, bare) => ours.p99Ms / bare.p99Ms),
  ),
  atLeast(0.85, 'flusher against direct insert of the same bytes', ({ flusher }) =>
    ratio(flusher?.flushed, flusher?.direct),
  ),
  atLeast(150_000, 'flusher', ({ flusher }) => flusher?.flushed, 'rows/s'),
  atLeast(5_000, 'deliveries of one process', ({ deliveries }) => deliveries?.perSecond, '/s'),
  atMost(71, 'Redis per identity', ({ growth }) => growth?.bytesPerIdentity, 'B'),
  atMost(
    165,
    'Redis per visitor with one product, with its TTL',
    ({ growth }) => growth?.bytesPerVisitor,
    'B',
  ),
  atMost(
    18,
    'Redis per pending event beyond its own line',
    ({ flusher }) => flusher?.redisBytesBeyondLine,
    'B',
  ),
  atLeast(0.85, 'visits with 10 million visitors against 10 thousand', ({ growth: { cases } = {} }) =>
    compare(cases?.['10,000,000 visitors'], cases?.['10,000 visitors'], rates),
  ),
  atMost(
    5,
    "Redis's longest pause while a shop is erased",
    ({ rights }) => rights?.shop.meanwhile.pauseMs,
    'ms',
  ),
  atMost(
    1_000,
    'compliance webhook, longest answer under load',
    ({ rights }) => rights?.webhooks.longestMs,
    'ms',
  ),
  atMost(
    60,
    'ClickHouse disk per event, parts merged',
    ({ flusher }) => flusher?.diskMerged.bytesPerRow,
    'B',
  ),
  atMost(3_000, 'ready after start, installed, empty data folder', ({ start }) => start?.readyMs, 'ms'),
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
