// The manifest of a batch: which entries it is made of and under which token they go to ClickHouse. It is in Redis
// before the batch is used, so the flusher that comes after a crash sends the same bytes under the same token, and
// knows that they may have been sent before.

import { randomUUID } from 'node:crypto';

/** Consecutive entries at the head of a stream. */
export interface Range {
  /** Ids of the first and the last entry. */
  readonly first: string;
  readonly last: string;
  readonly rows: number;
  /** Bytes of lines. */
  readonly bytes: number;
}

export interface Manifest extends Range {
  /** ClickHouse's insert_deduplication_token; random, so that no two batches ever share one. */
  readonly token: string;
}

export function manifestOf({ first, last, rows, bytes }: Range): Manifest {
  return { first, last, rows, bytes, token: randomUUID() };
}

export const encodeManifest = (manifest: Manifest): string => JSON.stringify(manifest);
export const decodeManifest = (text: string): Manifest => JSON.parse(text) as Manifest;
