// Facts of a visitor. E-mail and names stay in Redis, and never enter `events`. Not cached, because a cache would miss
// erasures.

import { type Identity, isPlaceholderEmail, namesIn, normaliseEmail } from '../identity-rules.js';
import type { Location } from '../redis/location.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { type Emails, memberOf } from './emails.js';
import type { Located } from './locator.js';
import type { ProfileIds } from './profile-id.js';
import type { Visitors } from './visitors.js';

const STORE_FACTS = loadScript<string | number>('profiles/storeFacts');
const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale'] as const;

export function isPersonal({ email, firstName, lastName }: Identity): boolean {
  return email !== null || firstName !== null || lastName !== null;
}

function hasFacts(who: Identity): boolean {
  return FACTS.some((name) => who[name] !== null);
}

interface Source {
  /** True to index the address. */
  readonly leads: boolean;
  /** When the order that has the facts came, ms; empty if no order has them. */
  readonly orderedAt: number | '';
}

export class Profiles {
  constructor(
    private readonly store: Store,
    private readonly visitors: Visitors,
    private readonly emails: Emails,
    private readonly profileIds: ProfileIds,
  ) {}

  /** Creates an unknown visitor. @param leads true to index the address, which a server gave */
  async keep(who: Identity, mayLink: boolean, leads: boolean): Promise<string> {
    if (!hasFacts(who)) return this.visitors.resolve(who, mayLink);
    return (await this.#store(who, mayLink, { leads, orderedAt: '' })).profileId;
  }

  /** Creates an unknown visitor. @returns false if the visitor was erased after the order came, at `orderedAt` in ms */
  async keepOfOrder(who: Identity, orderedAt: number): Promise<boolean> {
    return (await this.#store(who, false, { leads: true, orderedAt })).answer === 1;
  }

  async #store(who: Identity, mayLink: boolean, { leads, orderedAt }: Source): Promise<Located<number>> {
    const email = leads ? normaliseEmail(who.email) : undefined;
    const digest = email === undefined || isPlaceholderEmail(email) ? '' : this.emails.digest(email);
    const stored = await this.visitors.change<number>(who, mayLink, (location) =>
      this.#write(location, who, digest, orderedAt),
    );
    if (digest !== '' && stored.answer === 1) await this.emails.index(digest, stored.profileId);
    return stored;
  }

  async #write(
    location: Location,
    who: Identity,
    digest: string,
    orderedAt: Source['orderedAt'],
  ): Promise<string | number> {
    const { keys, guestsS } = this.store;
    const { profileId, session, linkId } = location;
    const facts: string[] = [];
    for (const name of FACTS) {
      const value = who[name];
      if (value !== null) facts.push(name, value);
    }
    const member = digest === '' ? '' : memberOf(digest);
    // An export or erasure that finds the profile by its address needs the name.
    const name = namesIn(who).find((one) => this.profileIds.of(one) === profileId);
    if (member !== '' && name !== undefined) facts.push('name', name);
    const touched = [keys.profile(profileId), keys.members(profileId), keys.erasedAt(profileId)];
    const now = new Date().toISOString();
    const args = [session, linkId, guestsS, now, member, orderedAt, ...facts];
    return this.store.change(STORE_FACTS, touched, args);
  }
}
