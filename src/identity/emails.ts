// Which visitors an e-mail address was given for. Nothing is merged by it; it only answers what the visitor asks of the
// shop: show me, erase me. An address is neither a key nor kept here: the index knows it by a digest under the
// deployment's salt, and leads to profiles, which lead on to what they were merged into.
//
// A profile lists a digest among its members (lua/facts.lua) before the index leads to it, so an erasure finds it; what was
// indexed too late is looked at again, and taken away.

import { createHmac } from 'node:crypto';
import { fitsBytes, isPlainText } from '../identity-rules.js';
import { MAX_HOPS, type Place } from '../redis/place.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { ProfileIds } from './profile-id.js';
import type { Redirects } from './redirects.js';

const PUT = loadScript('email-put');
const MAX_BYTES = 320;

export interface Indexed {
  readonly profileId: string;
  /** The identity whose default profile it is; empty where that is not known. */
  readonly creator: string;
}

/** An address as addresses are compared; undefined where it is none. */
export function normaliseEmail(email: unknown): string | undefined {
  if (typeof email !== 'string') return undefined;
  const normal = email.trim().toLowerCase();
  return normal.includes('@') && fitsBytes(normal, MAX_BYTES) && isPlainText(normal) ? normal : undefined;
}

export class Emails {
  readonly #store: Store;
  readonly #redirects: Redirects;
  readonly #profileIds: ProfileIds;

  constructor(store: Store, redirects: Redirects, profileIds: ProfileIds) {
    this.#store = store;
    this.#redirects = redirects;
    this.#profileIds = profileIds;
  }

  /** @param email see normaliseEmail */
  digest(email: string): string {
    return createHmac('sha256', this.#store.deployment.salt).update(`e-mail\n${email}`).digest('base64url');
  }

  /**
   * Leads an address to a profile that has its digest among its members.
   * @param names of the visitor's identity, see namesIn @throws ServiceError `unavailable`
   */
  async index(digest: string, profileId: string, names: readonly string[]): Promise<void> {
    const creator = names.find((name) => this.#profileIds.of(name) === profileId) ?? '';
    await this.#store.change(PUT, [this.#store.keys.email(digest)], ['put', profileId, creator]);
    await this.#isGiven(digest, { profileId, creator });
  }

  /**
   * Where the visitor is for whom an address was given, by the profile of that moment. Undefined where the index was left
   * behind by an erasure; the profile may be that of one who came back. @throws ServiceError `unavailable`
   */
  async givenAt(digest: string, profileId: string): Promise<Place | undefined> {
    let place = await this.#redirects.placeOf(profileId);
    for (let hop = 0; hop < MAX_HOPS && place !== undefined; hop++) {
      const key = this.#store.keys.members(place.profileId);
      if ((await this.#store.call((client) => client.hexists(key, `@${digest}`))) === 1) return place;
      // A merge takes the digest along.
      const now = await this.#redirects.placeOf(profileId);
      if (now?.profileId === place.profileId) return undefined;
      place = now;
    }
    return undefined;
  }

  /** The visitors of an address, customers first. @throws ServiceError `unavailable` */
  async find(digest: string): Promise<Indexed[]> {
    const found = await this.#store.call((client) => client.hgetall(this.#store.keys.email(digest)));
    return Object.entries(found)
      .map(([profileId, creator]) => ({ profileId, creator }))
      .sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  }

  /**
   * `find` without index entries of guests who ended, or that an erasure left behind: these are removed. Another visitor may
   * have the profile now.
   */
  async findGiven(digest: string): Promise<Indexed[]> {
    const given: Indexed[] = [];
    for (const one of await this.find(digest)) if (await this.#isGiven(digest, one)) given.push(one);
    return given;
  }

  /** Removes index entries of profiles for which the address is not given any more. @throws ServiceError `unavailable` */
  async forgetGone(digest: string, profiles: readonly string[]): Promise<void> {
    for (const one of await this.find(digest))
      if (profiles.includes(one.profileId)) await this.#isGiven(digest, one);
  }

  /** Whether a visitor is there whom an index entry leads to; else the entry is removed. */
  async #isGiven(digest: string, { profileId, creator }: Indexed): Promise<boolean> {
    if ((await this.givenAt(digest, profileId)) !== undefined) return true;
    const key = this.#store.keys.email(digest);
    await this.#store.change(PUT, [key], ['forget', profileId]);
    // The visitor who came back may have given it just now.
    if ((await this.givenAt(digest, profileId)) === undefined) return false;
    await this.#store.change(PUT, [key], ['put', profileId, creator]);
    return true;
  }
}

function rank({ creator, profileId }: Indexed): string {
  return `${/^[cC]:/.test(creator) ? 0 : 1} ${profileId}`;
}
