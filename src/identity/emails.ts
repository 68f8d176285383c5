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
  /** The identity whose own profile it is; empty where that is not known. */
  readonly maker: string;
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
    const maker = names.find((name) => this.#profileIds.of(name) === profileId) ?? '';
    await this.#store.change(PUT, [this.#store.keys.email(digest)], ['put', profileId, maker]);
    if ((await this.givenAt(digest, profileId)) === undefined) await this.forget(digest, [profileId]);
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
      .map(([profileId, maker]) => ({ profileId, maker }))
      .sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  }

  /**
   * `find` without index entries of guests who ended, or that an erasure left behind: these are removed. Another visitor may
   * have the profile now.
   */
  async findGiven(digest: string): Promise<Indexed[]> {
    const given: Indexed[] = [];
    for (const one of await this.find(digest)) {
      const { profileId, maker } = one;
      if ((await this.givenAt(digest, profileId)) !== undefined) given.push(one);
      else {
        await this.forget(digest, [profileId]);
        // The visitor who came back may have given it just now.
        if ((await this.givenAt(digest, profileId)) !== undefined)
          await this.#store.change(PUT, [this.#store.keys.email(digest)], ['put', profileId, maker]);
      }
    }
    return given;
  }

  /** `forget` of those for whom it is not given any more; or again, by one who came back. @throws ServiceError `unavailable` */
  async forgetGone(digest: string, profiles: readonly string[]): Promise<void> {
    const gone: string[] = [];
    for (const profileId of profiles)
      if ((await this.givenAt(digest, profileId)) === undefined) gone.push(profileId);
    if (gone.length > 0) await this.forget(digest, gone);
  }

  async forget(digest: string, profiles: readonly string[]): Promise<void> {
    await this.#store.change(PUT, [this.#store.keys.email(digest)], ['forget', ...profiles]);
  }
}

function rank({ maker, profileId }: Indexed): string {
  return `${/^[cC]:/.test(maker) ? 0 : 1} ${profileId}`;
}
