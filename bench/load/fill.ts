// Fills Redis for measurements with millions of visitors or events: visits over HTTP, in batches; events by the
// service's own recorder, without HTTP.

import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { readConfig } from '../../src/config.js';
import { appendFormat } from '../../src/events/appender.js';
import { encodeEvent } from '../../src/events/row.js';
import { createProfileIds } from '../../src/identity/profile-id.js';
import { identityName } from '../../src/identity-rules.js';
import { Store } from '../../src/redis/store.js';
import type { EventBody } from '../traffic/events.js';
import { deleteVisit, postVisit, postVisitBatch, type Visit } from '../traffic/requests.js';
import { Connection } from './connection.js';

const VISITS_PER_BATCH = 500;
const BATCHES_AT_ONCE = 6;
const RESETS_AT_ONCE = 64;
const VISITS_AT_ONCE = 64;
const MOST_TIMES = 50;
const AGAIN_MS = 100;
/** Operations under way at once: as many as a busy server has. */
const EVENTS_AT_ONCE = 64;
/** Events are spread over a day, as those of a shop are. */
const DAY_BEGINS = Date.UTC(2026, 0, 15);
const DAY_MS = 86_400_000;

/** Counts visits over HTTP, in batches. A batch whose answer came too late is sent again and may count twice. */
export async function fillVisits(port: number, visits: Iterable<Visit>): Promise<void> {
  const batches = function* () {
    let batch: Visit[] = [];
    for (const visit of visits) {
      if (batch.push(visit) < VISITS_PER_BATCH) continue;
      yield postVisitBatch(batch);
      batch = [];
    }
    if (batch.length > 0) yield postVisitBatch(batch);
  };
  await sendAll(port, BATCHES_AT_ONCE, batches());
}

/** Counts visits, one per request, with the concurrency of a busy server: entries of the log are as large as there. */
export async function sendVisits(port: number, visits: Iterable<Visit>): Promise<void> {
  await sendAll(
    port,
    VISITS_AT_ONCE,
    each(visits, (visit) => postVisit(visit)),
  );
}

/** Sends finished requests with the concurrency of a busy server. */
export async function sendRequests(port: number, requests: Iterable<string>): Promise<void> {
  await sendAll(port, VISITS_AT_ONCE, requests[Symbol.iterator]());
}

/** Resets visits over HTTP: counts are gone, and the visitors stay known. */
export async function resetVisits(port: number, visits: Iterable<Visit>): Promise<void> {
  await sendAll(port, RESETS_AT_ONCE, each(visits, deleteVisit));
}

function* each<T>(values: Iterable<T>, make: (value: T) => string): Generator<string> {
  for (const value of values) yield make(value);
}

/** Each connection sends a request until it succeeds, and then its next one. */
async function sendAll(port: number, connections: number, requests: Iterator<string>): Promise<void> {
  const send = async () => {
    let settled = (_ok: boolean) => {};
    const connection = await Connection.open(port, (_connection, _intended, ok) => settled(ok));
    for (let { done, value } = requests.next(); !done; { done, value } = requests.next()) {
      const request = Buffer.from(value as string);
      const isDone = () =>
        new Promise<boolean>((resolve) => {
          settled = (ok) => resolve(ok && !connection.answer.includes('"error"'));
          connection.send(request, 0);
        });
      for (let times = 1; !(await isDone()); times++) {
        if (times === MOST_TIMES) throw new Error(`Redis can't be filled: ${connection.answer}`);
        await sleep(AGAIN_MS);
      }
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: connections }, send));
}

/** Records events, which come in batches as those of 64 connections do. */
export async function fillEvents(
  redisUrl: string,
  events: Iterable<EventBody>,
  count: number,
): Promise<void> {
  await withStore(redisUrl, async (store) => {
    const batcher = store.batcher(appendFormat(store, Number.MAX_SAFE_INTEGER));
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
      await batcher.run({ line, profileId });
    });
    await batcher.close();
  });
}

async function withStore(redisUrl: string, use: (store: Store) => Promise<void>): Promise<void> {
  const { KEY_PREFIX } = readConfig({});
  const store = await Store.open({
    urls: [redisUrl],
    name: 'wishmeter bench',
    timeoutMs: 30_000, // a fork of a big Redis takes its time
    keyPrefix: KEY_PREFIX,
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
