// The contract's table "Identity and profile" on plain objects. A profile has the letter of its identity as
// its name.

import { type Act, type Answer, isErasure, RETIRED } from './acts.js';

interface Profile {
  readonly counts: Readonly<Record<string, number>>;
  readonly items: readonly string[];
  /** First the profile's own code, then those of merged sessions. */
  readonly codes: readonly string[];
}

const EMPTY: Profile = { counts: {}, items: [], codes: [] };

function empty() {
  return {
    /** Existing profiles, by letter. */
    profiles: new Map<string, Profile>(),
    /** Session -> customer. */
    links: new Map<string, string>(),
    /** Session -> customer whom its own data were merged into. */
    targets: new Map<string, string>(),
    keys: new Map<string, Answer>(),
    /** Address -> profile. */
    mails: new Map<string, string>(),
  };
}

export class Model {
  readonly #has: ReturnType<typeof empty>;

  constructor(other?: Model) {
    this.#has = other ? structuredClone(other.#has) : empty();
  }

  /** `<session>><customer>` of each merge whose customer is still there. */
  get merges(): readonly string[] {
    return [...this.#has.targets].map(([session, customer]) => `${session}>${customer}`);
  }

  /** A login makes the customer known before it links the session. */
  makeKnown(letter: string): boolean {
    return !this.#has.profiles.has(letter) && this.#change(letter, {});
  }

  /** Deletes a guest's data, as if they had been merged into a customer who is erased. */
  lose(session: string): void {
    this.#has.profiles.delete(session);
  }

  link({ customer, session }: { readonly customer: string; readonly session: string }): void {
    const { counts, items, codes } = this.#of(customer);
    const guest = this.#has.profiles.get(session);
    const sum: Record<string, number> = { ...counts };
    for (const [handle, n] of Object.entries(guest?.counts ?? {})) sum[handle] = (sum[handle] ?? 0) + n;
    this.#change(customer, {
      counts: sum,
      items: [...new Set([...items, ...(guest?.items ?? [])])].sort(),
      codes: [...codes, ...(guest?.codes ?? [])],
    });
    if (guest !== undefined) this.#has.targets.set(session, customer);
    for (const [address, at] of this.#has.mails) if (at === session) this.#has.mails.set(address, customer);
    this.#has.profiles.delete(session);
    this.#has.links.set(session, customer);
  }

  /** @returns the erased profile: its retired sessions are guests again only once it is freed */
  erase({ do: what, customer, session = '' }: Act): string {
    const letter = customer ?? session;
    const profile =
      what === 'erase' ? (this.#has.links.get(letter) ?? letter) : (this.#has.mails.get(letter) ?? '');
    if (this.#isRetired(profile)) return '';
    this.#has.profiles.delete(profile);
    for (const leading of [this.#has.links, this.#has.mails])
      for (const [from, to] of [...leading]) if (to === profile) leading.delete(from);
    return profile;
  }

  free(profile: string): void {
    for (const [session, to] of [...this.#has.targets]) if (to === profile) this.#has.targets.delete(session);
  }

  /** @param answered the answer of the act, which names a new share code */
  act(act: Act, answered?: Answer): Answer {
    const letter = act.customer ?? act.session ?? '';
    const { profiles } = this.#has;
    const opened = [...profiles].find((profile) => profile[1].codes.includes(act.what));
    if (act.do === 'open') return { profileId: opened?.[0] ?? 'nobody' };
    if (act.do === 'look') return { profileId: letter, state: this.#stateOf(letter) };
    if (isErasure(act)) this.free(this.erase(act));
    if (isErasure(act)) return { profileId: letter };
    const done = act.do === 'keyed' ? this.#has.keys.get(act.what) : undefined;
    if (done !== undefined) return done;
    const profileId = this.#has.links.get(letter) ?? letter;
    if (this.#isRetired(letter)) return { profileId: RETIRED };
    const { counts, items, codes } = this.#of(profileId);
    const { [act.what]: count = 0, ...others } = counts;
    if (act.do === 'read') return { profileId, count };
    if (act.do === 'list') return { profileId, items };
    let answer: Answer = { profileId };
    let change: Partial<Profile> = {};
    if (act.do === 'visit' || act.do === 'keyed') change = { counts: { ...others, [act.what]: count + 1 } };
    if (act.do === 'reset') change = { counts: others };
    if (act.do === 'add') change = { items: [...new Set([...items, act.what])].sort() };
    if (act.do === 'share') {
      // A request without an answer may have made a code.
      const [own = '?', ...merged] = codes;
      const code = own === '?' ? (answered?.code ?? '?') : own;
      [change, answer] = [{ codes: [code, ...merged] }, { profileId, code }];
    }
    if (act.do === 'keyed') answer = { profileId, count: count + 1 };
    if (act.do === 'keyed') this.#has.keys.set(act.what, answer);
    if (act.do === 'mail') this.#has.mails.set(letter, profileId);
    if (act.do !== 'reset' || this.#has.profiles.has(profileId)) this.#change(profileId, change);
    return answer;
  }

  #stateOf(letter: string): string {
    if (this.#isRetired(letter)) return RETIRED;
    return this.#has.links.get(letter) ?? (this.#has.profiles.has(letter) ? 'known' : 'unknown');
  }

  #isRetired(letter: string): boolean {
    return this.#has.targets.has(letter) && !this.#has.links.has(letter);
  }

  #of(profile: string): Profile {
    return this.#has.profiles.get(profile) ?? EMPTY;
  }

  #change(profile: string, change: Partial<Profile>): true {
    this.#has.profiles.set(profile, { ...this.#of(profile), ...change });
    return true;
  }
}
