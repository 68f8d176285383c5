// What is known of a visitor: e-mail, names, device, locale. It stays in Redis and never enters `events`.
// It is written with every request that has it: a process that remembered what it wrote could not know of an erasure,
// or of what another process wrote since. A device or a locale alone says nothing about a person and is with every event
// anyway: they are kept beside an address or a name.

import { type Identity, namesIn } from '../identity-rules.js';
import type { AtProfile } from '../redis/at-profile.js';
import type { Keys } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Emails } from './emails.js';
import type { ProfileIds } from './profile-id.js';

const PROFILE = loadScript('profile');
const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale'] as const;

/** Whether an identity says who its visitor is. */
export function isPersonal({ email, firstName, lastName }: Identity): boolean {
  return email !== null || firstName !== null || lastName !== null;
}

export class Profiles {
  readonly #atProfile: AtProfile;
  readonly #profileIds: ProfileIds;
  readonly #emails: Emails;
  readonly #guestsS: number;

  /** @param guestsS see StoreOptions */
  constructor(atProfile: AtProfile, profileIds: ProfileIds, emails: Emails, guestsS: number) {
    this.#guestsS = guestsS;
    this.#atProfile = atProfile;
    this.#profileIds = profileIds;
    this.#emails = emails;
  }

  /**
   * Keeps what an identity says about its visitor, where it says who that is.
   * @param resolve finds the visitor's profile, or makes it
   */
  async learn(identity: Identity, resolve: () => Promise<{ readonly profileId: string }>): Promise<void> {
    if (isPersonal(identity)) await this.keep((await resolve()).profileId, identity);
  }

  /** Keeps all that an identity says. Facts that it does not give stay as they were. */
  async keep(profileId: string, identity: Identity): Promise<void> {
    const facts: string[] = [];
    for (const name of FACTS) {
      const value = identity[name];
      if (value !== null) facts.push(name, value);
    }
    if (facts.length === 0) return;
    const now = new Date().toISOString();
    const names = namesIn(identity);
    const maker = names.find((name) => this.#profileIds.of(name) === profileId) ?? '';
    const keysOf = (keys: Keys, id: string) => [keys.profile(id), keys.door(id)];
    await this.#atProfile.run('change', profileId, PROFILE, keysOf, [maker, now, this.#guestsS, ...facts]);
    if (identity.email !== null) await this.#emails.note(profileId, names, identity.email);
  }
}
