// Each letter of a scenario is a new person in each schedule, and no server has it in its cache. Data of
// Redis are shown with letters.

import { identityName } from '../../src/identity-rules.js';
import { bucketOf } from '../../src/redis/keys.js';
import type { Act, Answer } from './acts.js';

export class People {
  readonly #ids = new Map<string, string>();
  readonly #letters = new Map<string, string>();
  readonly #spellings: (readonly [string, string])[] = [];

  /** @param number of the first id to try */
  constructor(
    readonly letters: readonly string[],
    server: { profileOf(name: string): string; digestOf(address: string): string },
    private readonly prefix: string,
    number: () => number,
  ) {
    const buckets = new Set<string>();
    for (const letter of letters)
      while (!this.#ids.has(letter)) {
        const id = `${letter}${String(number()).padStart(8, '0')}`;
        const profile = server.profileOf(nameOf(letter, id));
        const bucket = bucketOf(profile);
        // A number would be the tag of a stream.
        if (buckets.has(bucket) || /^\d+$/.test(bucket)) continue;
        buckets.add(bucket);
        this.#ids.set(letter, id);
        this.#letters.set(profile, letter);
        const hash = profile.slice(bucket.length + 1);
        for (const text of [profile, hash]) this.#spellings.push([text, `P${letter}`]);
        for (const text of [nameOf(letter, id), id]) this.#spellings.push([text, letter]);
        this.#spellings.push([`{${bucket}}`, `{${letter}}`]);
        this.#spellings.push([server.digestOf(addressOf(id)), `address of ${letter}`]);
      }
  }

  real(act: Act): Act {
    const idOf = (letter: string | undefined) => this.#ids.get(letter ?? '');
    const what = act.do === 'keyed' ? [...this.#ids.values()].join() : act.what;
    return { ...act, customer: idOf(act.customer), session: idOf(act.session), what };
  }

  letterOf(profileId: string): string {
    return this.#letters.get(profileId) ?? profileId;
  }

  spellAnswer(answer: Answer): Answer {
    const state = answer.state === undefined ? {} : { state: this.letterOf(answer.state) };
    return { ...answer, profileId: this.letterOf(answer.profileId), ...state };
  }

  /** Replaces people by letters in a text of Redis, and removes the prefix. */
  spell(text: string): string {
    let spelled = text.replaceAll(`${this.prefix}:{`, '{');
    for (const [from, to] of this.#spellings) spelled = spelled.replaceAll(from, to);
    return spelled;
  }

  /** The slots of people, codes, addresses and requests, or the pending work, that a call touches. */
  tagsIn(text: string): string[] {
    const spelled = this.spell(text);
    if (/\nZ(ADD|REM)\n.*\n(merge|leave|erase) /s.test(spelled))
      return [spelled.slice(spelled.lastIndexOf('\n'))];
    return [...spelled.matchAll(/\{([A-Z]|(?:share|email|request):[^}]+)\}/g)].map(
      ([, tag]) => tag as string,
    );
  }
}

function nameOf(letter: string, id: string): string {
  return identityName(letter <= 'M' ? 'c' : 's', id);
}

export function addressOf(id: string): string {
  return `${id}@explorer.example`.toLowerCase();
}
