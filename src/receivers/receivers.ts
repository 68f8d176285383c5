// The receivers of a deployment, in one hash: made, changed and removed by compare-and-set. And how each stands, over the
// streams of all nodes.

import { ServiceError } from '../errors.js';
import { changeField } from '../redis/hash.js';
import { LUA } from '../redis/lua-codes.js';
import { streamsOf } from '../redis/marks.js';
import type { Store } from '../redis/store.js';
import { AddressError, type Addresses } from './address.js';
import { describeReceiver } from './description.js';
import { testBody } from './message.js';
import { Connection } from './post.js';
import { DeliveryQueue } from './queue.js';
import {
  changeReceiver,
  createReceiver,
  type NewReceiver,
  type Receiver,
  type ReceiverChange,
  signedHeaders,
} from './receiver.js';
import { type Stand, standOf } from './stand.js';

const MAX_RECEIVERS = 20;
/** Each lost round means that another request changed the same receiver. */
const ROUNDS = 16;
const UNKNOWN = 'There is no receiver of this id.';

export class Receivers {
  readonly #store: Store;
  /** Where they may be. */
  readonly addresses: Addresses;
  readonly #highWater: number;

  /** @param highWater see DeliveryQueue */
  constructor(store: Store, addresses: Addresses, highWater: number) {
    this.#store = store;
    this.addresses = addresses;
    this.#highWater = highWater;
  }

  /** The oldest first. @throws ServiceError `unavailable` */
  async list(): Promise<Receiver[]> {
    const { receivers } = this.#store.keys;
    const kept = await this.#store.call((client) => client.hvals(receivers));
    return kept.map(parse).sort((a, b) => (a.createdAt + a.id < b.createdAt + b.id ? -1 : 1));
  }

  /** @throws ServiceError `not_found`, `unavailable` */
  async get(id: string): Promise<Receiver> {
    const kept = await this.#kept(id);
    if (kept === null) throw new ServiceError('not_found', UNKNOWN);
    return parse(kept);
  }

  /**
   * @param id the same where the request is repeated: then the receiver is made once
   * @throws ServiceError `invalid_request` for an address that may not be used, or where there are too many; `unavailable`
   */
  async add(asked: NewReceiver, id?: string): Promise<Receiver> {
    await this.#checkUrl(asked.url);
    const receiver = createReceiver(asked, id);
    const reply = await this.#put(receiver.id, '', JSON.stringify(receiver));
    if (reply === LUA.TOO_MANY)
      throw new ServiceError('invalid_request', `There are ${MAX_RECEIVERS} receivers: remove one first.`);
    return reply === 1 ? receiver : this.get(receiver.id);
  }

  /** @throws ServiceError `invalid_request`, `not_found`, `unavailable` */
  async change(id: string, change: ReceiverChange): Promise<Receiver> {
    if (change.url !== undefined) await this.#checkUrl(change.url);
    if (change.isEnabled) for (const queue of await this.queues(id)) await queue.forgive();
    const changed = await this.#replace(id, (kept) => JSON.stringify(changeReceiver(parse(kept), change)));
    if (changed === undefined) throw new ServiceError('not_found', UNKNOWN);
    return parse(changed);
  }

  /** Removes a receiver, and drops what waits for it. @throws ServiceError `not_found`, `unavailable` */
  async remove(id: string): Promise<void> {
    const removed = await this.#replace(id, () => '');
    // Also where it is not known: an earlier removal may have ended before it came to this.
    for (const queue of await this.queues(id)) await queue.clear();
    if (removed === undefined) throw new ServiceError('not_found', UNKNOWN);
  }

  /** Sends a delivery of type `test`, now. @throws ServiceError `not_found`, `unavailable` */
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

  /** As callers see one that was just made. It asks nothing more of Redis: a failure now would lose the secret. */
  describeNew(receiver: Receiver): object {
    return describeReceiver(receiver, standOf([]), true);
  }

  /**
   * As callers see it, with how it stands.
   * @param isSecretNew whether its secret was just made @throws ServiceError `unavailable`
   */
  async describe(receiver: Receiver, isSecretNew = false): Promise<object> {
    return describeReceiver(receiver, await this.standOf(receiver.id), isSecretNew);
  }

  /** How it stands, over all streams. @throws ServiceError `unavailable` */
  async standOf(id: string): Promise<Stand> {
    const states = await this.#store.call(async () =>
      Promise.all((await this.queues(id)).map((queue) => queue.state())),
    );
    return standOf(states);
  }

  /** What waits for it at each stream. @throws ServiceError `unavailable` */
  async queues(id: string): Promise<DeliveryQueue[]> {
    return (await this.streams()).map((stream) => this.queueAt(stream, id));
  }

  /** Numbers of the streams of events. @throws ServiceError `unavailable` */
  streams(): Promise<number[]> {
    return this.#store.call((redis) => streamsOf(redis, this.#store.keys));
  }

  queueAt(stream: number, id: string): DeliveryQueue {
    return new DeliveryQueue(this.#store.client, this.#store.keys, stream, id, this.#highWater);
  }

  #kept(id: string): Promise<string | null> {
    const { receivers } = this.#store.keys;
    return this.#store.call((client) => client.hget(receivers, id));
  }

  /** @param to empty: it is removed @returns what it is now; undefined where it is not known @throws ServiceError `unavailable` */
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
    return changeField(this.#store, this.#store.keys.receivers, id, before, after, MAX_RECEIVERS);
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

const parse = (kept: string): Receiver => JSON.parse(kept) as Receiver;
