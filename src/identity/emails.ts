// Which visitors an e-mail address was given for. Nothing is merged by it; it only answers what the visitor asks of the
// shop: show me, erase me. An address is neither a key nor kept here: the index knows it by a digest under the
// deployment's salt, and leads to profiles, which lead on to what they were merged into.
//
// A profile knows the digests that lead to it before they do, so an erasure finds them; what was indexed too late is
// looked at again, and taken away.

import { createHmac } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { fitsBytes, isPlainText } from '../identity-rules.js';
import { type AtProfile, ERASED, MAX_HOPS } from '../redis/at-profile.js';
import type { Keys } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { ProfileIds } from './profile-id.js';

const NOTE = loadScript<string | number>('email-note');
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
  readonly #atProfile: AtProfile;
  readonly #profileIds: ProfileIds;

  constructor(store: Store, atProfile: AtProfile, profileIds: ProfileIds) {
    this.#store = store;
    this.#atProfile = atProfile;
    this.#profileIds = profileIds;
  }

  /** @param email see normaliseEmail */
  digest(email: string): string {
    return createHmac('sha256', this.#store.deployment.salt).update(`e-mail\n${email}`).digest('base64url');
  }

  /**
   * Notes that an address was given for a visitor; does nothing where there is no such visitor.
   * @param names of the visitor's identity, see namesIn @throws ServiceError `unavailable`
   */
  async note(profileId: string, names: readonly string[], email: string): Promise<void> {
    const normal = normaliseEmail(email);
    if (normal === undefined) return;
    const digest = this.digest(normal);
    const { keys } = this.#store;
    const makerOf = (id: string) => names.find((name) => this.#profileIds.of(name) === id) ?? '';
    const keysOf = (of: Keys, id: string) => [of.profile(id), of.merged(id), of.door(id)];
    const args = [`@${digest}`, makerOf(profileId), this.#store.guestsS];
    const { profileId: at, reply } = await this.#atProfile.run('change', profileId, NOTE, keysOf, args);
    if (reply === 0) return;
    const maker = makerOf(at);
    await this.#store.change(PUT, [keys.email(digest)], ['put', at, maker]);
    const [isNoted, heir] = await Promise.all([this.#isNoted(digest, at), this.#heirOf(at)]);
    if (!isNoted && [null, ERASED].includes(heir)) await this.forget(digest, [at]);
  }

  /**
   * Whether an address was given for the visitor who has a profile now, or is being erased; not where the index was left
   * behind by an erasure, and the profile is that of one who came back. @throws ServiceError `unavailable`
   */
  async isGivenFor(digest: string, profileId: string): Promise<boolean> {
    let at = profileId;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      // In this order: a merge or an erasure that takes it away has begun before. A merge takes it along.
      if (await this.#isNoted(digest, at)) return true;
      const heir = await this.#heirOf(at);
      if (heir === null || heir === ERASED) return heir === ERASED;
      at = await this.#atProfile.follow(at, heir);
    }
    throw new ServiceError('internal');
  }

  async #isNoted(digest: string, profileId: string): Promise<boolean> {
    const key = this.#store.keys.merged(profileId);
    return (await this.#store.call((client) => client.hexists(key, `@${digest}`))) === 1;
  }

  async #heirOf(profileId: string): Promise<string | null> {
    return this.#store.call((client) => client.hget(this.#store.keys.profile(profileId), 'heir'));
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
      if (await this.isGivenFor(digest, profileId)) given.push(one);
      else {
        await this.forget(digest, [profileId]);
        // The visitor who came back may have given it just now.
        if (await this.#isNoted(digest, profileId))
          await this.#store.change(PUT, [this.#store.keys.email(digest)], ['put', profileId, maker]);
      }
    }
    return given;
  }

  async forget(digest: string, profiles: readonly string[]): Promise<void> {
    await this.#store.change(PUT, [this.#store.keys.email(digest)], ['forget', ...profiles]);
  }
}

function rank({ maker, profileId }: Indexed): string {
  return `${/^[cC]:/.test(maker) ? 0 : 1} ${profileId}`;
}
