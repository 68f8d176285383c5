// The contract's table "Identity and profile" on plain objects. A profile is named by its identity's letter.

import { type Act, type Answer, RETIRED, type Who } from './acts.js';

interface Profile {
  readonly counts: Readonly<Record<string, number>>;
  readonly items: readonly string[];
  /** The first is its own, the others are those of merged sessions. */
  readonly codes: readonly string[];
}

const EMPTY: Profile = { counts: {}, items: [], codes: [] };
/** The code that an unanswered request may have given. */
const UNTOLD = '?';

export class Model {
  /** Those that exist. */
  readonly #profiles: Map<string, Profile>;
  /** Session -> customer. */
  readonly #links: Map<string, string>;
  /** Session -> customer whom its own data were merged into. */
  readonly #targets: Map<string, string>;
  readonly #keys: Map<string, Answer>;
  /** Address -> profile. */
  readonly #mails: Map<string, string>;

  constructor(other?: Model) {
    this.#profiles = new Map(other ? other.#profiles : []);
    this.#links = new Map(other ? other.#links : []);
    this.#targets = new Map(other ? other.#targets : []);
    this.#keys = new Map(other ? other.#keys : []);
    this.#mails = new Map(other ? other.#mails : []);
  }

  /** `<session>><customer>` of each merge whose customer is still there. */
  get merges(): readonly string[] {
    return [...this.#targets].map(([session, customer]) => `${session}>${customer}`);
  }

  /** A login makes the customer known before it links the session. */
  makeKnown(letter: string): boolean {
    return !this.#profiles.has(letter) && this.#make(letter);
  }

  /** A guest's data go, as if they had been merged into a customer who is erased. */
  lose(session: string): void {
    this.#profiles.delete(session);
  }

  link({ customer, session }: Required<Who>): void {
    this.#make(customer);
    const guest = this.#profiles.get(session);
    if (guest !== undefined) {
      const { counts, items, codes } = this.#of(customer);
      const sum: Record<string, number> = { ...counts };
      for (const [handle, n] of Object.entries(guest.counts)) sum[handle] = (sum[handle] ?? 0) + n;
      this.#profiles.set(customer, {
        counts: sum,
        items: [...new Set([...items, ...guest.items])].sort(),
        codes: [...codes, ...guest.codes],
      });
      for (const [address, at] of this.#mails) if (at === session) this.#mails.set(address, customer);
      this.#profiles.delete(session);
      this.#targets.set(session, customer);
    }
    this.#links.set(session, customer);
  }

  /** @param answered the answer that the act got: it names a new share code */
  act(act: Act, answered?: Answer): Answer {
    if (act.do === 'open') return { profileId: this.#opens(act.code) };
    const letter = act.who.customer ?? (act.who.session as string);
    if (act.do === 'look') return { profileId: letter, state: this.#stateOf(letter) };
    if (act.do === 'erase' || act.do === 'eraseMail') {
      this.free(this.erase(act));
      return { profileId: letter };
    }
    const done = 'key' in act ? this.#keys.get(act.key) : undefined;
    if (done !== undefined) return done;
    const profileId = this.#links.get(letter) ?? letter;
    if (this.#isRetired(letter)) return { profileId: RETIRED };
    const { counts, items, codes } = this.#of(profileId);
    switch (act.do) {
      case 'link':
        return { profileId };
      case 'visit': {
        const count = (counts[act.handle] ?? 0) + 1;
        this.#change(profileId, { counts: { ...counts, [act.handle]: count } });
        if (act.key === undefined) return { profileId };
        this.#keys.set(act.key, { profileId, count });
        return { profileId, count };
      }
      case 'reset': {
        const { [act.handle]: _, ...others } = counts;
        if (this.#profiles.has(profileId)) this.#change(profileId, { counts: others });
        return { profileId };
      }
      case 'read':
        return { profileId, count: counts[act.handle] ?? 0 };
      case 'event':
        this.#make(profileId);
        return { profileId };
      case 'add':
        this.#change(profileId, { items: [...new Set([...items, act.product])].sort() });
        return { profileId };
      case 'share': {
        const [own = UNTOLD, ...others] = codes;
        const code = own === UNTOLD ? (answered?.code ?? UNTOLD) : own;
        this.#change(profileId, { codes: [code, ...others] });
        return { profileId, code };
      }
      case 'mail':
        this.#make(profileId);
        this.#mails.set(letter, profileId);
        return { profileId };
      case 'list':
        return { profileId, items };
    }
  }

  /** @returns the erased profile: retired sessions are guests again only once it is freed */
  erase({ do: what, who: { customer, session = '' } }: Act): string {
    const letter = customer ?? session;
    const profile = what === 'erase' ? (this.#links.get(letter) ?? letter) : (this.#mails.get(letter) ?? '');
    if (this.#isRetired(profile)) return '';
    this.#profiles.delete(profile);
    for (const leading of [this.#links, this.#mails])
      for (const [from, to] of [...leading]) if (to === profile) leading.delete(from);
    return profile;
  }

  free(profile: string): void {
    for (const [session, customer] of [...this.#targets])
      if (customer === profile) this.#targets.delete(session);
  }

  #opens(code: string): string {
    return [...this.#profiles].find(([, { codes }]) => codes.includes(code))?.[0] ?? 'nobody';
  }

  #stateOf(letter: string): string {
    if (this.#isRetired(letter)) return RETIRED;
    return this.#links.get(letter) ?? (this.#profiles.has(letter) ? 'known' : 'unknown');
  }

  #isRetired(letter: string): boolean {
    return this.#targets.has(letter) && !this.#links.has(letter);
  }

  #of(profile: string): Profile {
    return this.#profiles.get(profile) ?? EMPTY;
  }

  #make(profile: string): true {
    this.#profiles.set(profile, this.#of(profile));
    return true;
  }

  #change(profile: string, change: Partial<Profile>): void {
    this.#profiles.set(profile, { ...this.#of(profile), ...change });
  }
}
