// The receivers of a deployment, in one hash, changed by compare-and-set.

import { ServiceError } from '../../errors.js';
import { changeField } from '../../redis/hash.js';
import { LUA } from '../../redis/lua-codes.js';
import { streamsOf } from '../../redis/node-markers.js';
import type { Store } from '../../redis/store.js';
import { AddressError, type Addresses } from './address.js';
import { testBody } from './message.js';
import { Connection } from './post.js';
import { DeliveryQueue } from './queue.js';
import { type QueueStatus, statusOf } from './queue-status.js';
import {
  changeReceiver,
  createReceiver,
  type NewReceiver,
  type Receiver,
  type ReceiverChange,
  signedHeaders,
} from './receiver.js';

const MAX_RECEIVERS = 20;
/** Each failed round means a concurrent change. */
const ROUNDS = 16;
const UNKNOWN = 'There is no receiver of this id.';

/** Methods throw ServiceError: `unavailable`, `not_found` for an id, `invalid_request` for a URL. */
export class Receivers {
  readonly #store: Store;
  readonly addresses: Addresses;
  readonly #highWater: number;

  constructor(store: Store, addresses: Addresses, highWater: number) {
    this.#store = store;
    this.addresses = addresses;
    this.#highWater = highWater;
  }

  /** Oldest first. */
  async list(): Promise<Receiver[]> {
    const { receivers } = this.#store.keys;
    const kept = await this.#store.call((client) => client.hvals(receivers));
    return kept.map(parse).sort((a, b) => (a.createdAt + a.id < b.createdAt + b.id ? -1 : 1));
  }

  async get(id: string): Promise<Receiver> {
    const kept = await this.#kept(id);
    if (kept === null) throw new ServiceError('not_found', UNKNOWN);
    return parse(kept);
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
    if (change.isEnabled) for (const queue of await this.queues(id)) await queue.forgive();
    const changed = await this.#replace(id, (kept) => JSON.stringify(changeReceiver(parse(kept), change)));
    if (changed === undefined) throw new ServiceError('not_found', UNKNOWN);
    return parse(changed);
  }

  async remove(id: string): Promise<void> {
    const removed = await this.#replace(id, () => '');
    // Clear the queues even if there is no receiver: an earlier removal may have failed here.
    for (const queue of await this.queues(id)) await queue.clear();
    if (removed === undefined) throw new ServiceError('not_found', UNKNOWN);
  }

  async test(id: string): Promise<{ readonly status: number } | { readonly error: string }> {
    const receiver = await this.get(id);
    const connection = new Connection(this.addresses);
    try {
      const body = testBody();
      const headers = signedHeaders(receiver, `test_${Date.now()}_${id}`, body);
      const outcome = await connection.post(receiver.url, headers, body);
      if (outcome === undefined) return { error: 'the process ends' };
      return 'status' in outcome ? { status: outcome.status } : outcome;
    } finally {
      connection.close();
    }
  }

  /** Doesn't call Redis: an error would lose the secret. */
  describeNew(receiver: Receiver): object {
    return describeReceiver(receiver, statusOf([]), true);
  }

  async describe(receiver: Receiver, isSecretNew = false): Promise<object> {
    return describeReceiver(receiver, await this.statusOf(receiver.id), isSecretNew);
  }

  async statusOf(id: string): Promise<QueueStatus> {
    const states = await this.#store.call(async () =>
      Promise.all((await this.queues(id)).map((queue) => queue.state())),
    );
    return statusOf(states);
  }

  async queues(id: string): Promise<DeliveryQueue[]> {
    return (await this.streams()).map((stream) => this.queueAt(stream, id));
  }

  streams(): Promise<number[]> {
    return this.#store.call((redis) => streamsOf(redis, this.#store.keys));
  }

  queueAt(stream: number, id: string): DeliveryQueue {
    return new DeliveryQueue(this.#store.client, this.#store.keys, { stream, receiver: id }, this.#highWater);
  }

  #kept(id: string): Promise<string | null> {
    const { receivers } = this.#store.keys;
    return this.#store.call((client) => client.hget(receivers, id));
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
    return changeField(this.#store, {
      ...{ key: this.#store.keys.receivers, field: id, before, after },
      most: MAX_RECEIVERS,
    });
  }

  async #checkUrl(url: string): Promise<void> {
    try {
      await this.addresses.check(url);
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      throw new ServiceError('invalid_request', undefined, [{ path: '/url', message: error.message }]);
    }
  }
}

function describeReceiver(receiver: Receiver, status: QueueStatus, isSecretNew: boolean): object {
  const { id, url, types, includePersonal, isEnabled, createdAt, secret } = receiver;
  return {
    ...{ id, url, types, includePersonal, isEnabled, createdAt },
    pending: status.pending,
    lastSuccessAt: timeOf(status.lastSuccessAt),
    lastFailureAt: timeOf(status.lastFailureAt),
    lastError: status.lastError || null,
    ...(isSecretNew ? { secret } : {}),
  };
}

const timeOf = (at: number): string | null => (at === 0 ? null : new Date(at).toISOString());

const parse = (kept: string): Receiver => JSON.parse(kept) as Receiver;
