// All that is kept of a visitor, for one who asks: what Redis has, and the rows that ClickHouse has under the present
// profile and all earlier ones, or that name an identity of the visitor. Creates and links nothing.

import { type ErasedUntil, isIdentityName, untilOf } from '../clickhouse/erased-rows.js';
import type { VisitorRows } from '../clickhouse/visitor-rows.js';
import { ServiceError } from '../errors.js';
import { EVERY_PROFILE } from '../identity-rules.js';
import { bucketOf } from '../redis/keys.js';
import type { Store } from '../redis/store.js';
import type { Item } from '../wishlist/item.js';
import type { Items } from '../wishlist/items.js';
import { type Doors, doorOf } from './doors.js';
import type { Emails, Indexed } from './emails.js';
import { isProfile } from './merge.js';
import type { NamedVisitor } from './named-visitor.js';

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
  names: readonly string[],
  erased: ErasedUntil,
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
   * @returns also of one that is unknown, with nothing in it; undefined of an unknown e-mail address
   * @throws ServiceError `unavailable`, also where ClickHouse is away
   */
  async exportNamed({ names, digest }: NamedVisitor): Promise<FoundVisitors | undefined> {
    if (digest !== undefined) return this.exportByEmail(digest, names);
    const [first = '', ...others] = names;
    return this.export(first, others);
  }

  /**
   * @param digest see Emails @param names identities without a visitor, whose rows are told of the first one
   * @returns undefined where the address is unknown @throws as exportNamed
   */
  async exportByEmail(digest: string, names: readonly string[] = []): Promise<FoundVisitors | undefined> {
    const indexed = await this.#emails.findGiven(digest);
    const found = new Map<string, VisitorExport>();
    for (let i = 0; i < indexed.length; i += AT_ONCE)
      for (const one of await Promise.all(
        indexed.slice(i, i + AT_ONCE).map((each, at) => this.#exportProfile(each, i + at === 0 ? names : [])),
      ))
        found.set(one.profileId, one);
    const [first, ...others] = found.values();
    return first && (others.length === 0 ? first : { ...first, others });
  }

  /** @param name of an identity, see identityName @param others without a visitor @throws as exportNamed */
  async export(name: string, others: readonly string[] = []): Promise<VisitorExport> {
    const { room } = await this.#doors.look(name);
    return this.#export(room ?? this.#doors.ownProfile(name), room !== undefined, [name, ...others]);
  }

  /** A profile's visitor, wherever it was merged into. */
  async #exportProfile({ profileId, maker }: Indexed, others: readonly string[]): Promise<VisitorExport> {
    const isHome = maker !== '' && (await this.#doors.look(maker)).room === undefined;
    return this.#export(profileId, !isHome, isHome ? [maker, ...others] : others);
  }

  /** @param given identities whose rows are told, whatever they lead to */
  async #export(at: string, isRoom: boolean, given: readonly string[]): Promise<VisitorExport> {
    const { profileId, items } = await this.#items.list(at);
    const { keys } = this.#store;
    const came = [...(await this.#hash(keys.merged(profileId))).keys()];
    const profiles = [profileId, ...came.filter((one) => isProfile(one) && bucketOf(one) !== '')];
    const leading = await this.#leadingTo(profiles, came.filter(isIdentityName));
    const names = [...new Set([...given, ...leading])];
    const counts = await this.#hash(isRoom ? keys.room(profileId) : keys.door(profileId));
    const facts = await this.#hash(keys.profile(profileId));
    // Linked or merged away meanwhile: all of it is elsewhere now.
    const { room } = doorOf(counts.get('') ?? '');
    if (room !== undefined || facts.has('heir'))
      return this.#export(room ?? profileId, isRoom || room !== undefined, given);
    const codes = came.filter((one) => one.startsWith('#')).map((one) => one.slice(1));
    const code = facts.get('share');
    if (code !== undefined) codes.unshift(code);
    const idsOf = (prefix: string) =>
      names.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
    return {
      profileId,
      identities: { customerIds: idsOf('c:'), sessionIds: idsOf('s:') },
      profile: Object.fromEntries(
        FACTS.flatMap((fact) => {
          const value = facts.get(fact);
          return value ? [[fact, value]] : [];
        }),
      ),
      items,
      visits: Object.fromEntries([...counts].map(([handle, n]) => [handle, Number(n)])),
      shares: [...new Set(codes)],
      ...(await this.#rowsOf(profiles, names)),
    };
  }

  /** Identities that lead to one of the profiles now: a session may have moved to another customer since. */
  async #leadingTo(profiles: readonly string[], names: readonly string[]): Promise<string[]> {
    const leading: string[] = [];
    for (const name of names) {
      const { room } = await this.#doors.look(name);
      if (room !== undefined && profiles.includes(room)) leading.push(name);
    }
    return leading;
  }

  async #rowsOf(
    profiles: readonly string[],
    names: readonly string[],
  ): Promise<Pick<VisitorExport, keyof VisitorRows>> {
    const erased = await this.#erased([...profiles, ...names]);
    try {
      return (await this.#readRows(profiles, names, erased)) ?? NO_ROWS;
    } catch {
      throw new ServiceError(
        'unavailable',
        'ClickHouse does not answer, and has a part of what is kept of this visitor; try again later.',
      );
    }
  }

  /** Up to when any of these are erased, where ClickHouse may still have their rows. */
  async #erased(what: readonly string[]): Promise<ErasedUntil> {
    const key = this.#store.keys.erasures;
    const wanted = [EVERY_PROFILE, ...what];
    const held = await this.#store.call((client) => client.hmget(key, ...wanted));
    return new Map(
      wanted.flatMap((one, i) => {
        const text = held[i];
        return text ? [[one, { until: untilOf(text) }]] : [];
      }),
    );
  }

  /** A hash, read in pages: it may be large. */
  async #hash(key: string): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    let cursor = '0';
    do {
      const from = cursor;
      const [next, fields] = await this.#store.call((client) => client.hscan(key, from, 'COUNT', PAGE));
      cursor = next;
      for (let i = 0; i < fields.length; i += 2) found.set(fields[i] as string, fields[i + 1] as string);
    } while (cursor !== '0');
    return found;
  }
}
