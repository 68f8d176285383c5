// All that is kept of a visitor, for one who asks: what Redis has, and the rows that ClickHouse has under the present
// profile and all earlier ones. Creates and links nothing.

import type { ErasedProfile } from '../clickhouse/erase.js';
import type { VisitorRows } from '../clickhouse/visitor-rows.js';
import { ServiceError } from '../errors.js';
import { EVERY_PROFILE, type Identity, isCustomerName, namesIn } from '../identity-rules.js';
import { bucketOf } from '../redis/keys.js';
import type { Store } from '../redis/store.js';
import type { Item } from '../wishlist/item.js';
import type { Items } from '../wishlist/items.js';
import type { Doors } from './doors.js';
import { type Emails, type Indexed, normaliseEmail } from './emails.js';
import { isProfile } from './merge.js';

export interface VisitorExport {
  readonly profileId: string;
  /** Ids of over 62 bytes are held as digests, and not told. */
  readonly identities: { readonly customerIds: string[]; readonly sessionIds: string[] };
  readonly profile: Readonly<Record<string, string>>;
  readonly items: readonly Item[];
  /** Product handle -> count. */
  readonly visits: Readonly<Record<string, number>>;
  /** Share codes. */
  readonly shares: readonly string[];
  /** Rows of ClickHouse; null where this process was given none. */
  readonly events: VisitorRows['events'] | null;
  readonly visitLog: VisitorRows['visitLog'] | null;
  readonly purchases: VisitorRows['purchases'] | null;
}

/** By an e-mail address: the one visitor, or the first and all others of whom it was given. */
export interface FoundVisitors extends VisitorExport {
  readonly others?: readonly VisitorExport[];
}

/** See VisitorRowReader.read. */
export type ReadRows = (
  profiles: readonly string[],
  erased: readonly ErasedProfile[],
) => Promise<VisitorRows | undefined>;

/** What is told of a profile; other fields are how it is kept. */
const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale', 'createdAt', 'updatedAt'] as const;
const PAGE = 500;
const NO_ROWS = { events: null, visitLog: null, purchases: null };
/** Visitors of one e-mail address that are told of at once. */
const AT_ONCE = 4;

export class Exporter {
  readonly #store: Store;
  readonly #doors: Doors;
  readonly #items: Items;
  readonly #emails: Emails;
  readonly #readRows: ReadRows;

  constructor(store: Store, doors: Doors, items: Items, emails: Emails, readRows: ReadRows) {
    this.#store = store;
    this.#doors = doors;
    this.#items = items;
    this.#emails = emails;
    this.#readRows = readRows;
  }

  /**
   * The visitor of an identity: by customer id, else session id, else e-mail address.
   * @returns also of one that is unknown, with nothing in it; undefined of an unknown e-mail address
   * @throws ServiceError `unavailable`, also where ClickHouse is away
   */
  async exportOf(identity: Identity): Promise<FoundVisitors | undefined> {
    const [name] = namesIn(identity);
    if (name !== undefined) return this.export(name);
    const normal = normaliseEmail(identity.email);
    return normal === undefined ? undefined : this.exportByEmail(this.#emails.digest(normal));
  }

  /** @param digest see Emails @returns undefined where the address is unknown @throws as exportOf */
  async exportByEmail(digest: string): Promise<FoundVisitors | undefined> {
    const indexed = await this.#givenFor(digest);
    const found = new Map<string, VisitorExport>();
    for (let i = 0; i < indexed.length; i += AT_ONCE)
      for (const one of await Promise.all(
        indexed.slice(i, i + AT_ONCE).map((each) => this.#exportProfile(each)),
      ))
        found.set(one.profileId, one);
    const [first, ...others] = found.values();
    return first && (others.length === 0 ? first : { ...first, others });
  }

  /** Not those whose index entry an erasure left behind: another visitor may have the profile now. */
  async #givenFor(digest: string): Promise<Indexed[]> {
    const given: Indexed[] = [];
    for (const one of await this.#emails.find(digest))
      if (await this.#emails.isGivenFor(digest, one.profileId)) given.push(one);
    return given;
  }

  /** @param name of an identity, see identityName @throws as exportOf */
  async export(name: string): Promise<VisitorExport> {
    const { room } = await this.#doors.where(name);
    return this.#export(room ?? this.#doors.ownProfile(name), room !== undefined, name);
  }

  /** A profile's visitor, wherever it was merged into. */
  async #exportProfile({ profileId, maker }: Indexed): Promise<VisitorExport> {
    const isHome = maker !== '' && (await this.#doors.where(maker)).room === undefined;
    return this.#export(profileId, !isHome, isHome ? maker : '');
  }

  async #export(at: string, isRoom: boolean, name: string): Promise<VisitorExport> {
    const { profileId, items } = await this.#items.list(at);
    const { keys } = this.#store;
    const came = Object.keys(await this.#hash(keys.merged(profileId)));
    const names = [...new Set([name, ...came])].filter((one) => /^[cs]:/.test(one));
    const facts = await this.#hash(keys.profile(profileId));
    const counts = await this.#hash(isRoom ? keys.room(profileId) : keys.door(profileId));
    const codes = [...came.filter((one) => one.startsWith('#')).map((one) => one.slice(1))];
    if (facts['share'] !== undefined) codes.unshift(facts['share']);
    const idsOf = (isWanted: (one: string) => boolean) => names.filter(isWanted).map((one) => one.slice(2));
    const earlier = came.filter((one) => isProfile(one) && bucketOf(one) !== '');
    return {
      profileId,
      identities: {
        customerIds: idsOf(isCustomerName),
        sessionIds: idsOf((one) => !isCustomerName(one)),
      },
      profile: Object.fromEntries(FACTS.flatMap((fact) => (facts[fact] ? [[fact, facts[fact]]] : []))),
      items,
      // The field with the empty name is the day on which a guest was seen.
      visits: Object.fromEntries(
        Object.entries(counts).flatMap(([handle, n]) => (handle === '' ? [] : [[handle, Number(n)]])),
      ),
      shares: [...new Set(codes)],
      ...(await this.#rowsOf([profileId, ...earlier])),
    };
  }

  async #rowsOf(profiles: readonly string[]): Promise<Pick<VisitorExport, keyof VisitorRows>> {
    const erased = await this.#erased(profiles);
    try {
      return (await this.#readRows(profiles, erased)) ?? NO_ROWS;
    } catch {
      throw new ServiceError(
        'unavailable',
        'ClickHouse does not answer, and has a part of what is kept of this visitor; try again later.',
      );
    }
  }

  /** Up to when these profiles are erased, where ClickHouse may still have their rows. */
  async #erased(profiles: readonly string[]): Promise<ErasedProfile[]> {
    const key = this.#store.keys.erasures;
    const [ofAll, ...held] = await this.#store.call((client) =>
      client.hmget(key, EVERY_PROFILE, ...profiles),
    );
    return profiles.flatMap((profileId, i) => {
      const untils = [held[i], ofAll].flatMap((one) => (one ? [one.split(' ').map(Number)] : []));
      if (untils.length === 0) return [];
      const last = (at: number) => Math.max(...untils.map((until) => until[at] as number));
      return [{ profileId, until: { server: last(0), redis: last(1) } }];
    });
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
