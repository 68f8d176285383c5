// One attempt to deliver, and what follows from its outcome.

import type { Logger } from 'pino';
import { erasedUnder, isErasedRow } from '../../clickhouse/erased-rows.js';
import { findErasures } from '../../flush/erasures.js';
import type { Locator } from '../../profiles/locator.js';
import type { Store } from '../../redis/store.js';
import { bodyOf, type Line, parseLine } from './message.js';
import { type Outcome, post } from './post.js';
import type { Resolution, Taken } from './queue.js';
import { type Receiver, signedHeaders } from './receiver.js';
import type { Receivers } from './receivers.js';

const [S, MIN, H] = [1_000, 60_000, 3_600_000] as const;
/** Waits after failed attempts. A failure after the last wait makes a dead letter. */
const RETRIES_MS = [5 * S, 5 * MIN, 30 * MIN, 2 * H, 5 * H, 10 * H, 14 * H, 20 * H, 24 * H];
/** A wait is longer by a random share of up to this, to spread retries. */
const JITTER = 0.1;
const GONE = 410;
const BUSY = [429, 503];
const MAX_RETRY_AFTER_MS = 24 * H;
/** A receiver is disabled after this long without a success. */
const FAILING_MS = 5 * 24 * H;

export interface AttemptSpec {
  readonly store: Store;
  readonly locator: Pick<Locator, 'presentOf'>;
  readonly receivers: Receivers;
  readonly log: Logger;
  readonly retriesMs?: readonly number[] | undefined;
  readonly answerMs?: number | undefined;
}

const NOT_AN_EVENT: Resolution = { outcome: 'dead', why: 'not the line of an event' };

/**
 * @returns why the receiver must be disabled, or undefined
 * @throws Redis's errors: the delivery is due again when its lease ends
 */
export async function attempt(
  spec: AttemptSpec,
  receiver: Receiver,
  { id, attempts, line: text }: Taken,
): Promise<string | undefined> {
  const line = parseLine(text);
  const outcome = line && (await send(spec, receiver, line));
  const resolution = line ? resolutionOf(outcome, attempts + 1, spec.retriesMs) : NOT_AN_EVENT;
  const failingSince = await spec.receivers.queue(receiver.id).resolve(id, resolution);
  if (resolution.outcome === 'dead')
    spec.log.warn(
      { receiver: receiver.id, event: line?.event_id, why: resolution.why },
      'a delivery failed for good and is a dead letter',
    );
  if (outcome?.status === GONE) return 'it answered 410';
  if (failingSince > 0 && Date.now() - failingSince > FAILING_MS)
    return 'no delivery succeeded for five days';
  return undefined;
}

/** @returns undefined if the visitor was erased */
async function send(spec: AttemptSpec, receiver: Receiver, line: Line): Promise<Outcome | undefined> {
  const { store, locator, receivers, answerMs } = spec;
  const [erasures, profileId] = await Promise.all([
    findErasures(store, erasedUnder(line)),
    locator.presentOf(line.profile_id),
  ]);
  if (isErasedRow(line, line.occurred_at, 'server', erasures)) return undefined;
  const personal = receiver.includePersonal ? await personalOf(store, profileId) : {};
  const body = bodyOf(line, profileId, personal);
  const target = { addresses: receivers.addresses, url: receiver.url };
  return post(target, signedHeaders(receiver, line.event_id, body), body, answerMs);
}

function resolutionOf(
  outcome: Outcome | undefined,
  attempts: number,
  retriesMs: readonly number[] = RETRIES_MS,
): Resolution {
  if (outcome === undefined) return { outcome: 'drop' };
  const { status, why, retryAfterMs } = outcome;
  if (status >= 200 && status < 300) return { outcome: 'done' };
  const retry = (made: number, waitMs: number): Resolution => ({
    outcome: 'retry',
    attempts: made,
    why,
    retryInMs: waitMs * (1 + Math.random() * JITTER),
  });
  if (BUSY.includes(status) && retryAfterMs !== undefined)
    return retry(attempts - 1, Math.max(Math.min(retryAfterMs, MAX_RETRY_AFTER_MS), retriesMs[0] ?? 0));
  const waitMs = retriesMs[attempts - 1];
  return waitMs === undefined ? { outcome: 'dead', why } : retry(attempts, waitMs);
}

async function personalOf(store: Store, profileId: string): Promise<object> {
  const key = store.keys.profile(profileId);
  const facts = await store.call((client) => client.hmget(key, 'email', 'firstName', 'lastName'));
  const [email = null, firstName = null, lastName = null] = facts;
  return { email, firstName, lastName };
}
