// Each letter of a scenario is a new person in each schedule, in no server's cache. What Redis holds is shown by letters.

import type { Act, Who } from './acts.js';
import { freshOf } from './model.js';
import { nameOf, type Server } from './server.js';

const SLOT_COUNT = 16_384;
const NODES = 3;

function kindOf(letter: string): 'customer' | 'session' {
  return letter <= 'M' ? 'customer' : 'session';
}

export class People {
  readonly #ids = new Map<string, string>();
  /** Letter -> profile, and back. */
  readonly #profiles = new Map<string, string>();
  readonly #letters = new Map<string, string>();
  readonly #spellings: [string, string][] = [];
  readonly #buckets = new Map<string, string>();

  /** @param number of the first id to try @param slotOf a bucket's slot, if nodes matter: a letter is always on the same node */
  static async find(
    letters: readonly string[],
    server: Server,
    prefix: string,
    number: () => number,
    slotOf?: (bucket: string) => Promise<number>,
  ): Promise<People> {
    const people = new People(prefix);
    const buckets = new Set<string>();
    for (const [i, letter] of letters.entries()) {
      for (;;) {
        const id = `${letter}${String(number()).padStart(8, '0')}`;
        const profile = server.defaultProfile(kindOf(letter), id);
        const bucket = profile.slice(0, profile.indexOf('.'));
        if (buckets.has(bucket)) continue;
        const slot = await slotOf?.(bucket);
        if (slot !== undefined && Math.floor((slot * NODES) / SLOT_COUNT) !== i % NODES) continue;
        buckets.add(bucket);
        people.#learn(letter, id, profile);
        break;
      }
    }
    return people;
  }

  private constructor(private readonly prefix: string) {}

  #learn(letter: string, id: string, profile: string): void {
    const dot = profile.indexOf('.');
    this.#ids.set(letter, id);
    this.#profiles.set(letter, profile);
    this.#letters.set(profile, letter);
    this.#buckets.set(profile.slice(0, dot), letter);
    this.#spellings.push(
      [profile, `P${letter}`],
      [`{${profile.slice(0, dot)}}`, `{${letter}}`],
      [profile.slice(dot + 1), `P${letter}`],
      [nameOf(kindOf(letter), id), letter],
      [id, letter],
    );
  }

  real<A extends Act>(act: A): A {
    const { customer, session } = act.who;
    const who: Who = {
      ...(customer === undefined ? {} : { customer: this.#ids.get(customer) as string }),
      ...(session === undefined ? {} : { session: this.#ids.get(session) as string }),
    };
    const key = 'key' in act ? { key: `${act.key}-${[...this.#ids.values()].join('-')}` } : {};
    return { ...act, who, ...key };
  }

  defaultProfile(letter: string): string {
    return this.#profiles.get(letter) as string;
  }

  /** Whose profile an id is: of a letter by default or freshOf it, or the id itself where it is no person's. */
  ownerOf(profileId: string): string {
    const letter = this.#letters.get(profileId);
    if (letter !== undefined) return letter;
    const ofBucket = this.#buckets.get(profileId.slice(0, profileId.indexOf('.')));
    return ofBucket === undefined ? profileId : freshOf(ofBucket);
  }

  /** A text of Redis's with letters for people, and without the prefix. */
  spell(text: string): string {
    let spelled = text.startsWith(`${this.prefix}:`) ? text.slice(this.prefix.length + 1) : text;
    for (const [from, to] of this.#spellings) spelled = spelled.replaceAll(from, to);
    return spelled;
  }
}
