// An index from e-mail addresses (keyed digests) to profiles, only for exports and erasures. Anybody may type anybody's
// address, so it has only addresses from servers and orders.
//
// A digest is a member of its profile before the index leads there, so an erasure finds it. An entry made during the
// erasure is removed when used or swept.

import { createHmac } from 'node:crypto';
import { isCustomers } from '../redis/location.js';
import type { Store } from '../redis/store.js';
import { writeKey } from '../redis/write.js';
import type { Locator } from './locator.js';

/** Profiles of an address. If there are more, a form probably sends one address for everybody. */
const MAX_PROFILES = 100;
const ROUNDS = 4;

export class Emails {
  readonly tag = 'email';

  constructor(
    private readonly store: Store,
    private readonly locator: Pick<Locator, 'presentOf'>,
    private readonly onDropped?: (profiles: number) => void,
  ) {}

  digest(email: string): string {
    return createHmac('sha256', this.store.deployment.salt).update(`e-mail\n${email}`).digest('base64url');
  }

  /** @returns the profile that has the address of this index entry; undefined if the entry is stale */
  async ownerOf(digest: string, profileId: string): Promise<string | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const present = await this.locator.presentOf(profileId);
      const key = this.store.keys.members(present);
      if ((await this.store.call((client) => client.hexists(key, memberOf(digest)))) === 1) return present;
      // A merge may have moved the address.
      if ((await this.locator.presentOf(profileId)) === present) return undefined;
    }
    return undefined;
  }

  /** Customers first. */
  async find(digest: string): Promise<string[]> {
    const key = this.store.keys.email(digest);
    const found = await this.store.call((client) => client.zrange(key, String(-MAX_PROFILES), '-1'));
    return found.sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  }

  /** @returns profiles that have the address */
  async findOwners(digest: string): Promise<string[]> {
    const found = new Set<string>();
    for (const profileId of await this.find(digest)) {
      const owner = await this.#ownerOrForget(digest, profileId);
      if (owner !== undefined) found.add(owner);
    }
    return [...found];
  }

  /** @returns how many entries were stale */
  async sweep(digest: string): Promise<number> {
    let stale = 0;
    for (const profileId of await this.find(digest))
      if ((await this.#ownerOrForget(digest, profileId)) === undefined) stale++;
    return stale;
  }

  /** Removes stale entries of these profiles. */
  async forgetGone(digest: string, profiles: ReadonlySet<string>): Promise<void> {
    for (const one of await this.find(digest)) if (profiles.has(one)) await this.#ownerOrForget(digest, one);
  }

  async #ownerOrForget(digest: string, profileId: string): Promise<string | undefined> {
    const owner = await this.ownerOf(digest, profileId);
    if (owner !== undefined) return owner;
    await this.remove(digest, profileId);
    return this.restore(digest, profileId);
  }

  async remove(digest: string, profileId: string): Promise<void> {
    await writeKey(this.store, this.store.keys.email(digest), ['ZREM', profileId]);
  }

  /** After `remove`: a returning visitor may have given the address concurrently. */
  async restore(digest: string, profileId: string): Promise<string | undefined> {
    const owner = await this.ownerOf(digest, profileId);
    if (owner !== undefined) await this.index(digest, profileId);
    return owner;
  }

  /** The digest must be a member of the profile. */
  async index(digest: string, profileId: string): Promise<void> {
    const key = this.store.keys.email(digest);
    await writeKey(this.store, key, ['ZADD', Date.now(), profileId]);
    const dropped = Number(await writeKey(this.store, key, ['ZREMRANGEBYRANK', 0, -1 - MAX_PROFILES]));
    if (dropped > 0) this.onDropped?.(dropped);
  }
}

/** The member that a profile has for the address. */
export function memberOf(digest: string): string {
  return `email:${digest}`;
}

function rank(profileId: string): string {
  return `${isCustomers(profileId) ? 0 : 1} ${profileId}`;
}
