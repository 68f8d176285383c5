// How an extra plugs into `serve`, and into `flush`, which is another process. The core imports no extra;
// src/extras/extras.ts and src/extras/flush-extras.ts list them.

import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Erasures } from '../clickhouse/erased-rows.js';
import type { Append } from '../events/appender.js';
import type { EventRecorder } from '../events/recorder.js';
import type { HandedOver } from '../flush/stream-flusher.js';
import type { Operation } from '../http/operation.js';
import type { OnFailed } from '../http/task-metrics.js';
import type { WebhookGate } from '../http/webhook.js';
import type { ItemIndex } from '../profiles/item-index.js';
import type { ProfileParts } from '../profiles/open.js';
import type { Batcher } from '../redis/batcher.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import type { RequestStore } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import type { VisitCounter } from '../visits/counter.js';
import type { WishlistParts } from '../wishlist/open.js';
import type { ShareOpens } from '../wishlist/share-opens.js';
import type { FlushConfig, ServeConfig } from './settings.js';

/** What tests set, in milliseconds and bytes. */
export interface Timing {
  readonly now?: () => number;
  readonly maxPendingBytes?: number;
  readonly bodyTimeoutMs?: number;
  /** An unanswered request of this age counts as interrupted. */
  readonly requestGraceMs?: number;
  readonly sweepMs?: number;
  readonly sweepGraceMs?: number;
}

/** The parts of the process that are open before the core is. `Own` has the settings that only extras have. */
export interface Host<Own = unknown> {
  readonly config: ServeConfig & Own;
  readonly log: Logger;
  readonly store: Store;
  readonly timing: Timing;
  /** '' if there is no ClickHouse. */
  readonly clickhouseUrl: () => string;
  readonly registry: Registry;
  readonly recorded: (type: string, events: number) => void;
  readonly batchObserver: (script: string) => (size: number, ms: number) => void;
  readonly webhooks: WebhookGate;
  /** @returns a function that counts and logs failures of this background task */
  readonly failuresOf: (task: string) => OnFailed;
  readonly onClose: (closer: () => Promise<void> | void) => void;
}

export interface Core<Own = unknown> extends Host<Own> {
  readonly appends: Batcher<Append, unknown>;
  /** @throws ServiceError `overloaded` */
  readonly appendOrder: (profileId: string, line: string) => Promise<void>;
  readonly requests: RequestStore;
  readonly identity: ProfileParts;
  readonly visitCounter: VisitCounter;
  readonly eventRecorder: EventRecorder;
  readonly wishlist: WishlistParts;
  readonly opens: ShareOpens;
  /** All extras' tags, see Extra. */
  readonly visitorTags: readonly string[];
}

export interface Plug {
  readonly operations?: readonly Operation[];
  /** Operations outside BASE_PATH; /openapi.json leaves them out. */
  readonly unprefixed?: readonly Operation[];
  /** Tags of the operations, with descriptions for /openapi.json. */
  readonly tags?: Readonly<Record<string, string>>;
  /** Outgoing webhooks, for /openapi.json. */
  readonly webhooks?: Readonly<Record<string, object>>;
  /** Links of the index page: paths below BASE_PATH, with their texts. */
  readonly links?: Readonly<Record<string, string>>;
  /** Registers metrics. @returns a function that reads them from Redis, at each scrape */
  readonly metrics?: (registry: Registry) => () => Promise<void>;
}

export type Extra<Own = unknown> = (host: Host<Own>) => {
  readonly itemIndex?: ItemIndex | undefined;
  /** Tags of keys about visitors: the erasure of a whole shop deletes `{<tag>:…}`. */
  readonly visitorTags?: readonly string[];
  plug(core: Core<Own>): Plug;
};

export interface FlushHost<Own = unknown> {
  readonly config: FlushConfig & Own;
  readonly log: Logger;
  readonly redis: RedisClient;
  readonly keys: Keys;
}

export interface HandOver {
  /** Gets a batch before the batch leaves its stream, and again after a crash. */
  handOver(...batch: HandedOver): Promise<void>;
  erase(erased: Erasures): Promise<void>;
}

/** If the hand-over to an extra fails, the stream waits. */
export type FlushExtra<Own = unknown> = (host: FlushHost<Own>) => HandOver;
