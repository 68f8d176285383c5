// What an extra plugs into `serve`. The core imports no extra; src/extras/extras.ts lists them.

import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Append } from '../events/appender.js';
import type { Operation } from '../http/operation.js';
import type { Task } from '../http/task-metrics.js';
import type { IdentityParts } from '../profiles/open.js';
import type { Batcher } from '../redis/batcher.js';
import type { RequestStore } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import type { ItemIndex } from '../wishlist/item-index.js';
import type { WishlistParts } from '../wishlist/open.js';
import type { ShareOpens } from '../wishlist/share-opens.js';
import type { WishlistBatch } from '../wishlist/wishlist-batch.js';
import type { ServeConfig } from './settings.js';

/** Time, as tests set it. */
export interface Timing {
  /** Milliseconds: the clock of the rate limits of a worker alone, of the age of `/metrics` and of the log of outages. */
  readonly now?: () => number;
  /** Milliseconds within which a body must be complete. */
  readonly bodyTimeoutMs?: number;
  /** Milliseconds for which a repeat takes a request without an answer to be under way. */
  readonly requestGraceMs?: number;
  /** Milliseconds between looks at open compliance requests. */
  readonly compliancePollMs?: number;
  /** Milliseconds between sweeps, and for which what may be on its way is left. */
  readonly sweepMs?: number;
  readonly sweepGraceMs?: number;
  /** Milliseconds between looks at products that a process has left half done. */
  readonly productLookMs?: number;
}

/** The process, before the core is open. */
export interface Host {
  readonly config: ServeConfig;
  readonly log: Logger;
  readonly store: Store;
  readonly timing: Timing;
  /** Where ClickHouse is now; empty if there is none. */
  readonly clickhouseUrl: () => string;
  /** Metrics of this worker. */
  readonly registry: Registry;
  /** Counts events written to a stream, by type. */
  readonly recorded: (type: string, events: number) => void;
  /** For `Store.batcher`. */
  readonly batchObserver: (script: string) => (size: number, ms: number) => void;
  /** Counts and logs a failure of work in the background. */
  readonly onFailed: (task: Task, error: Error) => void;
  /** Closers run in reverse order. */
  readonly onClose: (closer: () => Promise<void> | void) => void;
}

/** The core's services. */
export interface Core extends Host {
  readonly appends: Batcher<Append, unknown>;
  readonly wishlists: WishlistBatch;
  readonly requests: RequestStore;
  readonly identity: IdentityParts;
  readonly wishlist: WishlistParts;
  readonly opens: ShareOpens;
}

export interface Plug {
  readonly operations?: readonly Operation[];
  /** Operations outside BASE_PATH; /openapi.json leaves them out. */
  readonly unprefixed?: readonly Operation[];
  /** `webhooks` of /openapi.json. */
  readonly webhooks?: Readonly<Record<string, object>>;
  /** Registers metrics that are read from Redis at each scrape. */
  readonly metrics?: (registry: Registry) => { refresh(): Promise<void> };
}

export type Extra = (host: Host) => {
  /** The core keeps it up to date. At most one extra has one. */
  readonly itemIndex?: ItemIndex | undefined;
  plug(core: Core): Plug;
};
