// From a name to its profile, and on to what is asked of that profile.
//
// An identity starts out with the profile id that is computed from its name (its own). Where it was linked
// to another profile, the ledger says so and the question goes there: one more round trip, which a cache of
// such links saves the next time. The cache may be stale, and need not know: the profile that it names has
// the last word (it was merged away, or this session moved on), and says where to go.

import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import { type AtProfile, MAX_HOPS } from '../redis/at-profile.js';
import type { EntryKind, Ledger } from '../visits/ledger.js';
import type { ProfileIds } from './profile-id.js';

export interface Settled {
  readonly profileId: string;
  /** The count, where the entry asked for one; else 0. */
  readonly count: number;
  /** False only where a peek found no profile; `profileId` is then the one that the identity would get. */
  readonly known: boolean;
}

/** Links that one process remembers; about 200 bytes each. */
const CACHED_LINKS = 100_000;

export class Identities {
  readonly #ledger: Ledger;
  readonly #profileIds: ProfileIds;
  readonly #atProfile: AtProfile;
  /** name -> profile, only for names whose profile is not their own */
  readonly #links = new LRUCache<string, string>({ max: CACHED_LINKS });

  constructor(ledger: Ledger, profileIds: ProfileIds, atProfile: AtProfile) {
    this.#ledger = ledger;
    this.#profileIds = profileIds;
    this.#atProfile = atProfile;
  }

  /** The profile that a name gets when it is first written, whether or not it was. */
  ownProfile(name: string): string {
    return this.#profileIds.of(name);
  }

  /** The profile that this process last saw for a name; may be stale. */
  believed(name: string): string {
    return this.#links.get(name) ?? this.#profileIds.of(name);
  }

  /** Enters something in the ledger for an identity, wherever its profile is. Creates what `kind` creates. */
  enter(kind: EntryKind, name: string, handle = '', operationId?: string): Promise<Settled> {
    return this.settle(
      name,
      (profileId, own) => this.#ledger.enter({ kind, name, profileId, own, handle, operationId }),
      (profileId, answer) => ({
        profileId,
        count: typeof answer === 'number' ? answer : 0,
        known: answer !== '',
      }),
    );
  }

  /**
   * Asks at the profile that an identity is believed to have, and wherever that sends it.
   * @param ask does what is to be done there (`own`: the identity's own profile), or answers another profile's id
   * @param tell what to make of the first answer that is no profile's id, and of the profile that gave it
   * @throws what `ask` throws
   */
  settle<Answer, Told>(
    name: string,
    ask: (profileId: string, own: boolean) => Promise<Answer>,
    tell: (profileId: string, answer: Answer) => Told,
  ): Promise<Told> {
    const own = this.#profileIds.of(name);
    const believed = this.#links.size === 0 ? own : (this.#links.get(name) ?? own);
    // Nearly all are asked once, and need no function that can be suspended.
    return ask(believed, believed === own).then((answer) =>
      isElsewhere(answer) ? this.#follow(name, own, believed, answer, ask, tell) : tell(believed, answer),
    );
  }

  async #follow<Answer, Told>(
    name: string,
    own: string,
    believed: string,
    sentTo: string,
    ask: (profileId: string, own: boolean) => Promise<Answer>,
    tell: (profileId: string, answer: Answer) => Told,
  ): Promise<Told> {
    let profileId = believed;
    let target = sentTo;
    for (let hop = 1; hop < MAX_HOPS; hop++) {
      profileId = await this.#atProfile.follow(profileId, target);
      const answer = await ask(profileId, profileId === own);
      if (!isElsewhere(answer)) {
        if (profileId !== believed) this.remember(name, profileId);
        return tell(profileId, answer);
      }
      target = answer;
    }
    throw new ServiceError('internal');
  }

  /**
   * As `enter`, but only where the identity has this very profile; undefined, and nothing done, otherwise.
   */
  async enterAt(
    profileId: string,
    kind: EntryKind,
    name: string,
    handle: string,
    operationId?: string,
  ): Promise<Settled | undefined> {
    const own = profileId === this.#profileIds.of(name);
    const answer = await this.#ledger.enter({ kind, name, profileId, own, handle, operationId });
    if (typeof answer === 'string') return undefined;
    return { profileId, count: answer ?? 0, known: true };
  }

  remember(name: string, profileId: string): void {
    if (profileId !== this.#profileIds.of(name)) this.#links.set(name, profileId);
    else if (this.#links.size > 0) this.#links.delete(name);
  }
}

/** Whether an answer is the id of another profile. */
function isElsewhere(answer: unknown): answer is string {
  return typeof answer === 'string' && answer !== '';
}
