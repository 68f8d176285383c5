// Exports a visitor's data from Redis, and the ClickHouse rows of the visitor's profiles and identities. It streams
// JSON, since the rows may not fit into memory. It sends nothing before ClickHouse has answered for the first table: if
// ClickHouse is away, the answer is an error.

import { isIdentityName } from '../../clickhouse/erased-rows.js';
import { type Owners, ROW_TABLES, type RowTable, type RowTexts } from '../../clickhouse/visitor-rows.js';
import { ServiceError } from '../../errors.js';
import { findErasures } from '../../flush/erasures.js';
import { EVERY_PROFILE, identityName } from '../../identity-rules.js';
import type { Belonging } from '../../profiles/belongings.js';
import type { Emails, Indexed } from '../../profiles/emails.js';
import type { Links } from '../../profiles/links.js';
import { isProfile } from '../../profiles/merge.js';
import type { NamedVisitor } from '../../profiles/named-visitor.js';
import type { Redirects } from '../../profiles/redirects.js';
import { readHash } from '../../redis/hash.js';
import { guestLocation, type Location, linkedLocation, MAX_HOPS } from '../../redis/location.js';
import type { Store } from '../../redis/store.js';
import { type Export, inArray, startingWith, type Visitor, withOthers } from './export-text.js';

export type ReadRows = (
  table: RowTable,
  owners: Owners,
  signal: AbortSignal,
) => Promise<RowTexts | undefined>;

interface Run {
  readonly signal: AbortSignal;
  /** Profiles exported so far. An e-mail address may lead to a profile twice. */
  readonly profiles: Set<string>;
}

interface Given {
  readonly name: string;
  readonly exists: boolean;
  /** If the identity has no link, its home (see links.ts). The export has the rows of this profile, too. */
  readonly own: string | undefined;
}

export interface ExporterParts {
  readonly store: Store;
  readonly links: Links;
  readonly redirects: Redirects;
  readonly emails: Emails;
  readonly readRows: ReadRows;
  readonly belongings: readonly Belonging[];
}

export class Exporter {
  constructor(private readonly parts: ExporterParts) {}

  exportNamed({ names, digest }: NamedVisitor): Promise<Export | undefined> {
    return this.#open(
      (run) => (digest === undefined ? this.#ofNames(names, run) : this.#ofEmail(digest, names, run)),
      async (visitors) => {
        const first = await visitors.next();
        return first.done ? undefined : withOthers(first.value, visitors);
      },
    );
  }

  /** Exports an array of visitors. @param digest of the e-mail address; see Emails */
  async exportRequested(customerId: string | null, digest: string | null): Promise<Export> {
    const of = async function* (this: Exporter, run: Run) {
      if (customerId !== null) yield* this.#ofNames([identityName('c', customerId)], run);
      if (digest !== null) yield* this.#ofEmail(digest, [], run);
    }.bind(this);
    const opened = await this.#open(of, async (visitors) => inArray(await visitors.next(), visitors));
    return opened as Export;
  }

