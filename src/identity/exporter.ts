// All that Redis keeps of a visitor, for one who asks. Creates and links nothing.

import { bucketOf } from '../redis/keys.js';
import type { Store } from '../redis/store.js';
import type { Item } from '../wishlist/item.js';
import type { Items } from '../wishlist/items.js';
import type { Doors } from './doors.js';
import { isProfile } from './merge.js';
import { isCustomerName } from './rules.js';

export interface VisitorExport {
  readonly profileId: string;
  /** Profiles that were merged into it; events of then have their ids. */
  readonly earlier: readonly string[];
  /** Ids of over 62 bytes are held as digests, and not told. */
  readonly identities: { readonly customerIds: string[]; readonly sessionIds: string[] };
  readonly profile: Readonly<Record<string, string>>;
  readonly items: readonly Item[];
  /** Product handle -> count. */
  readonly visits: Readonly<Record<string, number>>;
  /** Share codes. */
  readonly shares: readonly string[];
}

/** What is told of a profile; other fields are how it is kept. */
const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale', 'createdAt', 'updatedAt'] as const;
const PAGE = 500;

export class Exporter {
  readonly #store: Store;
  readonly #doors: Doors;
  readonly #items: Items;

  constructor(store: Store, doors: Doors, items: Items) {
    this.#store = store;
    this.#doors = doors;
    this.#items = items;
  }

  /**
   * @param name of an identity, see identityName
   * @returns also of one that is unknown, with nothing in it @throws ServiceError `unavailable`
   */
  async export(name: string): Promise<VisitorExport> {
    const { room } = await this.#doors.where(name);
    const { profileId, items } = await this.#items.list(room ?? this.#doors.ownProfile(name));
    const { keys } = this.#store;
    const came = Object.keys(await this.#hash(keys.merged(profileId)));
    const names = new Set([name, ...came.filter((one) => /^[cs]:/.test(one))]);
    const facts = await this.#hash(keys.profile(profileId));
    const counts = await this.#hash(room === undefined ? keys.door(profileId) : keys.room(profileId));
    // The day on which a guest was seen has no name.
    const visits = Object.entries(counts).filter(([handle]) => handle !== '');
    const codes = [...came.filter((one) => one.startsWith('#')).map((one) => one.slice(1))];
    if (facts['share'] !== undefined) codes.unshift(facts['share']);
    const idsOf = (isWanted: (one: string) => boolean) =>
      [...names].filter((one) => /^[cs]:/.test(one) && isWanted(one)).map((one) => one.slice(2));
    return {
      profileId,
      earlier: came.filter((one) => isProfile(one) && bucketOf(one) !== ''),
      identities: {
        customerIds: idsOf(isCustomerName),
        sessionIds: idsOf((one) => !isCustomerName(one)),
      },
      profile: Object.fromEntries(FACTS.flatMap((fact) => (facts[fact] ? [[fact, facts[fact]]] : []))),
      items,
      visits: Object.fromEntries(visits.map(([handle, n]) => [handle, Number(n)])),
      shares: [...new Set(codes)],
    };
  }

  /** A hash, read in pages: it may be large. Empty where the key is a door's marker. */
  async #hash(key: string): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    if ((await this.#store.call((client) => client.type(key))) !== 'hash') return found;
    let cursor = '0';
    do {
      const from = cursor;
      const [next, fields] = await this.#store.call((client) => client.hscan(key, from, 'COUNT', PAGE));
      cursor = next;
      for (let i = 0; i < fields.length; i += 2) found[fields[i] as string] = fields[i + 1] as string;
    } while (cursor !== '0');
    return found;
  }
}
