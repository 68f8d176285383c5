// Marks: by what a node of a cluster shows that it still has its data. A node that comes back empty (its volume gone,
// a fail-over to a replica that never synced, a FLUSHALL) answers happily, and what it held would be counted anew.
//
// The rule: `meta` names every mark (field `mark:<tag>`), and a mark, once named, is never made again. So a node that
// has the slot of a named mark, but not the mark, has lost its data. A node that has no named mark's slot (it is new,
// or its slots came or went by resharding) is given one, and is believed until then. Marks move with their slots, as
// every key does. The node of `meta` needs no other mark while its slot stays, and on one server `meta` is the only one.
//
// A node's streams of events and visits are in the slot of its mark. So they are found by the names of all marks; a stream
// whose slot has gone to another node is read there.
//
// To accept what a node has lost: HDEL the marks of its slots from `meta`; it is given another one.

import { createHash } from 'node:crypto';
import { Command, type Redis } from 'ioredis';
import { StartupError } from '../errors.js';
import type { RedisClient } from './client.js';
import { redirectionOf } from './failures.js';
import type { Keys } from './keys.js';

/** Data that this process was started with are not in Redis any more. */
export class DeploymentLostError extends StartupError {
  /** @param address of the node of a cluster, where it is not the whole deployment */
  constructor(address?: string) {
    super(
      `${address === undefined ? 'Redis' : `Node ${address} of the Redis Cluster`} no longer holds the deployment that ` +
        'this process was started with: its data are gone or were replaced. ' +
        'Nothing is written to it. Bring the data back; or, if they are lost for good, start again',
    );
    this.name = 'DeploymentLostError';
  }
}

export interface Mark {
  /** A hash; its field `salt` is what shows it. */
  readonly key: string;
  /** Number of the streams beside it, see StreamKeys; 0 beside `meta`. */
  readonly stream: number;
  readonly slot: number;
  /** SHA-1 of that field. */
  readonly digest: string;
}

const FIELD = 'mark:';
const SLOTS = Array.from({ length: 16_384 }, (_, slot) => slot);

/** CRC16 of the hash tag modulo 16,384, as the cluster specification has it; here ioredis reckons it. */
export function slotOf(key: string): number {
  return new Command('exists', [key]).getSlot() as number;
}

const sha1 = (text: string) => createHash('sha1').update(text).digest('hex');

export class Marks {
  /** Of the deployment itself. */
  readonly meta: Mark;
  readonly #client: RedisClient;
  readonly #keys: Keys;
  /** What a mark says: whose it is, and not the salt. */
  readonly #text: string;
  #named: readonly Mark[] = [];

  constructor(client: RedisClient, keys: Keys, salt: string) {
    this.#client = client;
    this.#keys = keys;
    this.#text = sha1(`mark of ${salt}`);
    this.meta = { key: keys.meta, stream: 0, slot: slotOf(keys.meta), digest: sha1(salt) };
  }

  /**
   * A named mark in one of a node's slots. The named ones are asked for again where none is known there.
   * @throws Redis's errors
   */
  async find(has: (slot: number) => boolean): Promise<Mark | undefined> {
    return this.#at(has) ?? (await this.#findAnew(has));
  }

  /** Whether a mark is still named; it is not where its loss was accepted. @throws Redis's errors */
  async isNamed(mark: Mark): Promise<boolean> {
    if (mark === this.meta) return true;
    return (await this.#findAnew((slot) => slot === mark.slot)) !== undefined;
  }

  async #findAnew(has: (slot: number) => boolean): Promise<Mark | undefined> {
    const fields = await this.#client.hkeys(this.#keys.meta);
    this.#named = markedStreams(fields).map((number) => this.#mark(number));
    return this.#at(has);
  }

  /**
   * Gives a mark to a node that has no named one, and names it; undefined for a node without slots.
   * @throws DeploymentLostError, Redis's errors
   */
  async make(redis: Redis, has: (slot: number) => boolean): Promise<Mark | undefined> {
    if (!SLOTS.some(has)) return undefined;
    const salt = await this.#client.hget(this.meta.key, 'salt');
    if (salt === null || sha1(salt) !== this.meta.digest) throw new DeploymentLostError();
    for (let n = 1; ; n++) {
      if (!has(slotOf(this.#keys.mark(n)))) continue;
      const mark = this.#mark(n);
      try {
        await redis.hsetnx(mark.key, 'salt', this.#text);
      } catch (error) {
        if (redirectionOf(error as Error)?.kind !== 'ASK') throw error;
        continue; // its slot is on the move
      }
      // Named last: a mark that is named has been there.
      await this.name(mark);
      this.#named = [...this.#named, mark];
      return mark;
    }
  }

  /** Names a mark that is there: a failover of the node of `meta` may have forgotten its name. @throws Redis's errors */
  async name(mark: Mark): Promise<void> {
    if (mark !== this.meta) await this.#client.hsetnx(this.#keys.meta, `${FIELD}${mark.stream}`, '1');
  }

  #at(has: (slot: number) => boolean): Mark | undefined {
    return has(this.meta.slot) ? this.meta : this.#named.find(({ slot }) => has(slot));
  }

  #mark(stream: number): Mark {
    const key = this.#keys.mark(stream);
    return { key, stream, slot: slotOf(key), digest: sha1(this.#text) };
  }
}

/** Numbers of the marks, and so of the streams, but that of `meta`. @param fields of `meta` */
function markedStreams(fields: readonly string[]): number[] {
  return fields.flatMap((name) => (name.startsWith(FIELD) ? [Number(name.slice(FIELD.length))] : []));
}

/** Numbers of all streams that events and visits may be in; none where there is no deployment. @throws Redis's errors */
export async function streamsOf(client: RedisClient, keys: Pick<Keys, 'meta'>): Promise<number[]> {
  const fields = await client.hkeys(keys.meta);
  return fields.length === 0 ? [] : [0, ...markedStreams(fields)];
}
