// A server under load and what stands behind it.

import type { Redis } from 'ioredis';

/** What takes part in answering, as far as CPU time is told apart. */
export type Part = 'server' | 'redis' | 'flusher' | 'clickhouse';

/** A process that listens. */
export interface Worker {
  readonly pid: number | undefined;
  readonly ready: { readonly port: number };
  stop(): Promise<void>;
}

export interface Target {
  readonly port: number;
  readonly pids: Readonly<Partial<Record<Part, readonly number[]>>>;
  /** A connection for looking at what is stored; of a cluster, to its first master. The limit has no Redis. */
  readonly redis?: Redis;
  /** Of a cluster, to all of them. */
  readonly masters?: readonly Redis[];
  /** Where events go, with the flusher running. */
  readonly clickhouseUrl?: string;
  /** Stops everything and removes the folder. */
  stop(): Promise<void>;
}

export interface TargetSpec {
  readonly server: 'bare' | 'floor' | 'fastify' | 'webdis' | 'wishmeter';
  /** A folder that is made, and removed at the end. */
  readonly dir: string;
  /** wishmeter: `serve` processes on one port. */
  readonly workers?: number;
  /** wishmeter: with a ClickHouse and a flusher running. */
  readonly flushes?: boolean;
  /** wishmeter: masters of a Redis Cluster; without it one Redis. */
  readonly masters?: number;
  /** wishmeter: replicas of Redis, which each answer waits for (REDIS_REPLICAS). */
  readonly replicas?: number;
  /** wishmeter: without the log of visits (VISIT_LOG). */
  readonly isUnlogged?: boolean;
  /** wishmeter: the tree that is run, where it is not this one. */
  readonly root?: URL;
  /** wishmeter: arguments of Node itself, for `serve`. */
  readonly nodeArgs?: readonly string[];
}

export function pidsOf(
  ...processes: readonly ({ readonly pid: number | undefined } | undefined)[]
): number[] {
  return processes.flatMap((one) => one?.pid ?? []);
}
