// Compares the books with the service's answers, Redis and ClickHouse: each acknowledged event is there once,
// the count of visits lies between acknowledged and sent, and each identity reaches its own profile. Each
// check returns its faults in words.

import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster } from 'ioredis';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { type Answer, ask } from '../harness/client.js';
import { openRedis } from '../harness/redis.js';
import type { Entry } from './load.js';
import { type ExpectedProfile, HANDLES, type Identity } from './logins.js';

export interface Places {
  readonly url: string;
  readonly key: string;
  /** As REDIS_URL: several addresses, separated by commas, are a cluster. */
  readonly redisUrl: string;
  readonly clickhouseUrl: string;
}

export interface Book {
  readonly events: ReadonlyMap<string, Entry>;
  readonly visits: ReadonlyMap<string, Entry>;
  readonly faults: readonly string[];
}

const DRAIN_MS = 60_000;
/** All faults are over when this begins: an identity without an answer within this time is locked out. */
const LOCKED_OUT_MS = 10_000;
const READERS = 16;
const MOST_REPORTED = 50;

type Ask = (method: 'GET' | 'POST', path: string, body?: object) => Promise<Answer['json']>;

const visitsPath = (identity: Readonly<Record<string, string>>, productHandle: string) =>
  `/product/visit?${new URLSearchParams({ ...identity, productHandle })}`;

/** Asks a service, and repeats a failed request for a while. @throws with the last status */
function asker({ url, key }: Pick<Places, 'url' | 'key'>): Ask {
  const port = Number(new URL(url).port);
  const headers = { 'x-api-key': key, 'content-type': 'application/json' };
  return async (method, path, body) => {
    const deadline = performance.now() + LOCKED_OUT_MS;
    for (;;) {
      const answer = await ask(port, method, path, { body, headers }).catch(() => undefined);
      if (answer?.status === 200) return answer.json;
      if (performance.now() > deadline) throw new Error(`${answer?.status ?? 'no answer'}: ${answer?.text}`);
      await sleep(100);
    }
  };
}

/** A list of faults with an upper bound, because one mistake may cause thousands. */
function faultList() {
  const wrong: string[] = [];
  return { wrong, report: (what: string) => wrong.length < MOST_REPORTED && wrong.push(what) };
}

async function each<T>(
  all: readonly T[],
  job: (one: T) => Promise<void>,
  failed: (one: T, error: Error) => void,
): Promise<void> {
  const left = [...all];
  const reader = async () => {
    for (let one = left.pop(); one !== undefined; one = left.pop())
      await job(one).catch((error) => failed(one, error));
  };
  await Promise.all(Array.from({ length: READERS }, reader));
}

async function rowsOf<Row>(clickhouseUrl: string, query: string): Promise<Row[]> {
  const clickhouse = createClickHouse(clickhouseUrl, 'wishmeter');
  try {
    return await (await clickhouse.query({ query, format: 'JSONCompactEachRow' })).json<Row>();
  } finally {
    await clickhouse.close();
  }
}

/** Call it after the loads have stopped. */
export async function reconcile(loads: readonly Book[], places: Places): Promise<string[]> {
  const { wrong, report } = faultList();
  for (const what of await untilDrained(places)) report(what);

  const sent = new Map(loads.flatMap(({ events }) => [...events]));
  const shown = new Map(
    await rowsOf<[id: string, count: number]>(
      places.clickhouseUrl,
      "SELECT if(type = 'remove', 'r', '') || product_id AS id, toUInt32(count()) FROM events GROUP BY id",
    ),
  );
  for (const [id, count] of shown) {
    if (!sent.has(id)) report(`event ${id} is there, and was not sent`);
    else if (count !== 1) report(`event ${id} is there ${count} times`);
  }
  for (const [id, { acknowledged }] of sent)
    if (acknowledged > 0 && !shown.has(id)) report(`event ${id} was acknowledged and is lost`);
  return [...loads.flatMap(({ faults }) => faults), ...wrong, ...(await reconcileVisits(loads, places))];
}

export async function reconcileVisits(
  loads: readonly Pick<Book, 'visits'>[],
  service: Pick<Places, 'url' | 'key'>,
): Promise<string[]> {
  const { wrong, report } = faultList();
  const ask = asker(service);
  const check = async ([key, { sent, acknowledged }]: readonly [string, Entry]) => {
    const [sessionId = '', productHandle = ''] = key.split(' ');
    const { count } = await ask('GET', visitsPath({ sessionId }, productHandle));
    if (!(count >= acknowledged && count <= sent))
      report(`${key}: ${count} visits counted, ${acknowledged} acknowledged, ${sent} sent`);
  };
  const entries = loads.flatMap((load) => [...load.visits]);
  await each(entries, check, ([key], { message }) => report(`${key}: its visits can't be read: ${message}`));
  return wrong;
}

