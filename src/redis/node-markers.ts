// Node markers prove that a cluster's node still has its data. Without them a node that comes back empty (lost volume,
// unsynced replica, FLUSHALL) would count from zero.
//
// `meta` names every marker (field `marker:<stream>`), and a named marker is never made again: a node that has its
// slot, but not the marker, has lost its data. A node without named markers is new, and gets one, except the node of
// `meta`. Streams are in the slots of markers, so migrations don't hide them.

import { createHash } from 'node:crypto';
import { Command, type Redis } from 'ioredis';
import { StartupError } from '../errors.js';
import type { RedisClient } from './client.js';
import { redirectionOf } from './failures.js';
import type { Keys } from './keys.js';

export class DeploymentLostError extends StartupError {
  constructor(address?: string) {
    super(
      `${address === undefined ? 'Redis' : `Node ${address} of the Redis Cluster`} no longer holds the deployment that ` +
        'this process was started with: its data are gone or were replaced. ' +
        'Nothing is written to it. Bring the data back; or, if they are lost for good, start again',
    );
    this.name = 'DeploymentLostError';
  }
}

export interface NodeMarker {
  readonly key: string;
  /** Number of the stream; 0 is in the slot of `meta`. */
  readonly stream: number;
  readonly slot: number;
  /** SHA-1 of `salt`. */
  readonly digest: string;
}

const FIELD = 'marker:';
const SLOTS = Array.from({ length: 16_384 }, (_, slot) => slot);

export function slotOf(key: string): number {
  return new Command('exists', [key]).getSlot() as number;
}

const sha1 = (text: string) => createHash('sha1').update(text).digest('hex');

export class NodeMarkers {
  readonly meta: NodeMarker;
  /** Identifies the deployment without its salt. */
  readonly #text: string;
  #named: readonly NodeMarker[] = [];

  constructor(
    private readonly client: RedisClient,
    private readonly keys: Keys,
    salt: string,
  ) {
    this.#text = sha1(`marker of ${salt}`);
    this.meta = { key: keys.meta, stream: 0, slot: slotOf(keys.meta), digest: sha1(salt) };
  }

  async find(has: (slot: number) => boolean): Promise<NodeMarker | undefined> {
    return this.#at(has) ?? (await this.#findAnew(has));
  }

  /** False if an operator accepted its loss. */
  async isNamed(marker: NodeMarker): Promise<boolean> {
    if (marker === this.meta) return true;
    return (await this.#findAnew((slot) => slot === marker.slot)) !== undefined;
  }

  async #findAnew(has: (slot: number) => boolean): Promise<NodeMarker | undefined> {
    const fields = await this.client.hkeys(this.keys.meta);
    this.#named = markedStreams(fields).map((number) => this.#marker(number));
    return this.#at(has);
  }

  /** Undefined for a node without slots. @throws DeploymentLostError */
  async make(redis: Redis, has: (slot: number) => boolean): Promise<NodeMarker | undefined> {
    if (!SLOTS.some(has)) return undefined;
    const salt = await this.client.hget(this.meta.key, 'salt');
    if (salt === null || sha1(salt) !== this.meta.digest) throw new DeploymentLostError();
    for (let n = 1; ; n++) {
      if (!has(slotOf(this.keys.nodeMarker(n)))) continue;
      const marker = this.#marker(n);
      try {
        await redis.hsetnx(marker.key, 'salt', this.#text);
      } catch (error) {
        if (redirectionOf(error as Error)?.kind !== 'ASK') throw error;
        continue; // its slot is migrating
      }
      // The name comes last: a named marker must exist.
      await this.name(marker);
      this.#named = [...this.#named, marker];
      return marker;
    }
  }

  /** Repeated by probes: a failover of the node of `meta` may lose the name. */
  async name(marker: NodeMarker): Promise<void> {
    if (marker !== this.meta) await this.client.hsetnx(this.keys.meta, `${FIELD}${marker.stream}`, '1');
  }

  #at(has: (slot: number) => boolean): NodeMarker | undefined {
    return has(this.meta.slot) ? this.meta : this.#named.find(({ slot }) => has(slot));
  }

  #marker(stream: number): NodeMarker {
    const key = this.keys.nodeMarker(stream);
    return { key, stream, slot: slotOf(key), digest: sha1(this.#text) };
  }
}

function markedStreams(fields: readonly string[]): number[] {
  return fields.flatMap((name) => (name.startsWith(FIELD) ? [Number(name.slice(FIELD.length))] : []));
}

export async function streamsOf(client: RedisClient, keys: Pick<Keys, 'meta'>): Promise<number[]> {
  const fields = await client.hkeys(keys.meta);
  return fields.length === 0 ? [] : [0, ...markedStreams(fields)];
}
