// The contract's table "Identity and profile" on plain objects. A profile is named by its first identity's letter, or by freshOf.

import type { Act, Answer, Who } from './acts.js';

interface Profile {
  readonly owner: string | undefined;
  readonly counts: Readonly<Record<string, number>>;
  readonly items: readonly string[];
}

const EMPTY: Profile = { owner: undefined, counts: {}, items: [] };

/** The profile of an identity whose default profile has become another customer's. */
export function freshOf(letter: string): string {
  return `${letter}*`;
}

export class Model {
  /** Identity -> profile, for those that have one. */
  readonly #at: Map<string, string>;
  readonly #profiles: Map<string, Profile>;
  readonly #targets: Map<string, string>;
  readonly #keys: Map<string, Answer>;
  readonly #mails: Map<string, string>;

  constructor(other?: Model) {
    this.#at = new Map(other ? other.#at : []);
    this.#profiles = new Map(other ? other.#profiles : []);
    this.#targets = new Map(other ? other.#targets : []);
    this.#keys = new Map(other ? other.#keys : []);
    this.#mails = new Map(other ? other.#mails : []);
  }

  get merges(): readonly (readonly [string, string])[] {
    return [...this.#targets].map(([from]) => [from, this.targetOf(from)] as const);
  }

  targetOf(profile: string): string {
    const target = this.#targets.get(profile);
    return target === undefined ? profile : this.targetOf(target);
  }

  whose(letter: string): string {
    return this.#at.get(letter) ?? letter;
  }

  /** What a link may do first, seen by others: makes the customer, where neither is known. */
  begin({ customer, session }: Required<Who>): boolean {
    if (this.#at.has(customer) || this.#at.has(session)) return false;
    this.#make(customer);
    return true;
  }

  makeKnown(letter: string): boolean {
    return !this.#at.has(letter) && this.#make(letter) !== '';
  }

  link({ customer, session }: Required<Who>): string {
    const [ofCustomer, ofSession] = [this.#at.get(customer), this.#at.get(session)];
    const guest = ofSession === undefined ? undefined : this.#of(ofSession);
    if (ofSession !== undefined && ofCustomer === undefined && guest?.owner === undefined) {
      this.#change(ofSession, { owner: customer });
      this.#at.set(customer, ofSession);
      return ofSession;
    }
    const target = this.#make(customer);
    if (guest !== undefined && ofSession !== undefined && ofSession !== target && guest.owner === undefined) {
      const { counts, items } = this.#of(target);
      const sum: Record<string, number> = { ...counts };
      for (const [handle, n] of Object.entries(guest.counts)) sum[handle] = (sum[handle] ?? 0) + n;
      this.#change(target, { counts: sum, items: [...new Set([...items, ...guest.items])].sort() });
      this.#profiles.delete(ofSession);
      this.#targets.set(ofSession, target);
    }
    this.#at.set(session, target);
    return target;
  }

  /** @param linked the profile that the act's link led to */
  act(act: Act, linked?: string): Answer {
    const letter = act.who.customer ?? (act.who.session as string);
    const there = linked === undefined ? this.whose(letter) : this.targetOf(linked);
    const make = () => (linked === undefined ? this.#make(letter) : there);
    switch (act.do) {
      case 'link':
        return { profileId: there };
      case 'visit': {
        const done = act.key === undefined ? undefined : this.#keys.get(act.key);
        if (done !== undefined) return done;
        const profileId = make();
        const { counts } = this.#of(profileId);
        const count = (counts[act.handle] ?? 0) + 1;
        this.#change(profileId, { counts: { ...counts, [act.handle]: count } });
        if (act.key === undefined) return { profileId };
        this.#keys.set(act.key, { profileId, count });
        return { profileId, count };
      }
      case 'reset': {
        if (!this.#profiles.has(there)) return { profileId: there };
        const { [act.handle]: _, ...counts } = this.#of(there).counts;
        this.#change(there, { counts });
        return { profileId: there };
      }
      case 'read':
        return { profileId: there, count: this.#of(there).counts[act.handle] ?? 0 };
      case 'event':
        return { profileId: make() };
      case 'add': {
        const profileId = make();
        this.#change(profileId, {
          items: [...new Set([...this.#of(profileId).items, act.product])].sort(),
        });
        return { profileId };
      }
      case 'erase':
        this.#erase(this.#at.get(letter));
        return { profileId: letter };
      case 'mail':
        this.#mails.set(letter, there);
        return { profileId: there };
      case 'eraseMail': {
        const profile = this.#mails.get(letter);
        this.#erase(profile && this.targetOf(profile));
        return { profileId: letter };
      }
      case 'list':
        return { profileId: there, items: this.#of(there).items };
    }
  }

  /** All identities of the profile are unknown then, save those whose default profile is another customer's: a fresh one. */
  #erase(profile: string | undefined): void {
    if (profile === undefined || !this.#profiles.has(profile)) return;
    const merged = [...this.#targets.keys()].filter((from) => this.targetOf(from) === profile);
    const unlinked = [...this.#at].filter(([, at]) => at === profile).map(([each]) => each);
    for (const [each, at] of [...this.#mails]) if (this.targetOf(at) === profile) this.#mails.delete(each);
    for (const from of merged) this.#targets.delete(from);
    this.#profiles.delete(profile);
    for (const each of unlinked) {
      this.#at.delete(each);
      if (!this.#profiles.has(this.targetOf(each))) continue;
      this.#at.set(each, freshOf(each));
      this.#profiles.set(freshOf(each), EMPTY);
    }
  }

  #of(profile: string): Profile {
    return this.#profiles.get(profile) ?? EMPTY;
  }

  #make(letter: string): string {
    const there = this.#at.get(letter);
    if (there !== undefined) return there;
    this.#at.set(letter, letter);
    this.#profiles.set(letter, { ...EMPTY, owner: letter <= 'M' ? letter : undefined });
    return letter;
  }

  #change(profile: string, change: Partial<Profile>): void {
    this.#profiles.set(profile, { ...this.#of(profile), ...change });
  }
}
