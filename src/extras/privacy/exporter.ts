// Exports a visitor's data from Redis, and the ClickHouse rows of its profiles. It streams JSON, since the rows may not
// fit into memory. It sends nothing before ClickHouse has answered for the first table: if ClickHouse is away, the
// answer is an error.

import { type Owners, ROW_TABLES, type RowTable, type RowTexts } from '../../clickhouse/visitor-rows.js';
import { ServiceError } from '../../errors.js';
import { findErasures } from '../../flush/erasures.js';
import { EVERY_PROFILE, identityName, isCustomerName } from '../../identity-rules.js';
import type { Emails } from '../../profiles/emails.js';
import type { Locator } from '../../profiles/locator.js';
import { isSession, parseMember } from '../../profiles/members.js';
import type { NamedVisitor } from '../../profiles/named-visitor.js';
import { readHash } from '../../redis/hash.js';
import type { Store } from '../../redis/store.js';
import { type Export, inArray, startingWith, type Visitor, withOthers } from './export-text.js';
import { readExported } from './exported.js';

const ROUNDS = 16;

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

/** An identity that the request names. */
interface Given {
  readonly name: string;
  /** The visitor's profile; the rows of an unknown identity's own profile are in the export, too. */
  readonly profileId: string;
  readonly exists: boolean;
}

export interface ExporterParts {
  readonly store: Store;
  readonly locator: Locator;
  readonly emails: Emails;
  readonly readRows: ReadRows;
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
    for (let round = 0; round < ROUNDS; round++) {
      const given = await this.#find(names, run);
      const [first] = given;
      if (first === undefined || !given.some(({ exists }) => exists)) return;
      const found = await this.#export(first.profileId, given, run);
      if (found !== undefined) return void (yield found);
    }
    throw new ServiceError('unavailable');
  }

  /** @param names identities whose rows the first visitor's export has, too */
  async *#ofEmail(digest: string, names: readonly string[], run: Run): AsyncGenerator<Visitor> {
    const given = await this.#find(names, run);
    for (const [at, indexed] of (await this.parts.emails.findOwners(digest)).entries()) {
      const found = await this.#ofIndexed(digest, indexed, at === 0 ? given : [], run);
      if (found !== undefined) yield found;
    }
  }

  /** @returns undefined if the entry of the address is stale, or its visitor is already exported */
  async #ofIndexed(
    digest: string,
    indexed: string,
    given: readonly Given[],
    run: Run,
  ): Promise<Visitor | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const profileId = await this.parts.emails.ownerOf(digest, indexed);
      if (profileId === undefined || run.profiles.has(profileId)) return undefined;
      const found = await this.#export(profileId, given, run);
      if (found !== undefined) return found;
    }
    throw new ServiceError('unavailable');
  }

  /** @param given identities whose rows the export has, too @returns undefined if a session has got a link */
  async #export(profileId: string, given: readonly Given[], run: Run): Promise<Visitor | undefined> {
    const { store } = this.parts;
    const members = await readHash(store, store.keys.members(profileId));
    const facts = await readHash(store, store.keys.profile(profileId));
    const exported = await readExported(store, profileId);
    if (exported === undefined) return undefined;
    const sessions = [...members]
      .filter(([member]) => isSession(member))
      .map(([session, note]) => ({ session, ...parseMember(note) }));
    const linked = sessions.filter(({ hasMoved }) => !hasMoved).map(({ sessionName }) => sessionName);
    const known = given.filter((one) => one.exists && one.profileId === profileId).map(({ name }) => name);
    const names = new Set([...known, ...linked, facts.get('name') ?? '']);
    // Ids of more than 62 bytes are left out, because Redis has only their digests.
    const idsOf = (prefix: string) =>
      [...names].filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
    const codes = [...members.keys()].flatMap((one) => (one.startsWith('share:') ? [one.slice(6)] : []));
    const ofRedis = {
      profileId,
      identities: { customerIds: idsOf('c:'), sessionIds: idsOf('s:') },
      ...exported,
      shares: [...new Set([facts.get('share') ?? [], codes].flat())],
    };
    run.profiles.add(profileId);
    const mergedHere = sessions.filter(({ merged }) => merged !== '').map(({ session }) => session);
    const profiles = new Set([profileId, ...mergedHere, ...given.map((one) => one.profileId)]);
    const customers = new Set([...names, ...given.map(({ name }) => name)].filter(isCustomerName));
    const owners = await this.#ownersOf([...profiles], [...customers]);
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

  async #find(names: readonly string[], run: Run): Promise<Given[]> {
    const { locator } = this.parts;
    const given: Given[] = [];
    for (const name of names) {
      const state = await locator.stateOf(name);
      // The rows of a retired session are a customer's.
      if (state === 'retired') continue;
      const profileId = typeof state === 'object' ? state.customer : locator.profileOf(name);
      given.push({
        name,
        profileId,
        exists: state !== 'unknown' || (await this.#hasRows(name, profileId, run)),
      });
    }
    return given;
  }

  /** True if ClickHouse has rows of the visitor, which Redis may lack: after a guest has expired, for instance. */
  async #hasRows(name: string, profileId: string, { signal }: Run): Promise<boolean> {
    const owners = await this.#ownersOf([profileId], [name].filter(isCustomerName));
    for (const table of ROW_TABLES)
      for await (const texts of (await this.#begin(table, owners, signal)) ?? [])
        if (texts.length > 0) return true;
    return false;
  }

  /** Adds queued erasures, so that the export leaves out rows that ClickHouse hasn't deleted yet. */
  async #ownersOf(profiles: readonly string[], customers: readonly string[]): Promise<Owners> {
    const erased = await findErasures(this.parts.store, [EVERY_PROFILE, ...profiles, ...customers]);
    return { profiles, customers, erased };
  }
}
