// What is known of a visitor: e-mail, names, device, locale. It stays in Redis and never enters `events`.
// Written when it changes; a cache of what this process wrote last saves the rest.

import { LRUCache } from 'lru-cache';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Identity } from './rules.js';

const PROFILE = loadScript('profile');
const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale'] as const;

export class Profiles {
  readonly #store: Store;
  /** profile id -> the facts last written, as one text */
  readonly #written = new LRUCache<string, string>({ max: 50_000 });

  constructor(store: Store) {
    this.#store = store;
  }

  /** Keeps what an identity says about its visitor. Facts that it does not give stay as they were. */
  async learn(profileId: string, identity: Identity): Promise<void> {
    const facts: string[] = [];
    for (const name of FACTS) {
      const value = identity[name];
      if (value !== null) facts.push(name, value);
    }
    if (facts.length === 0) return;
    const text = facts.join('\n');
    if (this.#written.get(profileId) === text) return;
    const { keys } = this.#store;
    const now = new Date().toISOString();
    let at = profileId;
    for (;;) {
      const heir = await this.#store.run(PROFILE, [keys.profile(at), keys.visits(at)], [now, ...facts]);
      if (typeof heir !== 'string') break;
      at = heir;
    }
    this.#written.set(profileId, text);
  }
}
