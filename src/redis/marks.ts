// Marks: by what a node of a cluster shows that it still has its data. A node that comes back empty (its volume gone,
// a fail-over to a replica that never synced, a FLUSHALL) answers happily, and what it held would be counted anew.
//
// The rule: `meta` names every mark (field `mark:<tag>`), and a mark, once named, is never made again. So a node that
// has the slot of a named mark, but not the mark, has lost its data. A node that has no named mark's slot (it is new,
// or its slots came or went by resharding) is given one, and is believed until then. Marks move with their slots, as
// every key does. The node of `meta` needs no other mark, and on one server `meta` is the only one.
//
// To accept what a node has lost: HDEL the marks of its slots from `meta`; it is given another one.

import { createHash } from 'node:crypto';
import { Command, type Redis } from 'ioredis';
import { StartupError } from '../errors.js';
import type { RedisClient } from './client.js';
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
    this.meta = { key: keys.meta, slot: slotOf(keys.meta), digest: sha1(salt) };
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
    const tags = fields.flatMap((name) => (name.startsWith(FIELD) ? [name.slice(FIELD.length)] : []));
    this.#named = tags.map((tag) => this.#mark(tag));
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
    for (let n = 0; ; n++) {
      const mark = this.#mark(String(n));
      if (!has(mark.slot)) continue;
      // Named last: a mark that is named has been there.
      await redis.hsetnx(mark.key, 'salt', this.#text);
      await this.#client.hsetnx(this.#keys.meta, `${FIELD}${n}`, '1');
      this.#named = [...this.#named, mark];
      return mark;
    }
  }

  #at(has: (slot: number) => boolean): Mark | undefined {
    return has(this.meta.slot) ? this.meta : this.#named.find(({ slot }) => has(slot));
  }

  #mark(tag: string): Mark {
    const key = this.#keys.mark(tag);
    return { key, slot: slotOf(key), digest: sha1(this.#text) };
  }
}
