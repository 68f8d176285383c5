// Metrics of Redis and of the streams, read at each scrape.

import { Gauge, type Registry } from 'prom-client';
import type { Backlog } from '../flush/backlog.js';
import type { MasterState } from '../redis/health.js';

export interface WatchedStreams {
  readonly kind: 'events' | 'visits';
  readonly highWater: number;
  /** By stream number. Throws if Redis does not answer. */
  read(): Promise<ReadonlyMap<number, Backlog>>;
}

const STATES = ['up', 'readonly', 'away'] as const;

export class BacklogMetrics {
  readonly #look: () => Promise<readonly MasterState[]>;
  readonly #countErasures: () => Promise<number>;
  readonly #erasures: Gauge;
  readonly #redisUp: Gauge;
  readonly #masters: Gauge<'state'>;
  readonly #streams: readonly StreamStats[];

  constructor(
    registry: Registry,
    streams: readonly WatchedStreams[],
    look: () => Promise<readonly MasterState[]>,
    countErasures: () => Promise<number>,
  ) {
    this.#look = look;
    this.#countErasures = countErasures;
    this.#erasures = new Gauge({
      name: 'wishmeter_pending_erasures',
      help: 'Profiles and identities erased from Redis and not yet from ClickHouse',
      registers: [registry],
    });
    this.#redisUp = new Gauge({
      name: 'wishmeter_redis_up',
      help: '1 if every master of Redis accepts a write, else 0',
      registers: [registry],
    });
    this.#masters = new Gauge({
      name: 'wishmeter_redis_masters',
      help: 'Masters of Redis: `up`, `readonly` (no writes, as at its maxmemory) or `away`; a single server is one master',
      registers: [registry],
      labelNames: ['state'] as const,
    });
    this.#streams = streams.map((one) => new StreamStats(registry, one));
  }

  /** If Redis does not answer, shows nothing instead of old values. */
  async refresh(): Promise<void> {
    const [backlogs, erasures, masters] = await Promise.all([
      Promise.all(this.#streams.map((streams) => streams.read())),
      this.#countErasures().catch(() => undefined),
      this.#look(),
    ]);
    // Synchronous: a concurrent scrape must not see half of it.
    for (const [i, streams] of this.#streams.entries()) streams.show(backlogs[i]);
    for (const state of STATES)
      this.#masters.set({ state }, masters.filter((one) => one.state === state).length);
    this.#redisUp.set(masters.length > 0 && masters.every(({ state }) => state === 'up') ? 1 : 0);
    if (erasures === undefined) this.#erasures.reset();
    else this.#erasures.set(erasures);
  }
}

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

class StreamStats {
  readonly #streams: WatchedStreams;
  readonly #stream: Readonly<Record<'events' | 'bytes' | 'oldest' | 'dead', Gauge<'stream'>>>;

  constructor(registry: Registry, streams: WatchedStreams) {
    this.#streams = streams;
    const { kind: rows, highWater } = streams;
    const { prefix, row, mark } = NAMES[rows];
    const registers = [registry];
    const gauge = (name: string, help: string) =>
      new Gauge({ name: `${prefix}_${name}`, help, registers, labelNames: ['stream'] as const });
    this.#stream = {
      events: gauge(`pending_${rows}`, `${rows === 'events' ? 'Events' : 'Visits'} waiting for ClickHouse`),
      bytes: gauge('pending_bytes', `Bytes of ${rows} waiting for ClickHouse`),
      oldest: gauge('oldest_pending_seconds', `Age of the oldest waiting ${row}: the lag of flush`),
      dead: gauge(
        'dead_letters',
        `${rows === 'events' ? 'Events' : 'Visits'} that ClickHouse refused, kept in Redis`,
      ),
    };
    new Gauge({
      name: `${prefix}_high_water_bytes`,
      help: mark,
      registers,
    }).set(highWater);
  }

  read(): Promise<ReadonlyMap<number, Backlog> | undefined> {
    return this.#streams.read().catch(() => undefined);
  }

  show(backlogs: ReadonlyMap<number, Backlog> = new Map()): void {
    for (const gauge of Object.values(this.#stream)) gauge.reset();
    for (const [stream, backlog] of backlogs) this.#show(String(stream), backlog);
  }

  #show(stream: string, { events, bytes, oldestMs, deadLetters }: Backlog): void {
    this.#stream.events.set({ stream }, events);
    this.#stream.bytes.set({ stream }, bytes);
    this.#stream.oldest.set({ stream }, oldestMs / 1000);
    this.#stream.dead.set({ stream }, deadLetters);
  }
}
