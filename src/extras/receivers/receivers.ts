// The receivers of a deployment, in one hash, changed by compare-and-set.

import type { Config } from '../../config.js';
import { ServiceError } from '../../errors.js';
import type { RedisClient } from '../../redis/client.js';
import { changeField } from '../../redis/hash.js';
import type { Keys } from '../../redis/keys.js';
import { LUA } from '../../redis/lua-codes.js';
import type { Store } from '../../redis/store.js';
import { AddressError, Addresses } from './address.js';
import { testBody } from './message.js';
import { post } from './post.js';
import { DeliveryQueue, type QueueStatus } from './queue.js';
import {
  changeReceiver,
  createReceiver,
  type NewReceiver,
  type Receiver,
  type ReceiverChange,
  signedHeaders,
} from './receiver.js';
import type { Resolve } from './resolver.js';

const MAX_RECEIVERS = 20;
/** Each failed round means a concurrent change. */
const ROUNDS = 16;
const UNKNOWN = 'There is no receiver of this id.';

/** Oldest first. */
export async function readReceivers(redis: RedisClient, keys: Keys): Promise<Receiver[]> {
  const all = (await redis.hvals(keys.receivers)).map(parse);
  return all.sort((a, b) => (a.createdAt + a.id < b.createdAt + b.id ? -1 : 1));
}

/** Methods throw ServiceError: `unavailable`, `not_found` for an id, `invalid_request` for a URL. */
export class Receivers {
  readonly addresses: Addresses;

  constructor(
    private readonly store: Store,
    private readonly config: Pick<Config, 'RECEIVERS_PRIVATE' | 'RECEIVERS_HIGH_WATER'>,
    resolve?: Resolve,
  ) {
    this.addresses = new Addresses(config.RECEIVERS_PRIVATE === 'allow', resolve);
  }

  list(): Promise<Receiver[]> {
    return this.store.call((client) => readReceivers(client, this.store.keys));
  }

  async find(id: string): Promise<Receiver | undefined> {
    const kept = await this.#kept(id);
    return kept === null ? undefined : parse(kept);
  }

  async get(id: string): Promise<Receiver> {
    const found = await this.find(id);
    if (found === undefined) throw new ServiceError('not_found', UNKNOWN);
    return found;
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
    const changed = await this.#replace(id, (kept) => JSON.stringify(changeReceiver(parse(kept), change)));
    if (changed === undefined) throw new ServiceError('not_found', UNKNOWN);
    return parse(changed);
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
    const { receivers } = this.store.keys;
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
    const key = this.store.keys.receivers;
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
    ...{ id, url, types, includePersonal, isEnabled, createdAt },
    pending: status?.pending ?? 0,
    lastSuccessAt: timeOf(status?.lastSuccessAt),
    lastFailureAt: timeOf(status?.lastFailureAt),
    lastError: status?.lastError || null,
  };
}

const timeOf = (at = 0): string | null => (at === 0 ? null : new Date(at).toISOString());

const parse = (kept: string): Receiver => JSON.parse(kept) as Receiver;