async function untilDrained({ redisUrl }: Places): Promise<string[]> {
  const keys = createKeys('wm');
  const urls = redisUrl.split(',');
  const redis = urls.length === 1 ? openRedis(redisUrl) : new Cluster(urls, { slotsRefreshTimeout: 5_000 });
  redis.on('error', () => {}); // the commands report their own errors
  const deadline = performance.now() + DRAIN_MS;
  try {
    for (;;) {
      const [length, state, dead] = await Promise.all([
        redis.xlen(keys.events(0)),
        redis.hgetall(keys.eventsState(0)),
        redis.xlen(keys.eventsDead(0)),
      ]);
      const { events = '0', bytes = '0' } = state;
      const isEmpty = length === 0;
      if (isEmpty && events === '0' && bytes === '0' && dead === 0) return [];
      if (isEmpty && dead === 0)
        return [`nothing waits in the stream, but its figures say ${events} events of ${bytes} bytes`];
      if (performance.now() > deadline)
        return [`not drained after ${DRAIN_MS} ms: ${length} entries, ${dead} dead letters`];
      await sleep(50);
    }
  } finally {
    redis.disconnect();
  }
}

/**
 * Returns the identities that can not read, list and visit, each with its last answer. It adds visits of a
 * handle of its own.
 */
export async function findLockedOut(identities: readonly Identity[], places: Places): Promise<string[]> {
  const lockedOut: string[] = [];
  const ask = asker(places);
  const probe = async (identity: Identity) => {
    await ask('GET', visitsPath({ ...identity }, 'probe'));
    await ask('POST', '/item/list', { identity });
    await ask('POST', '/product/visit', { identity, productHandle: 'probe' });
  };
  await each(identities, probe, (identity, { message }) =>
    lockedOut.push(`${JSON.stringify(identity)} is locked out: ${message}`),
  );
  return lockedOut;
}

/**
 * Compares the profiles that LoginTraffic expects. Call it when the streams are empty, and no visitor is
 * locked out.
 */
export async function checkLogins(profiles: readonly ExpectedProfile[], places: Places): Promise<string[]> {
  const { wrong, report } = faultList();
  const ask = asker(places);
  const profileIds = new Map<string, string>();
  const profileOfItem = new Map<string, string>();

  const check = async ({ identities, visits, items }: ExpectedProfile) => {
    const name = identities.map((who) => Object.values(who).join()).join(' = ');
    const one = identities[0] as Identity;
    const read = (who: Identity, productHandle: string) => ask('GET', visitsPath({ ...who }, productHandle));

    const ids = await Promise.all(identities.map(async (who) => (await read(who, 'h0')).profileId));
    const [profileId] = ids;
    if (new Set(ids).size !== 1) report(`${name} are of several profiles: ${ids.join(' ')}`);
    const other = profileIds.get(profileId);
    if (other !== undefined) report(`${name} has the profile of ${other}`);
    profileIds.set(profileId, name);

    for (const handle of HANDLES) {
      const { sent, acknowledged } = visits.get(handle) ?? { sent: 0, acknowledged: 0 };
      const { count } = await read(one, handle);
      if (!(count >= acknowledged && count <= sent))
        report(`${name}: ${count} visits of ${handle}, ${acknowledged} acknowledged, ${sent} sent`);
    }

    const list: { productId: string }[] = (await ask('POST', '/item/list', { identity: one })).items;
    const listed = new Set(list.map(({ productId }) => productId));
    for (const productId of listed)
      if (!items.has(productId)) report(`${name} has item ${productId}, which is not theirs`);
    for (const [productId, { acknowledged }] of items) {
      if (acknowledged > 0) profileOfItem.set(productId, profileId);
      if (acknowledged > 0 && !listed.has(productId)) report(`${name} lost item ${productId}`);
    }
  };
  await each(profiles, check, ({ identities }, { message }) =>
    report(`${JSON.stringify(identities)} can't be checked: ${message}`),
  );

  const eventsByVisitor = await rowsOf<[string, string]>(
    places.clickhouseUrl,
    "SELECT product_id, profile_id FROM events_by_visitor WHERE product_id LIKE 'home%'",
  );
  for (const [productId, profileId] of eventsByVisitor) {
    const expected = profileOfItem.get(productId);
    if (expected !== undefined && expected !== profileId)
      report(`the event of ${productId} is shown under ${profileId}, its visitor is ${expected}`);
  }
  return wrong;
}
