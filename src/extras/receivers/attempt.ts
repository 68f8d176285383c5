// One attempt to deliver, with its retry policy.

import { erasedUnder, isErasedRow } from '../../clickhouse/erased-rows.js';
import { findErasures } from '../../flush/erasures.js';
import type { Redirects } from '../../profiles/redirects.js';
import type { Store } from '../../redis/store.js';
import { bodyOf, type Line, type PersonalData } from './message.js';
import type { Connection, Outcome } from './post.js';
import type { DeliveryQueue, Settled } from './queue.js';
import { type Receiver, signedHeaders } from './receiver.js';

const [S, MIN, H] = [1_000, 60_000, 3_600_000] as const;
/** Waits after failed attempts. A failure after the last wait makes a dead letter. */
const RETRIES_MS = [5 * S, 5 * MIN, 30 * MIN, 2 * H, 5 * H, 10 * H, 14 * H, 20 * H, 24 * H];
/** A wait is longer by a random share of up to this, to spread retries. */
const JITTER = 0.1;
const GONE = 410;
const BUSY = [429, 503];
const MAX_RETRY_AFTER_MS = 24 * H;

export interface Held {
  readonly id: string;
  readonly attempts: number;
  readonly line: Line;
}

export interface AttemptSpec {
  readonly store: Store;
  readonly redirects: Pick<Redirects, 'locate'>;
  readonly retriesMs?: readonly number[] | undefined;
  /** Tests stop the process here. */
  readonly onStep?: ((step: DeliverStep) => void | Promise<void>) | undefined;
}

export interface Destination {
  readonly queue: DeliveryQueue;
  readonly connection: Connection;
  readonly receiver: Receiver;
}

export type DeliverStep = 'read' | 'sent' | 'settled';

export interface Attempted extends Settled {
  readonly isGone?: boolean;
}

/** @returns undefined if the connection was closed @throws ServiceError `unavailable` */
export async function attempt(
  { store, redirects, retriesMs = RETRIES_MS, onStep }: AttemptSpec,
  { queue, connection, receiver }: Destination,
  { id, attempts, line }: Held,
): Promise<Attempted | undefined> {
  const [isWaiting, isErased, location] = await Promise.all([
    store.call(() => queue.holds(id)),
    isErasedNow(store, line),
    redirects.locate(line.profile_id),
  ]);
  if (!isWaiting || isErased) return { id, outcome: 'drop' };
  const profileId = location?.profileId ?? line.profile_id;
  const personal = receiver.includePersonal ? await personalOf(store, profileId) : undefined;
  const body = bodyOf(line, profileId, personal);
  await onStep?.('read');
  const outcome = await connection.post(receiver.url, signedHeaders(receiver, line.event_id, body), body);
  await onStep?.('sent');
  return outcome && settle(id, attempts + 1, outcome, retriesMs);
}

function settle(id: string, attempts: number, outcome: Outcome, retriesMs: readonly number[]): Attempted {
  const status = 'status' in outcome ? outcome.status : 0;
  if (status >= 200 && status < 300) return { id, outcome: 'done' };
  const why = 'status' in outcome ? `answered ${status}` : outcome.error;
  const failed = { id, why, isGone: status === GONE };
  const again = (made: number, waitMs: number): Attempted => ({
    ...failed,
    outcome: 'again',
    attempts: made,
    againInMs: waitMs * (1 + Math.random() * JITTER),
  });
  const [shortestMs = 0] = retriesMs;
  if ('status' in outcome && BUSY.includes(status) && outcome.retryAfterMs !== undefined) {
    const askedMs = Math.min(outcome.retryAfterMs, MAX_RETRY_AFTER_MS);
    return again(attempts - 1, Math.max(askedMs, shortestMs));
  }
  const waitMs = retriesMs[attempts - 1];
  return waitMs === undefined ? { ...failed, outcome: 'dead' } : again(attempts, waitMs);
}

async function isErasedNow(store: Store, line: Line): Promise<boolean> {
  return isErasedRow(line, line.occurred_at, 'server', await findErasures(store, erasedUnder(line)));
}

async function personalOf(store: Store, profileId: string): Promise<PersonalData> {
  const key = store.keys.profile(profileId);
  const facts = await store.call((client) => client.hmget(key, 'email', 'firstName', 'lastName'));
  const [email = null, firstName = null, lastName = null] = facts;
  return { email, firstName, lastName };
}
