// A server under load, with its Redis and ClickHouse.

import type { Redis } from 'ioredis';

/** The processes whose CPU time is told apart. */
export type Part = 'server' | 'redis' | 'flusher' | 'clickhouse';

export interface Target {
  readonly port: number;
  readonly pids: Readonly<Partial<Record<Part, readonly number[]>>>;
  /** Connections to all masters, and to the first of them. The limit has no Redis. */
  readonly masters: readonly Redis[];
  readonly redis: Redis | undefined;
  /** Where events go, with the flusher running. */
  readonly clickhouseUrl: string | undefined;
  /** Stops everything and removes the folder. */
  stop(): Promise<void>;
}

export interface TargetSpec {
  readonly server: 'bare' | 'floor' | 'fastify' | 'webdis' | 'nginx' | 'wishmeter';
  /** A new folder, removed at the end. */
  readonly dir: string;
  /** wishmeter: with a ClickHouse and a flusher running. */
  readonly flushes?: boolean;
  /** wishmeter: masters of a Redis Cluster; without it one Redis. */
  readonly masters?: number;
  /** wishmeter: without the log of visits (VISIT_LOG). */
  readonly isUnlogged?: boolean;
  /** wishmeter: the tree that runs, if not this one. */
  readonly root?: URL | undefined;
}

export function pidsOf(
  ...processes: readonly ({ readonly pid: number | undefined } | undefined)[]
): number[] {
  return processes.flatMap((one) => one?.pid ?? []);
}
