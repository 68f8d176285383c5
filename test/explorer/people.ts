// Each letter of a scenario is a new person in each schedule, in no server's cache. What Redis holds is shown by letters.

import type { Act, Answer, Who } from './acts.js';
import { addressOf, nameOf, type Server } from './server.js';

const SLOT_COUNT = 16_384;
const NODES = 3;

export class People {
  readonly #ids = new Map<string, string>();
  /** Letter -> profile, and back. */
  readonly #profiles = new Map<string, string>();
  readonly #letters = new Map<string, string>();
  readonly #spellings: [string, string][] = [];

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
        const profile = server.profileOf(nameOf(letter, id));
        const bucket = profile.slice(0, profile.indexOf('.'));
        // A number is the tag of a stream.
        if (buckets.has(bucket) || /^\d+$/.test(bucket)) continue;
        const slot = await slotOf?.(bucket);
        if (slot !== undefined && Math.floor((slot * NODES) / SLOT_COUNT) !== i % NODES) continue;
        buckets.add(bucket);
        people.#learn(letter, id, profile, server.digestOf(addressOf(id)));
        break;
      }
    }
    return people;
  }

  private constructor(private readonly prefix: string) {}

  #learn(letter: string, id: string, profile: string, digest: string): void {
    const [bucket, hash] = profile.split('.') as [string, string];
    this.#ids.set(letter, id);
    this.#profiles.set(letter, profile);
    this.#letters.set(profile, letter);
    this.#spellings.push(
      [profile, `P${letter}`],
      [`{${bucket}}`, `{${letter}}`],
      [hash, `P${letter}`],
      [nameOf(letter, id), letter],
      [id, letter],
      [digest, `address of ${letter}`],
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

  profiles(): ReadonlyMap<string, string> {
    return this.#profiles;
  }

  letterOf(profileId: string): string {
    return this.#letters.get(profileId) ?? profileId;
  }

  letters(answer: Answer): Answer {
    const state = answer.state === undefined ? {} : { state: this.letterOf(answer.state) };
    return { ...answer, profileId: this.letterOf(answer.profileId), ...state };
  }

  /** What a call touches: slots of people, codes, addresses and keys, and pending work. */
  tagsIn(name: string, text: string): string[] {
    const spelled = this.spell(text);
    if (name === 'writeKey' && spelled.includes(':pending\n'))
      return [spelled.slice(spelled.lastIndexOf('\n'))];
    return [...spelled.matchAll(/\{([A-Z]|(?:share|email|request):[^}]+)\}/g)].map(
      ([, tag]) => tag as string,
    );
  }

  /** A text of Redis's with letters for people, and without the prefix. */
  spell(text: string): string {
    let spelled = text.replaceAll(`${this.prefix}:{`, '{');
    for (const [from, to] of this.#spellings) spelled = spelled.replaceAll(from, to);
    return spelled;
  }
}
