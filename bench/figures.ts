// The ratios to reach, as data: how each is computed from the results of one run, and its bound. All of them are ratios
// of two measurements of that run: absolute figures are the machine's.

import type { GroupName } from './cases.js';
import type { Results } from './results.js';
import type { Part } from './servers/target.js';
import { cpuUs, type Figure, medianOf, type Slice } from './slice.js';

type Ratio = (results: Results) => Figure | undefined;

export interface Goal {
  readonly title: string;
  readonly reach: { readonly atLeast: number } | { readonly atMost: number };
  /** undefined if a part of it was not measured. */
  readonly of: Ratio;
}

/** Compares two cases of a group slice by slice. */
function within(group: GroupName, a: string, b: string, figure: (a: Slice, b: Slice) => number): Ratio {
  return ({ groups }) => {
    const [ours, theirs] = [groups?.[group]?.[a], groups?.[group]?.[b]];
    return ours && theirs && medianOf([ours.slices, theirs.slices], figure);
  };
}

/** Requests per second. */
const rate = (a: string, b: string) =>
  within('visits', a, b, (ours, theirs) => ours.perSecond / theirs.perSecond);
const flushedRate = (peer: string) => rate('visit-flushed', peer);

/** CPU per operation, of these parts. */
const cpu = (group: GroupName, a: string, b: string, ...parts: readonly Part[]) =>
  within(group, a, b, (ours, theirs) => cpuUs(ours, ...parts) / cpuUs(theirs, ...parts));
const cost = (group: GroupName, a: string, b: string) => cpu(group, a, b, 'server', 'redis');

function plain(a: number | undefined, b: number | undefined): Figure | undefined {
  return a === undefined || b === undefined ? undefined : { value: a / b, isDisturbed: false };
}

const atLeast = (bound: number, title: string, of: Ratio): Goal => ({ title, reach: { atLeast: bound }, of });
const atMost = (bound: number, title: string, of: Ratio): Goal => ({ title, reach: { atMost: bound }, of });

export const GOALS = {
  floor: atMost(1.07, "visit: CPU of server and Redis / the floor's", cost('visits', 'visit', 'floor')),
  bare: atMost(1.75, "visit: server's CPU / bare uWebSockets.js", cpu('visits', 'visit', 'bare', 'server')),
  webdis: atLeast(0.95, 'visit, flusher running: requests/s / webdis HINCRBY', flushedRate('webdis-hincrby')),
  nginx: atLeast(1.3, 'visit, flusher running: requests/s / nginx with Lua', flushedRate('nginx-hincrby')),
  fastify: atLeast(1.8, 'visit, flusher running: requests/s / Fastify with ioredis', flushedRate('fastify')),
  read: atLeast(1.1, 'read: requests/s / webdis HGET', rate('read', 'webdis-hget')),
  event: atMost(1.4, "event: CPU of server and Redis / a visit's", cost('wishlist', 'event', 'visit')),
  itemAdd: atMost(
    2.5,
    "item/add: CPU of server and Redis / a visit's",
    cost('wishlist', 'item-add', 'visit'),
  ),
  batch: atMost(
    0.2,
    "visit in batches of 100: CPU of server and Redis / a single visit's",
    cost('wishlist', 'visit-batch', 'visit'),
  ),
  latency: atMost(
    3,
    'p99 at half of the peak / bare uWebSockets.js at that rate',
    ({ latency }) =>
      latency && medianOf([latency.runs.visit, latency.runs.bare], (ours, limit) => ours.p99Ms / limit.p99Ms),
  ),
  cluster: atMost(
    1.3,
    "cluster of 3 masters: all Redis's CPU / one Redis's",
    cpu('cluster', 'visit-cluster', 'visit', 'redis'),
  ),
  clusterBusy: atMost(
    1.15,
    'the same with 512 connections',
    cpu('cluster', 'cluster-busy', 'visit-busy', 'redis'),
  ),
  flusher: atLeast(0.85, 'flusher: rows/s / direct inserts of the same blocks', ({ flusher }) =>
    plain(flusher?.flushed, flusher?.direct),
  ),
  pending: atMost(1.04, 'Redis per pending event / bytes of its line', ({ flusher }) =>
    plain(flusher?.redisBytes, flusher?.lineBytes),
  ),
  growth: atLeast(0.8, 'requests/s with many guests / with few', ({ growth }) => {
    const { few, many } = growth?.cases ?? {};
    return few && many && medianOf([many.slices, few.slices], (a, b) => a.perSecond / b.perSecond);
  }),
  guest: atMost(1.22, 'Redis per guest with one product / a hash with one field', ({ growth }) =>
    plain(growth?.guestBytes, growth?.hashBytes),
  ),
} as const satisfies Readonly<Record<string, Goal>>;

export interface Measured {
  readonly title: string;
  readonly value: string;
  readonly isDisturbed: boolean;
  readonly reach: string;
  readonly reached: boolean;
}

/** Every ratio whose parts were measured. */
export function measuredFigures(results: Results): Measured[] {
  return Object.values<Goal>(GOALS).flatMap(({ title, reach, of }) => {
    const found = of(results);
    if (found === undefined) return [];
    const { value, isDisturbed } = found;
    const [sign, bound] = 'atLeast' in reach ? ['≥', reach.atLeast] : ['≤', reach.atMost];
    const reached = sign === '≥' ? value >= bound : value <= bound;
    return [{ title, value: value.toFixed(2), isDisturbed, reach: `${sign} ${bound.toFixed(2)}`, reached }];
  });
}
