// All that is kept of a visitor, for one who asks: what Redis has, and the rows that ClickHouse has under the present
// profile and all earlier ones, or that name an identity of the visitor. Creates and links nothing.

import { type ErasedUntil, isIdentityName, type Until, untilOf } from '../clickhouse/erased-rows.js';
import type { VisitorRows } from '../clickhouse/visitor-rows.js';
import { ServiceError } from '../errors.js';
import { EVERY_PROFILE } from '../identity-rules.js';
import { readHash } from '../redis/hash.js';
import { countsOf, guestPlace, linkedPlace, MAX_HOPS, type Place } from '../redis/place.js';
import type { Store } from '../redis/store.js';
import type { Item } from '../wishlist/item.js';
import { listItems } from '../wishlist/items.js';
import type { Emails, Indexed } from './emails.js';
import type { Links } from './links.js';
import { isProfile } from './merge.js';
import type { NamedVisitor } from './named-visitor.js';
import type { Redirects } from './redirects.js';

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
  readonly productAlerts: VisitorRows['productAlerts'] | null;
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
const NO_ROWS = { events: null, visitLog: null, purchases: null, productAlerts: null };
/** Visitors of one e-mail address that are told of at once. */
const AT_ONCE = 4;
/** Erasures that one command asks for. */
const PAGE = 250;

export class Exporter {
  readonly #store: Store;
  readonly #links: Links;
  readonly #redirects: Redirects;
  readonly #emails: Emails;
  readonly #readRows: ReadRows;

  constructor(store: Store, links: Links, redirects: Redirects, emails: Emails, readRows: ReadRows) {
    this.#store = store;
    this.#links = links;
    this.#redirects = redirects;
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
        if (one !== undefined) found.set(one.profileId, one);
    const [first, ...others] = found.values();
    return first && (others.length === 0 ? first : { ...first, others });
  }

  /** @param name of an identity, see identityName @param others without a visitor @throws as exportNamed */
  async export(name: string, others: readonly string[] = []): Promise<VisitorExport> {
    for (let round = 0; round < MAX_HOPS; round++) {
      const { link } = await this.#redirects.stateOf(name, (one) => this.#links.look(one));
      const place =
        link === undefined
          ? guestPlace(this.#links.defaultProfile(name))
          : linkedPlace(link.profileId, link.generation);
      const found = await this.#exportAt(place, [name, ...others]);
      if (found !== undefined) return found;
    }
    throw new ServiceError('unavailable');
  }

  /** A profile's visitor, wherever it was merged. @returns undefined where it is gone */
  async #exportProfile(
    { profileId, creator }: Indexed,
    others: readonly string[],
  ): Promise<VisitorExport | undefined> {
    for (let round = 0; round < MAX_HOPS; round++) {
      const place = await this.#redirects.placeOf(profileId);
      if (place === undefined) return undefined;
      const isGuest = place.generation === '' && creator !== '';
      const found = await this.#exportAt(place, isGuest ? [creator, ...others] : others);
      if (found !== undefined) return found;
    }
    throw new ServiceError('unavailable');
  }

  /** @param given identities whose rows are answered, also those of other visitors @returns undefined where all of it is elsewhere now */
  async #exportAt(place: Place, given: readonly string[]): Promise<VisitorExport | undefined> {
    const { keys } = this.#store;
    const { profileId } = place;
    const members = [...(await readHash(this.#store, keys.members(profileId))).keys()];
    const facts = await readHash(this.#store, keys.profile(profileId));
    const profiles = [profileId, ...members.filter(isProfile)];
    const leading = await this.#leadingTo(
      profileId,
      new Set([facts.get('owner') ?? '', ...members].filter(isIdentityName)),
    );
    const names = [...new Set([...given, ...leading])];
    const counts = await readHash(this.#store, countsOf(keys, place));
    // Last: what was read is of this place, unless the visitor was linked, merged or erased meanwhile.
    const items = await listItems(this.#store, place);
    if (typeof items === 'string') return undefined;
    const codes = members.filter((one) => one.startsWith('#')).map((one) => one.slice(1));
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

  /** Identities that lead there now: a session may have moved to another customer since. */
  async #leadingTo(profileId: string, names: ReadonlySet<string>): Promise<string[]> {
    const leading: string[] = [];
    for (const name of names)
      if ((await this.#links.look(name)).link?.profileId === profileId) leading.push(name);
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
    const erased = new Map<string, { until: Until }>();
    for (let i = 0; i < wanted.length; i += PAGE) {
      const page = wanted.slice(i, i + PAGE);
      const held = await this.#store.call((client) => client.hmget(key, ...page));
      for (const [at, one] of page.entries()) {
        const text = held[at];
        if (text) erased.set(one, { until: untilOf(text) });
      }
    }
    return erased;
  }
}
