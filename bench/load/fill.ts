// Fills a Redis without HTTP, by the service's own code: the ledger for visitors, the recorder for events. For what
// takes a million of something.

import { v7 as uuidv7 } from 'uuid';
import { readConfig } from '../../src/config.js';
import { appendFormat } from '../../src/events/appender.js';
import { Recorder } from '../../src/events/recorder.js';
import { encodeEvent } from '../../src/events/row.js';
import { createProfileIds } from '../../src/identity/profile-id.js';
import { identityName } from '../../src/identity/rules.js';
import { Store } from '../../src/redis/store.js';
import { type EntryKind, Ledger } from '../../src/visits/ledger.js';
import type { EventBody } from '../traffic/events.js';
import { type Visit, visitsOf } from '../traffic/requests.js';

/** Operations under way at once: as many as a busy server has. */
const VISITS_AT_ONCE = 2_000;
const EVENTS_AT_ONCE = 64;
/** Events are spread over a day, as those of a shop are. */
const DAY_BEGINS = Date.UTC(2026, 0, 15);
const DAY_MS = 86_400_000;

/** Enters one visit of each visitor from 0 up to `visitors`: its identity alone (`resolve`), or counted (`visit`). */
export async function fillVisits(
  redisUrl: string,
  visitors: number,
  kind: Extract<EntryKind, 'resolve' | 'visit'>,
): Promise<void> {
  await withStore(redisUrl, async (store) => {
    const ledger = new Ledger(store, () => {});
    const profileIds = createProfileIds(store.deployment.salt, store.deployment.buckets);
    const enter = async ({ sessionId, productHandle }: Visit) => {
      const name = identityName('s', sessionId);
      await ledger.enter({ kind, name, profileId: profileIds.of(name), own: true, handle: productHandle });
    };
    const visits = visitsOf(numbers(visitors));
    await inParallel(visits, VISITS_AT_ONCE, enter);
    await ledger.close();
  });
}

/** Records events, which come in batches as those of 64 connections do. */
export async function fillEvents(
  redisUrl: string,
  events: Iterable<EventBody>,
  count: number,
): Promise<void> {
  await withStore(redisUrl, async (store) => {
    const batcher = store.batcher(appendFormat(store.keys, Number.MAX_SAFE_INTEGER));
    const recorder = new Recorder(batcher, undefined, 1);
    const profileIds = createProfileIds(store.deployment.salt, store.deployment.buckets);
    let n = 0;
    await inParallel(events, EVENTS_AT_ONCE, async ({ identity, type, payload }) => {
      const { customerId, sessionId } = identity;
      const name = customerId === null ? identityName('s', sessionId) : identityName('c', customerId);
      const at = DAY_BEGINS + Math.floor((n++ / count) * DAY_MS);
      const profileId = profileIds.of(name);
      const line = encodeEvent({
        ...{ type, origin: 'event', profileId, payload, id: uuidv7({ msecs: at }), at },
        identity: { ...identity, email: null, firstName: null, lastName: null },
      });
      await recorder.append(line, profileId);
    });
    await batcher.close();
  });
}

async function withStore(redisUrl: string, use: (store: Store) => Promise<void>): Promise<void> {
  const { KEY_PREFIX, BUCKETS, EVENT_SHARDS } = readConfig({});
  const store = await Store.open({
    urls: [redisUrl],
    name: 'wishmeter bench',
    timeoutMs: 30_000, // a fork of a big Redis takes its time
    keyPrefix: KEY_PREFIX,
    buckets: BUCKETS,
    eventShards: EVENT_SHARDS,
    onError: () => {},
  });
  try {
    await use(store);
  } finally {
    store.close();
  }
}

async function inParallel<T>(
  all: Iterable<T>,
  atOnce: number,
  act: (one: T) => Promise<void>,
): Promise<void> {
  const iterator = all[Symbol.iterator]();
  const work = async () => {
    for (let { done, value } = iterator.next(); !done; { done, value } = iterator.next()) await act(value);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

function* numbers(count: number): Generator<number> {
  for (let n = 0; n < count; n++) yield n;
}
