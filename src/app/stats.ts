// Composes `/metrics`: the metrics of this worker and its siblings, and metrics read from Redis.

import { Registry } from 'prom-client';
import { type Backlog, backlogMetrics } from '../http/backlog-metrics.js';
import { type ServeMetrics, showAll } from '../http/metrics.js';
import type { StreamKeys } from '../redis/keys.js';
import { streamsOf } from '../redis/node-markers.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { evictionMetrics } from './eviction.js';
import type { Plug } from './extra.js';
import type { ServeConfig } from './settings.js';

const BACKLOG =
  loadScript<[events: number, bytes: number, oldest: number, deadLetters: number]>('events/readBacklog');

export interface Siblings {
  readonly workers: number;
  /** The keys of the result are the workers' names. */
  gather<T>(read: () => Promise<T>): () => Promise<Readonly<Record<string, T>>>;
}

interface Sources {
  readonly store: Store;
  readonly config: ServeConfig;
  readonly metrics: ServeMetrics;
  readonly plugs: readonly Plug[];
  readonly siblings: Siblings | undefined;
}

export function openStats({ store, config, metrics, plugs, siblings }: Sources) {
  // Only the worker that is scraped shows the values of Redis, because they are the same for all workers.
  const ofRedis = new Registry();
  const readBacklog = async (keys: StreamKeys, stream: number): Promise<Backlog> => {
    const touched = [keys.events(stream), keys.eventsState(stream), keys.eventsDead(stream)];
    const [events, bytes, oldest, deadLetters] = await store.run(BACKLOG, touched, []);
    const now = store.now;
    return { events, bytes, oldestMs: oldest === 0 ? 0 : Math.max(now - oldest, 0), deadLetters };
  };
  const backlogsOf = async (keys: StreamKeys) => {
    const backlogs = new Map<number, Backlog>();
    const streams = await store.call((client) => streamsOf(client, store.keys));
    const read = async (stream: number) => {
      const backlog = await readBacklog(keys, stream);
      // A stream that no master appends to any more is shown until it is empty.
      if (store.ownStreams.has(stream) || backlog.events + backlog.deadLetters > 0)
        backlogs.set(stream, backlog);
    };
    // If a master doesn't answer, only its own stream is missing.
    await Promise.allSettled(streams.map(read));
    return backlogs;
  };
  const parts = [
    backlogMetrics(
      ofRedis,
      [
        { kind: 'events', highWater: config.STREAM_HIGH_WATER, read: () => backlogsOf(store.keys) },
        { kind: 'visits', highWater: config.VISIT_LOG_HIGH_WATER, read: () => backlogsOf(store.keys.visits) },
      ],
      () => store.check(),
      () => store.call((client) => client.hlen(store.keys.erasures)),
    ),
    evictionMetrics(ofRedis, store),
    ...plugs.flatMap((plug) => plug.metrics?.(ofRedis) ?? []),
  ];
  const gatherAll = siblings?.gather(() => metrics.registry.getMetricsAsJSON());
  const ofWorkers = async () => (gatherAll ? showAll(await gatherAll()) : metrics.registry.metrics());
  return async () => {
    await Promise.all(parts.map((refresh) => refresh()));
    return { type: ofRedis.contentType, body: (await ofWorkers()) + (await ofRedis.metrics()) };
  };
}
