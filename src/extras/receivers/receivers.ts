// The receivers of a deployment, in one hash, changed by compare-and-set. A receiver that can't be read, because a newer
// version wrote it, is left out and logged; the others work on.

import type { Logger } from 'pino';
import { ServiceError } from '../../errors.js';
import { eachOnce } from '../../http/left-out.js';
import type { RedisClient } from '../../redis/client.js';
import { changeField } from '../../redis/hash.js';
import type { Keys } from '../../redis/keys.js';
import { LUA } from '../../redis/lua-codes.js';
import type { Store } from '../../redis/store.js';
import type { ReceiversConfig } from '../settings.js';
import { AddressError, Addresses } from './address.js';
import { receiverKeys } from './keys.js';
import { testBody } from './message.js';
import { post } from './post.js';
import { DeliveryQueue, type QueueStatus } from './queue.js';
import {
  changeReceiver,
  createReceiver,
  type NewReceiver,
  parseReceiver,
  type Receiver,
  type ReceiverChange,
  signedHeaders,
} from './receiver.js';
import type { Resolve } from './resolver.js';

const MAX_RECEIVERS = 20;
/** Each failed round means a concurrent change. */
const ROUNDS = 16;
const UNKNOWN = 'There is no receiver of this id.';
const UNREADABLE = "This receiver can't be read: another version of wishmeter wrote it. It can be removed.";

type OnUnreadable = (id: string) => void;

/** Oldest first. */
export async function readReceivers(
  redis: RedisClient,
  keys: Keys,
  onUnreadable: OnUnreadable,
): Promise<Receiver[]> {
  const all: Receiver[] = [];
  for (const [id, kept] of Object.entries(await redis.hgetall(receiverKeys(keys).receivers))) {
    const receiver = parseReceiver(kept);
    if (receiver === undefined) onUnreadable(id);
    else all.push(receiver);
  }
  return all.sort((a, b) => (a.createdAt + a.id < b.createdAt + b.id ? -1 : 1));
}

/** Also of receivers that can't be read. */
export function readReceiverIds(redis: RedisClient, keys: Keys): Promise<string[]> {
  return redis.hkeys(receiverKeys(keys).receivers);
}

export function logUnreadable(log: Logger): OnUnreadable {
  return eachOnce((receiver) =>
    log.error(
      { receiver },
      "a receiver can't be read and is left out: another version of wishmeter wrote it",
    ),
  );
}

/** Methods throw ServiceError: `unavailable`, `not_found` for an id, `invalid_request` for a URL. */
export class Receivers {
  readonly addresses: Addresses;
  readonly #onUnreadable: OnUnreadable;

  constructor(
    private readonly store: Store,
    private readonly config: ReceiversConfig,
    log: Logger,
    resolve?: Resolve,
  ) {
    this.#onUnreadable = logUnreadable(log);
    this.addresses = new Addresses(config.RECEIVERS_PRIVATE === 'allow', resolve);
  }

  list(): Promise<Receiver[]> {
    return this.store.call((client) => readReceivers(client, this.store.keys, this.#onUnreadable));
  }

  /** @returns undefined also if it can't be read */
  async find(id: string): Promise<Receiver | undefined> {
    const kept = await this.#kept(id);
    return kept === null ? undefined : parseReceiver(kept);
  }

  async get(id: string): Promise<Receiver> {
    const kept = await this.#kept(id);
    if (kept === null) throw new ServiceError('not_found', UNKNOWN);
    return readable(kept);
  }

  /** Idempotent for the same `id`. @throws ServiceError `invalid_request` for too many receivers */
  async add(asked: NewReceiver, id?: string): Promise<Receiver> {
    await this.#checkUrl(asked.url);
    const receiver = createReceiver(asked, id);
    const reply = await this.#put(receiver.id, '', JSON.stringify(receiver));
    if (reply === LUA.TOO_MANY)
      throw new ServiceError('invalid_request', `There are ${MAX_RECEIVERS} receivers: remove one first.`);
    return reply === 1 ? receiver : this.get(receiver.id);
  }

  async change(id: string, change: ReceiverChange): Promise<Receiver> {
    if (change.url !== undefined) await this.#checkUrl(change.url);
    if (change.isEnabled) await this.store.call(() => this.queue(id).forgive());
    const changed = await this.#replace(id, (kept) => JSON.stringify(changeReceiver(readable(kept), change)));
    if (changed === undefined) throw new ServiceError('not_found', UNKNOWN);
    return readable(changed);
  }

  async remove(id: string): Promise<void> {
    const removed = await this.#replace(id, () => '');
    // The queue is cleared even if there is no receiver: an earlier removal may have failed here.
    await this.store.call(() => this.queue(id).clear());
    if (removed === undefined) throw new ServiceError('not_found', UNKNOWN);
  }

  async test(id: string): Promise<{ readonly status: number } | { readonly error: string }> {
    const receiver = await this.get(id);
    const body = testBody();
    const headers = signedHeaders(receiver, `test_${Date.now()}_${id}`, body);
    const target = { addresses: this.addresses, url: receiver.url };
    const { status, why } = await post(target, headers, body);
    return status === 0 ? { error: why } : { status };
  }

  /** Doesn't call Redis: an error would lose the secret. */
  describeNew(receiver: Receiver): object {
    return { ...describe(receiver), secret: receiver.secret };
  }

  async describe(receiver: Receiver, isSecretNew = false): Promise<object> {
    const described = describe(receiver, await this.statusOf(receiver.id));
    return isSecretNew ? { ...described, secret: receiver.secret } : described;
  }

  statusOf(id: string): Promise<QueueStatus> {
    return this.store.call(() => this.queue(id).status());
  }

  queue(id: string): DeliveryQueue {
    return new DeliveryQueue(this.store.client, this.store.keys, id, this.config.RECEIVERS_HIGH_WATER);
  }

  #kept(id: string): Promise<string | null> {
    const { receivers } = receiverKeys(this.store.keys);
    return this.store.call((client) => client.hget(receivers, id));
  }

  /** @param to returns '' to remove the receiver @returns undefined if there is none */
  async #replace(id: string, to: (kept: string) => string): Promise<string | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const kept = await this.#kept(id);
      if (kept === null) return undefined;
      const after = to(kept);
      if ((await this.#put(id, kept, after)) === 1) return after;
    }
    throw new ServiceError('unavailable');
  }

  #put(id: string, before: string, after: string): Promise<number> {
    const key = receiverKeys(this.store.keys).receivers;
    return changeField(this.store, { key, field: id, before, after, most: MAX_RECEIVERS });
  }

  async #checkUrl(url: string): Promise<void> {
    try {
      await this.addresses.check(url);
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      const fault = { in: 'body', path: '/url', message: error.message } as const;
      throw new ServiceError('invalid_request', undefined, [fault]);
    }
  }
}

function describe(receiver: Receiver, status?: QueueStatus): object {
  const { id, url, types, includePersonal, isEnabled, createdAt } = receiver;
  return {
    id,
    url,
    types,
    includePersonal,
    isEnabled,
    createdAt,
    pending: status?.pending ?? 0,
    lastSuccessAt: timeOf(status?.lastSuccessAt),
    lastFailureAt: timeOf(status?.lastFailureAt),
    lastError: status?.lastError || null,
  };
}

const timeOf = (at = 0): string | null => (at === 0 ? null : new Date(at).toISOString());

/** @throws ServiceError `not_found` */
function readable(kept: string): Receiver {
  const receiver = parseReceiver(kept);
  if (receiver === undefined) throw new ServiceError('not_found', UNREADABLE);
  return receiver;
}
