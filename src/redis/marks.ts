// Marks prove that a node of a cluster still has its data. A node that comes back empty (lost volume, failover to a replica that
// never synced, FLUSHALL) answers normally, and its counts would begin at zero again.
//
// `meta` names every mark (field `mark:<tag>`), and a named mark is never made again. So a node that owns the slot of a named
// mark, but lacks the mark, has lost its data. A node that owns no named mark's slot (it is new, or slots were moved) gets a
// new mark. Marks migrate with their slots. The node of `meta` needs no other mark; on a single server `meta` is the only one.
//
// The streams of a node are in the slot of its mark, so all streams are found by the names of the marks, also after migrations.
//
// To accept a node's loss: HDEL the marks of its slots from `meta`; the node gets another one.

import { createHash } from 'node:crypto';
import { Command, type Redis } from 'ioredis';
import { StartupError } from '../errors.js';
import type { RedisClient } from './client.js';
import { redirectionOf } from './failures.js';
import type { Keys } from './keys.js';

/** Redis has lost the data with which this process started. */
export class DeploymentLostError extends StartupError {
  /** @param address of the cluster's node that lost data; undefined for the whole deployment */
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
  /** A hash with a field `salt`. */
  readonly key: string;
  /** Number of the streams in the same slot, see StreamKeys; 0 for `meta`. */
  readonly stream: number;
  readonly slot: number;
  /** SHA-1 of `salt`. */
  readonly digest: string;
}

const FIELD = 'mark:';
const SLOTS = Array.from({ length: 16_384 }, (_, slot) => slot);

/** The hash slot of the cluster specification. */
export function slotOf(key: string): number {
  return new Command('exists', [key]).getSlot() as number;
}

const sha1 = (text: string) => createHash('sha1').update(text).digest('hex');

export class Marks {
  readonly meta: Mark;
  readonly #client: RedisClient;
  readonly #keys: Keys;
  /** The value of a mark: identifies the deployment without revealing its salt. */
  readonly #text: string;
  #named: readonly Mark[] = [];

  constructor(client: RedisClient, keys: Keys, salt: string) {
    this.#client = client;
    this.#keys = keys;
    this.#text = sha1(`mark of ${salt}`);
    this.meta = { key: keys.meta, stream: 0, slot: slotOf(keys.meta), digest: sha1(salt) };
  }

  /**
   * A named mark in one of a node's slots. Reads the names again if this process knows none there.
   * @throws Redis's errors
   */
  async find(has: (slot: number) => boolean): Promise<Mark | undefined> {
    return this.#at(has) ?? (await this.#findAnew(has));
  }

  /** False if the mark's loss was accepted. @throws Redis's errors */
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
   * Makes and names a mark for a node without one; undefined for a node without slots.
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
        continue; // its slot is migrating
      }
      // Named last: a named mark must exist.
      await this.name(mark);
      this.#named = [...this.#named, mark];
      return mark;
    }
  }

  /** Names an existing mark again: a failover of the node of `meta` may have lost its name. @throws Redis's errors */
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

/** Numbers of all marks except `meta`. @param fields of `meta` */
function markedStreams(fields: readonly string[]): number[] {
  return fields.flatMap((name) => (name.startsWith(FIELD) ? [Number(name.slice(FIELD.length))] : []));
}

/** Numbers of all streams; none if there is no deployment. @throws Redis's errors */
export async function streamsOf(client: RedisClient, keys: Pick<Keys, 'meta'>): Promise<number[]> {
  const fields = await client.hkeys(keys.meta);
  return fields.length === 0 ? [] : [0, ...markedStreams(fields)];
}
