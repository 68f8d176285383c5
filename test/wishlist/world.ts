// Servers without HTTP, so that a test can end one in the middle of a request: after some step towards Redis it
// has no Redis any more, and it is unknown whether the last step arrived.

import type { Test } from 'tap';
import { ServiceError } from '../../src/errors.js';
import { appendFormat } from '../../src/events/appender.js';
import { recordingFormat } from '../../src/events/recording.js';
import { type IdentityParts, openIdentity } from '../../src/identity/open.js';
import { RequestStore } from '../../src/redis/requests.js';
import { Store } from '../../src/redis/store.js';
import { visitFormat } from '../../src/visits/visit-batch.js';
import type { Items } from '../../src/wishlist/items.js';
import { openWishlist } from '../../src/wishlist/open.js';
import type { Purchases } from '../../src/wishlist/purchases.js';
import type { Shares } from '../../src/wishlist/shares.js';
import { type ItemLimits, WishlistBatch } from '../../src/wishlist/wishlist-batch.js';
import { type Row, rowsOf } from '../harness/stream.js';

export interface Server extends IdentityParts {
  readonly store: Store;
  readonly items: Items;
  readonly shares: Shares;
  readonly purchases: Purchases;
  readonly deliveries: RequestStore;
  readonly wishlists: WishlistBatch;
  /** Steps from now until Redis is gone; the last one is done where `lastIsDone`, and its answer lost. */
  crashAfter(steps: number, lastIsDone: boolean): void;
  /** Redis is back. @returns whether it was ever gone */
  recover(): boolean;
  /** From now on each script is called twice, as a client of a cluster may after a lost connection. */
  sendTwice(): void;
  /** Called before each change of a wishlist. */
  onChange: () => Promise<void>;
  /** Called before each append to a stream that is a step of its own: what analysts are told of a merge. */
  onAppend: () => Promise<void>;
}

export interface Redis {
  readonly urls: readonly string[];
}

export async function startServer(
  t: Test,
  redis: Redis,
  keyPrefix: string,
  { highWater = 1e9, limits = {} as Partial<ItemLimits>, guestsS = 0 } = {},
): Promise<Server> {
  const store = await Store.open({
    urls: redis.urls,
    name: 'wishlist test',
    timeoutMs: 5_000,
    keyPrefix,
    buckets: 16,
    guestsS,
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
    const isDone = left === 1 && lastIsDone;
    left = 0;
    if (isDone) await act();
    throw new ServiceError('unavailable');
  };
  let sendsTwice = false;
  const isStep = (method: Store['run']): Store['run'] => {
    const act = method.bind(store);
    return (...call) =>
      step(async () => {
        const [first, second] = [act(...call), sendsTwice ? act(...call) : undefined];
        return second === undefined ? first : (await Promise.all([first, second]))[1];
      });
  };
  const { call } = store;
  store.run = isStep(store.run);
  store.change = isStep(store.change);
  store.call = (command) => step(() => call.call(store, command)) as never;

  const visits = store.batcher(visitFormat(store.keys, 10_000, guestsS));
  const appends = store.batcher(appendFormat(store.keys, 'events', Number.MAX_SAFE_INTEGER));
  const append = appends.run.bind(appends);
  appends.run = (...args) =>
    step(async () => {
      await server.onAppend();
      return append(...args);
    });
  const recordings = store.batcher(recordingFormat(store, highWater));
  const record = recordings.run.bind(recordings);
  recordings.run = (...args) => step(() => record(...args));
  const wishlists = new WishlistBatch(store, { highWater, ...limits });
  const make = wishlists.make.bind(wishlists);
  wishlists.make = (...args) =>
    step(async () => {
      await server.onChange();
      return make(...args);
    });
  const identity = openIdentity(store, visits, recordings, appends, wishlists, 10_000);
  const server: Server = {
    ...identity,
    ...openWishlist(store, identity.atProfile, identity.changes, 'https://shop.example', 'w'),
    store,
    // A try that ended is taken over after a moment.
    deliveries: new RequestStore(store, undefined, 20),
    wishlists,
    onChange: async () => {},
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
  };
  t.teardown(async () => {
    await visits.close();
    await appends.close();
    await recordings.close();
    await wishlists.close();
    store.close();
  });
  return server;
}

/** The events in the stream as ClickHouse would show them: each id once. A repeat must be the same to the byte. */
export async function shownEvents(redis: Redis, prefix: string): Promise<Row[]> {
  return (await rowsById(redis, prefix)).filter(({ origin }) => origin !== 'merge');
}

/** What analysts are told of merges: profile -> heir, one for each event id. */
export async function shownMerges(redis: Redis, prefix: string): Promise<[from: string, heir: string][]> {
  const rows = (await rowsById(redis, prefix)).filter(({ origin }) => origin === 'merge');
  return rows.map((row) => [String(row['profile_id']), JSON.parse(String(row['payload'])).into]);
}

async function rowsById(redis: Redis, prefix: string): Promise<Row[]> {
  const shown = new Map<unknown, Row>();
  for (const row of await rowsOf(redis, { prefix })) {
    const before = shown.get(row['event_id']);
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(row)) {
      throw new Error(`two rows of one id: ${JSON.stringify([before, row])}`);
    }
    shown.set(row['event_id'], row);
  }
  return [...shown.values()];
}