  async #open(
    of: (run: Run) => AsyncGenerator<Visitor>,
    asText: (visitors: AsyncGenerator<Visitor>) => Promise<AsyncIterable<string> | undefined>,
  ): Promise<Export | undefined> {
    const closing = new AbortController();
    const close = () => closing.abort();
    try {
      const text = await asText(of({ signal: closing.signal, profiles: new Set() }));
      if (text !== undefined) return { [Symbol.asyncIterator]: () => text[Symbol.asyncIterator](), close };
    } catch (error) {
      close();
      throw error;
    }
    close();
    return undefined;
  }

  /** @param names the first one determines the visitor */
  async *#ofNames(names: readonly string[], run: Run): AsyncGenerator<Visitor> {
    const given = await this.#look(names, run);
    const [first] = given;
    if (first === undefined || !given.some(({ exists }) => exists)) return;
    for (let round = 0; round < MAX_HOPS; round++) {
      const { link, home } = await this.parts.redirects.stateOf(first.name);
      const location =
        link === undefined ? guestLocation(home) : linkedLocation(link.profileId, link.generation);
      const found = await this.#exportAt(location, given, run);
      if (found !== undefined) return void (yield found);
    }
    throw new ServiceError('unavailable');
  }

  /** @param names identities whose rows the first visitor's export has, too */
  async *#ofEmail(digest: string, names: readonly string[], run: Run): AsyncGenerator<Visitor> {
    const given = await this.#look(names, run);
    for (const [at, each] of (await this.parts.emails.findGiven(digest)).entries()) {
      const found = await this.#exportProfile(each, at === 0 ? given : [], run);
      if (found !== undefined) yield found;
    }
  }

  /** Follows merges. @returns undefined if the profile doesn't exist or is already exported */
  async #exportProfile(
    { profileId, creator }: Indexed,
    others: readonly Given[],
    run: Run,
  ): Promise<Visitor | undefined> {
    for (let round = 0; round < MAX_HOPS; round++) {
      const location = await this.parts.redirects.locate(profileId);
      if (location === undefined || run.profiles.has(location.profileId)) return undefined;
      const isGuest = location.generation === '' && creator !== '';
      const guest = isGuest ? [{ name: creator, exists: true, own: location.profileId }] : [];
      const found = await this.#exportAt(location, [...guest, ...others], run);
      if (found !== undefined) return found;
    }
    throw new ServiceError('unavailable');
  }

  /** @param given identities whose rows the export has, too @returns undefined if the profile has moved */
  async #exportAt(location: Location, given: readonly Given[], run: Run): Promise<Visitor | undefined> {
    const { keys } = this.parts.store;
    const { profileId } = location;
    const members = [...(await readHash(this.parts.store, keys.members(profileId))).keys()];
    const facts = await readHash(this.parts.store, keys.profile(profileId));
    const leading = await this.#leadingTo(
      profileId,
      new Set([facts.get('owner') ?? '', ...members].filter(isIdentityName)),
    );
    const exported: Record<string, object> = {};
    for (const { exported: one } of this.parts.belongings) {
      const value = await one?.read(this.parts.store, location);
      if (typeof value === 'string') return undefined;
      if (one !== undefined && value !== undefined) exported[one.as] = value;
    }
    const codes = members.filter((one) => one.startsWith('#')).map((one) => one.slice(1));
    const code = facts.get('share');
    if (code !== undefined) codes.unshift(code);
    const known = new Set([...given.filter(({ exists }) => exists).map(({ name }) => name), ...leading]);
    // Ids of more than 62 bytes are left out, because Redis has only their digests.
    const idsOf = (prefix: string) =>
      [...known].filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
    const ofRedis = {
      profileId,
      identities: { customerIds: idsOf('c:'), sessionIds: idsOf('s:') },
      ...exported,
      shares: [...new Set(codes)],
    };
    run.profiles.add(profileId);
    const own = given.flatMap((one) => one.own ?? []);
    const profiles = new Set([profileId, ...members.filter(isProfile), ...own]);
    const names = new Set([...given.map(({ name }) => name), ...leading]);
    const owners = await this.#ownersOf([...profiles], [...names]);
    const first = await this.#begin('events', owners, run.signal);
    return this.#textOf(ofRedis, first, owners, run.signal);
  }

  async *#textOf(
    ofRedis: object,
    first: RowTexts | undefined,
    owners: Owners,
    signal: AbortSignal,
  ): AsyncGenerator<string> {
    yield JSON.stringify(ofRedis).slice(0, -1);
    for (const table of ROW_TABLES) {
      const rows = table === 'events' ? first : await this.#begin(table, owners, signal);
      if (rows === undefined) {
        yield `,"${table}":null`;
        continue;
      }
      yield `,"${table}":[`;
      let between = '';
      for await (const texts of rows) {
        if (texts.length === 0) continue;
        yield between + texts.join(',\n');
        between = ',\n';
      }
      yield ']';
    }
  }

  /** Waits for the first rows. @returns undefined if there is no ClickHouse */
  async #begin(table: RowTable, owners: Owners, signal: AbortSignal): Promise<RowTexts | undefined> {
    try {
      const rows = (await this.parts.readRows(table, owners, signal))?.[Symbol.asyncIterator]();
      return rows && startingWith(await rows.next(), rows);
    } catch (error) {
      throw new ServiceError(
        'unavailable',
        'ClickHouse does not answer, and has a part of what is kept of this visitor; try again later.',
        undefined,
        { cause: error },
      );
    }
  }

  async #look(names: readonly string[], run: Run): Promise<Given[]> {
    const given: Given[] = [];
    for (const name of names) {
      const { link, exists, home } = await this.parts.redirects.stateOf(name);
      const own = link === undefined ? home : undefined;
      given.push({ name, exists: exists || (await this.#hasRows(name, own, run)), own });
    }
    return given;
  }

  /** True if ClickHouse has rows of the identity, which Redis may lack: after its profile has expired, for instance. */
  async #hasRows(name: string, own: string | undefined, { signal }: Run): Promise<boolean> {
    const owners = await this.#ownersOf(own === undefined ? [] : [own], [name]);
    for (const table of ROW_TABLES)
      for await (const texts of (await this.#begin(table, owners, signal)) ?? [])
        if (texts.length > 0) return true;
    return false;
  }

  /** @returns names whose link leads to the profile: a session may have become another customer's */
  async #leadingTo(profileId: string, names: ReadonlySet<string>): Promise<string[]> {
    const leading: string[] = [];
    for (const name of names)
      if ((await this.parts.links.read(name)).link?.profileId === profileId) leading.push(name);
    return leading;
  }

  /** Adds queued erasures, so that the export leaves out rows that ClickHouse hasn't deleted yet. */
  async #ownersOf(profiles: readonly string[], names: readonly string[]): Promise<Owners> {
    const erased = await findErasures(this.parts.store, [EVERY_PROFILE, ...profiles, ...names]);
    return { profiles, names, erased };
  }
}
