// An index from e-mail addresses (keyed digests) to profiles, only for exports and erasures. Anybody may type anybody's
// address, so it has only addresses from servers and orders.
//
// A digest is a member of its profile before the index leads there, so an erasure finds it. An entry made during the
// erasure is removed when used or swept.

import { createHmac } from 'node:crypto';
import { fitsBytes, isPlainText } from '../identity-rules.js';
import { type Location, MAX_HOPS } from '../redis/location.js';
import type { Store } from '../redis/store.js';
import { writeKey } from '../redis/write.js';
import type { Redirects } from './redirects.js';

const MAX_BYTES = 320;
/** Profiles of an address. If there are more, a form probably sends one address for everybody. */
const MAX_PROFILES = 100;

export interface Indexed {
  /** The profile in the index; merged into that of `location` if they differ. */
  readonly profileId: string;
  readonly location: Location;
  /** The identity that gave the address; '' if it has another default profile. */
  readonly creator: string;
}

export function normaliseEmail(email: unknown): string | undefined {
  if (typeof email !== 'string') return undefined;
  const normal = email.trim().toLowerCase();
  return normal.includes('@') && fitsBytes(normal, MAX_BYTES) && isPlainText(normal) ? normal : undefined;
}

export class Emails {
  constructor(
    private readonly store: Store,
    private readonly redirects: Redirects,
    private readonly onDropped?: (profiles: number) => void,
  ) {}

  digest(email: string): string {
    return createHmac('sha256', this.store.deployment.salt).update(`e-mail\n${email}`).digest('base64url');
  }

  /** Undefined for a stale entry; the profile may be another visitor's. */
  async givenAt(digest: string, profileId: string): Promise<Indexed | undefined> {
    let location = await this.redirects.locate(profileId);
    for (let hop = 0; hop < MAX_HOPS && location !== undefined; hop++) {
      const key = this.store.keys.members(location.profileId);
      const creator = await this.store.call((client) => client.hget(key, `@${digest}`));
      if (creator !== null) return { profileId, location, creator };
      // A merge may have moved the digest.
      const now = await this.redirects.locate(profileId);
      if (now?.profileId === location.profileId) return undefined;
      location = now;
    }
    return undefined;
  }

  /** Customers first. */
  async find(digest: string): Promise<string[]> {
    const key = this.store.keys.email(digest);
    const found = await this.store.call((client) => client.zrange(key, String(-MAX_PROFILES), '-1'));
    return found.sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  }

  async findGiven(digest: string): Promise<Indexed[]> {
    const found: Indexed[] = [];
    for (const profileId of await this.find(digest)) {
      const given = await this.#giverOf(digest, profileId);
      if (given !== undefined) found.push(given);
    }
    return found;
  }

  async sweep(digest: string): Promise<number> {
    const before = await this.find(digest);
    return before.length - (await this.findGiven(digest)).length;
  }

  /** Removes stale entries of these profiles. */
  async forgetGone(digest: string, profiles: ReadonlySet<string>): Promise<void> {
    for (const one of await this.find(digest)) if (profiles.has(one)) await this.#giverOf(digest, one);
  }

  async #giverOf(digest: string, profileId: string): Promise<Indexed | undefined> {
    const given = await this.givenAt(digest, profileId);
    if (given !== undefined) return given;
    await writeKey(this.store, this.store.keys.email(digest), ['ZREM', profileId]);
    // A returning visitor may have given the address concurrently.
    const again = await this.givenAt(digest, profileId);
    if (again !== undefined) await this.index(digest, profileId);
    return again;
  }

  /** The digest must be a member of the profile. */
  async index(digest: string, profileId: string): Promise<void> {
    const key = this.store.keys.email(digest);
    await writeKey(this.store, key, ['ZADD', Date.now(), profileId]);
    const dropped = Number(await writeKey(this.store, key, ['ZREMRANGEBYRANK', 0, -1 - MAX_PROFILES]));
    if (dropped > 0) this.onDropped?.(dropped);
  }
}

function rank(profileId: string): string {
  return `${profileId[profileId.indexOf('.') + 1] === 'c' ? 0 : 1} ${profileId}`;
}
