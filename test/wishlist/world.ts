// Servers without HTTP, so that a test can end one in the middle of a request: after some step towards Redis it
// has no Redis any more, and nobody knows whether the last step arrived.

import type { Test } from 'tap';
import { ServiceError } from '../../src/errors.js';
import { appendFormat } from '../../src/events/appender.js';
import { Recorder } from '../../src/events/recorder.js';
import { type IdentityParts, openIdentity } from '../../src/identity/open.js';
import type { Identity } from '../../src/identity/rules.js';
import { Store } from '../../src/redis/store.js';
import { Ledger } from '../../src/visits/ledger.js';
import type { ItemContent } from '../../src/wishlist/item.js';
import { Items } from '../../src/wishlist/items.js';
import { Outbox } from '../../src/wishlist/outbox.js';
import { Purchases } from '../../src/wishlist/purchases.js';
import { Shares } from '../../src/wishlist/shares.js';
import { type Row, rowsOf } from '../harness/stream.js';

export interface Server extends IdentityParts {
  readonly store: Store;
  readonly items: Items;
  readonly shares: Shares;
  readonly purchases: Purchases;
  /** Steps from now until Redis is gone; the last one is done where `lastIsDone`, and its answer lost. */
  crashAfter(steps: number, lastIsDone: boolean): void;
  /** Redis is back. @returns whether it was ever gone */
  recover(): boolean;
  /** From now on each script is called twice, as a client of a cluster may after a lost connection. */
  sendTwice(): void;
  /** Called before each append to the stream. */
  onAppend: () => Promise<void>;
}

export interface Redis {
  readonly urls: readonly string[];
}

/** How long a pending event is taken for a request under way; short, so that tests need not wait. */
export const UNDER_WAY_MS = 15;

export async function startServer(
  t: Test,
  redis: Redis,
  keyPrefix: string,
  { highWater = 1e9, underWayMs = UNDER_WAY_MS } = {},
): Promise<Server> {
  const store = await Store.open({
    urls: redis.urls,
    name: 'wishlist test',
    timeoutMs: 5_000,
    keyPrefix,
    buckets: 16,
    eventShards: 1,
    onError: () => {},
  });
  let left = Number.POSITIVE_INFINITY;
  let lastIsDone = false;
  let wasGone = false;
  const step = async <T>(act: () => Promise<T>): Promise<T> => {
    if (left > 1) {
      left--;
      return act();
    }
    wasGone = true;
    if (left === 1 && lastIsDone) await act();
    left = 0;
    throw new ServiceError('unavailable');
  };
  const { run, call } = store;
  // `run` calls `call`; only what others call is a step of its own.
  let isInRun = false;
  let sendsTwice = false;
  store.run = (...args) =>
    step(() => {
      isInRun = true;
      const running = sendsTwice
        ? Promise.all([run.apply(store, args), run.apply(store, args)]).then(([, second]) => second)
        : run.apply(store, args);
      isInRun = false;
      return running;
    });
  store.call = (command) =>
    (isInRun ? call.call(store, command) : step(() => call.call(store, command))) as never;

  const ledger = new Ledger(store, () => {});
  const appends = store.batcher(appendFormat(store.keys, highWater));
  const recorder = new Recorder(appends, undefined, 1);
  const identity = openIdentity(store, ledger, recorder);
  const server: Server = {
    ...identity,
    store,
    onAppend: async () => {},
    crashAfter(steps, isDone) {
      [left, lastIsDone, wasGone] = [steps, isDone, false];
    },
    sendTwice() {
      sendsTwice = true;
    },
    recover() {
      left = Number.POSITIVE_INFINITY;
      return wasGone;
    },
    ...openParts(),
  };
  function openParts() {
    const append = recorder.append.bind(recorder);
    recorder.append = (...args) =>
      step(async () => {
        await server.onAppend();
        await append(...args);
      });
    const outbox = new Outbox(store, identity.atProfile, recorder, underWayMs);
    return {
      items: new Items(identity.atProfile, outbox),
      shares: new Shares(store, outbox, 'https://shop.example/'),
      purchases: new Purchases(store, outbox),
    };
  }
  t.teardown(async () => {
    await ledger.close();
    await appends.close();
    store.close();
  });
  return server;
}

export function identityOf(ids: { customerId?: string; sessionId?: string }): Identity {
  return {
    customerId: null,
    sessionId: null,
    device: null,
    locale: null,
    email: null,
    firstName: null,
    lastName: null,
    ...ids,
  };
}

export function contentOf(productId: string, quantity = 1): ItemContent {
  return {
    productId,
    variantId: null,
    productHandle: `p-${productId}`,
    productTitle: 'A product',
    variantTitle: null,
    image: 'https://cdn.example/p.png',
    price: '1.00',
    compareAt: null,
    inventoryAvailable: true,
    quantity,
    source: 'pdp',
  };
}

/** The events in the stream as ClickHouse would show them: each id once. A repeat must be the same to the byte. */
export async function shownEvents(redis: Redis, prefix: string): Promise<Row[]> {
  const shown = new Map<unknown, Row>();
  for (const row of await rowsOf(redis, { prefix })) {
    if (row['origin'] === 'merge') continue;
    const before = shown.get(row['event_id']);
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(row)) {
      throw new Error(`two rows of one id: ${JSON.stringify([before, row])}`);
    }
    shown.set(row['event_id'], row);
  }
  return [...shown.values()];
}
