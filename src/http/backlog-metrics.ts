// Metrics of Redis and of the streams, read at each scrape.

import { Gauge, type Registry } from 'prom-client';
import type { MasterState } from '../redis/health.js';

export interface Backlog {
  readonly events: number;
  readonly bytes: number;
  /** Age of the oldest entry; 0 if the stream is empty. */
  readonly oldestMs: number;
  readonly deadLetters: number;
}

export interface WatchedStreams {
  readonly kind: 'events' | 'visits';
  readonly highWater: number;
  read(): Promise<ReadonlyMap<number, Backlog>>;
}

const STATES: readonly MasterState['state'][] = ['up', 'too_few_replicas', 'readonly', 'away'];

const NAMES = {
  events: {
    prefix: 'wishmeter_stream',
    row: 'event',
    mark: 'STREAM_HIGH_WATER: pending bytes of a stream at which events get 503',
  },
  visits: {
    prefix: 'wishmeter_visit_stream',
    row: 'visit',
    mark: 'VISIT_LOG_HIGH_WATER: pending bytes of a stream beyond which visits are not logged',
  },
} as const;

/** @returns a function that reads the values and shows them; if Redis doesn't answer, it shows none */
export function backlogMetrics(
  registry: Registry,
  streams: readonly WatchedStreams[],
  look: () => Promise<readonly MasterState[]>,
  countErasures: () => Promise<number>,
): () => Promise<void> {
  const registers = [registry];
  const erasures = new Gauge({
    name: 'wishmeter_pending_erasures',
    help: 'Profiles and customers erased from Redis and not yet from ClickHouse',
    registers,
  });
  const redisUp = new Gauge({
    name: 'wishmeter_redis_up',
    help: '1 if every master of Redis accepts a write, else 0',
    registers,
  });
  const masters = new Gauge({
    name: 'wishmeter_redis_masters',
    help: 'Masters of Redis: `up`, `too_few_replicas` (no writes), `readonly` (no writes, as at its maxmemory) or `away`; a single server is one master',
    registers,
    labelNames: ['state'] as const,
  });
  const show = streams.map((one) => streamMetrics(registry, one));
  return async () => {
    const [backlogs, waiting, states] = await Promise.all([
      Promise.all(streams.map((one) => one.read().catch(() => new Map<number, Backlog>()))),
      countErasures().catch(() => undefined),
      look(),
    ]);
    // All values change synchronously, so that a concurrent scrape doesn't see only half of them.
    for (const [i, backlog] of backlogs.entries()) show[i]?.(backlog);
    for (const state of STATES) masters.set({ state }, states.filter((one) => one.state === state).length);
    redisUp.set(states.length > 0 && states.every(({ state }) => state === 'up') ? 1 : 0);
    if (waiting === undefined) erasures.reset();
    else erasures.set(waiting);
  };
}

function streamMetrics(registry: Registry, { kind: rows, highWater }: WatchedStreams) {
  const { prefix, row, mark } = NAMES[rows];
  const registers = [registry];
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `${prefix}_${name}`, help, registers, labelNames: ['stream'] as const });
  const plural = rows === 'events' ? 'Events' : 'Visits';
  const pending = gauge(`pending_${rows}`, `${plural} waiting for ClickHouse`);
  const bytes = gauge('pending_bytes', `Bytes of ${rows} waiting for ClickHouse`);
  const oldest = gauge('oldest_pending_seconds', `Age of the oldest waiting ${row}: the lag of flush`);
  const dead = gauge('dead_letters', `${plural} that ClickHouse refused, kept in Redis`);
  new Gauge({ name: `${prefix}_high_water_bytes`, help: mark, registers }).set(highWater);
  return (backlogs: ReadonlyMap<number, Backlog>): void => {
    for (const one of [pending, bytes, oldest, dead]) one.reset();
    for (const [number, backlog] of backlogs) {
      const stream = String(number);
      pending.set({ stream }, backlog.events);
      bytes.set({ stream }, backlog.bytes);
      oldest.set({ stream }, backlog.oldestMs / 1000);
      dead.set({ stream }, backlog.deadLetters);
    }
  };
}
