// Compares the profiles that LoginTraffic expects with what the service answers: every identity reaches its profile and
// no other one, with everything that was acknowledged and nothing that was not sent. An identity that gets no answer is locked out.

import { setTimeout as sleep } from 'node:timers/promises';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { type ExpectedProfile, HANDLES, type Identity } from './logins.js';
import type { Places } from './reconcile.js';

export interface LoginsReport {
  readonly identities: number;
  readonly profiles: number;
  readonly visits: { sent: number; acknowledged: number; counted: number };
  readonly items: { sent: number; acknowledged: number; listed: number };
  /** In words; empty where nothing is wrong. */
  readonly wrong: readonly string[];
}

/** All faults are over by now: an identity without an answer within this time is locked out. */
const LOCKED_OUT_MS = 10_000;
const READERS = 16;

type Ask = (method: 'GET' | 'POST', path: string, body?: object) => Promise<Record<string, unknown>>;

/** A service's answers, asked for again for a while where there is none. @throws with the last status */
function asker({ url, key }: Places): Ask {
  return async (method, path, body) => {
    const deadline = performance.now() + LOCKED_OUT_MS;
    for (;;) {
      const answer = await fetch(url + path, {
        method,
        headers: { 'x-api-key': key, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }).catch(() => undefined);
      if (answer?.status === 200) return (await answer.json()) as Record<string, unknown>;
      if (performance.now() > deadline)
        throw new Error(`${answer?.status ?? 'no answer'}: ${await answer?.text()}`);
      await sleep(100);
    }
  };
}

/** Runs `job` on each, several at once. */
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

/**
 * Finds identities that can no longer read, list and visit. Counts visits of a handle of its own.
 * @returns what each of them was answered last, in words
 */
export async function findLockedOut(identities: readonly Identity[], places: Places): Promise<string[]> {
  const lockedOut: string[] = [];
  const ask = asker(places);
  const probe = async (identity: Identity) => {
    await ask('GET', `/product/visit?${new URLSearchParams({ ...identity, productHandle: 'probe' })}`);
    await ask('POST', '/item/list', { identity });
    await ask('POST', '/product/visit', { identity, productHandle: 'probe' });
  };
  await each(identities, probe, (identity, { message }) =>
    lockedOut.push(`${JSON.stringify(identity)} is locked out: ${message}`),
  );
  return lockedOut;
}

/** Call when nothing waits in the stream any more, and no visitor is locked out. */
export async function checkLogins(
  profiles: readonly ExpectedProfile[],
  places: Places,
): Promise<LoginsReport> {
  const wrong: string[] = [];
  const tell = (what: string) => wrong.length < 50 && wrong.push(what);
  const ask = asker(places);
  const visits = { sent: 0, acknowledged: 0, counted: 0 };
  const items = { sent: 0, acknowledged: 0, listed: 0 };
  const profileIds = new Map<string, string>();
  const profileOfItem = new Map<string, string>();
  let identities = 0;

  const check = async (profile: ExpectedProfile) => {
    const names = profile.identities.map((who) => Object.values(who).join());
    const name = names.join(' = ');
    const [one] = profile.identities;
    // All sessions of an unknown customer's profile may have moved on: then no identity names it any more.
    if (one === undefined) return;
    identities += profile.identities.length;
    const read = (who: Identity, productHandle: string) =>
      ask('GET', `/product/visit?${new URLSearchParams({ ...who, productHandle })}`);

    const ids = await Promise.all(
      profile.identities.map(async (who) => String((await read(who, 'h0'))['profileId'])),
    );
    const [profileId = ''] = ids;
    if (new Set(ids).size !== 1) tell(`${name} are of several profiles: ${ids.join(' ')}`);
    const other = profileIds.get(profileId);
    if (other !== undefined) tell(`${name} has the profile of ${other}`);
    profileIds.set(profileId, name);

    for (const handle of HANDLES) {
      const { sent, acknowledged } = profile.visits.get(handle) ?? { sent: 0, acknowledged: 0 };
      const count = Number((await read(one, handle))['count']);
      visits.sent += sent;
      visits.acknowledged += acknowledged;
      visits.counted += count;
      if (!(count >= acknowledged && count <= sent))
        tell(`${name}: ${count} visits of ${handle}, ${acknowledged} acknowledged, ${sent} sent`);
    }

    const list = (await ask('POST', '/item/list', { identity: one }))['items'] as { productId: string }[];
    const listed = new Set(list.map(({ productId }) => productId));
    items.listed += listed.size;
    for (const productId of listed)
      if (!profile.items.has(productId)) tell(`${name} has item ${productId}, which is not theirs`);
    for (const [productId, { sent, acknowledged }] of profile.items) {
      items.sent += sent;
      items.acknowledged += acknowledged;
      if (acknowledged > 0) profileOfItem.set(productId, profileId);
      if (acknowledged > 0 && !listed.has(productId)) tell(`${name} lost item ${productId}`);
    }
  };
  await each(profiles, check, ({ identities }, { message }) =>
    tell(`${JSON.stringify(identities)} can't be checked: ${message}`),
  );

  for (const [productId, profileId] of await eventsByVisitor(places)) {
    const expected = profileOfItem.get(productId);
    if (expected !== undefined && expected !== profileId)
      tell(`the event of ${productId} is shown under ${profileId}, its visitor is ${expected}`);
  }
  return { identities, profiles: profileIds.size, visits, items, wrong };
}

/** Product and current profile of each event of the login traffic. */
async function eventsByVisitor({ clickhouseUrl }: Places): Promise<[string, string][]> {
  const clickhouse = createClickHouse(clickhouseUrl, 'wishmeter');
  try {
    const answer = await clickhouse.query({
      query: "SELECT product_id, profile_id FROM events_by_visitor WHERE product_id LIKE 'home%'",
      format: 'JSONCompactEachRow',
    });
    return await answer.json<[string, string]>();
  } finally {
    await clickhouse.close();
  }
}
