// Erases visitors from Redis, guests and customers alike; docs/architecture.md has the steps. One script deletes the profile
// and sets its members aside, until their rows are queued and nothing leads to the profile; any process can do the rest.

import pLimit from 'p-limit';
import { ServiceError } from '../errors.js';
import { isCustomerName } from '../identity-rules.js';
import { changeField, readHash } from '../redis/hash.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { removeKeys } from '../redis/write.js';
import { together } from '../together.js';
import type { ItemIndex } from '../wishlist/item-index.js';
import { type Emails, memberOf } from './emails.js';
import { ERASED_AT_S } from './erased-at.js';
import { targetText } from './link.js';
import type { Locator } from './locator.js';
import { isSession, parseMember } from './members.js';
import type { Merger } from './merge.js';
import type { NamedVisitor } from './named-visitor.js';
import type { Pending } from './pending.js';
import { queueRows, untilLaterRows } from './queued-rows.js';

const ERASE = loadScript<number | string>('profiles/eraseProfile');
const IS_SET_ASIDE = '-';

const ROUNDS = 16;
/** Milliseconds by which clocks of Redis's nodes may differ. */
const GRACE_MS = 1_000;
const MAX_CONCURRENT = 16;

/** Called with all profiles of a visitor before the first is erased. */
export type OnErasing = (profiles: readonly string[]) => Promise<void> | void;

export interface EraserParts {
  readonly store: Store;
  readonly locator: Locator;
  readonly merger: Merger;
  readonly emails: Emails;
  readonly pending: Pending;
  readonly itemIndex?: ItemIndex | undefined;
  readonly onErased?: (() => void) | undefined;
}

export class Eraser {
  constructor(private readonly parts: EraserParts) {}

  /** @returns false if there was no visitor @throws ServiceError `unavailable`: a retry erases the rest */
  async erase(name: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    const { locator } = this.parts;
    for (let round = 0; round < ROUNDS; round++) {
      const state = await locator.stateOf(name);
      if (state === 'retired') return false;
      const profileId = typeof state === 'object' ? state.customer : locator.profileOf(name);
      const erased = await this.eraseProfile(profileId, { name, onErasing });
      if (erased !== undefined) return erased;
    }
    throw new ServiceError('unavailable');
  }

  async eraseNamed({ names, digest }: NamedVisitor): Promise<boolean> {
    let erased = digest !== undefined && (await this.eraseByEmail(digest));
    for (const [i, name] of names.entries()) {
      if (i === 0 && digest === undefined) erased = await this.erase(name);
      // An unknown id may have rows in ClickHouse. If it has got a link since, it is another visitor's.
      else if (typeof (await this.parts.locator.stateOf(name)) !== 'object')
        erased = (await this.eraseProfile(this.parts.locator.profileOf(name), { name })) || erased;
    }
    // What the visitor sends after the answer stays.
    await untilLaterRows(this.parts.store);
    return erased;
  }

  /** @throws the first error, after the others are erased */
  async eraseByEmail(digest: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    let erased = false;
    const failures: unknown[] = [];
    for (const indexed of await this.parts.emails.find(digest))
      try {
        erased = (await this.#eraseIndexed(digest, indexed, onErasing)) || erased;
        await this.parts.emails.forgetGone(digest, new Set([indexed]));
      } catch (error) {
        failures.push(error);
      }
    if (failures.length > 0) throw failures[0];
    return erased;
  }

  async #eraseIndexed(digest: string, indexed: string, onErasing: OnErasing): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      const profileId = await this.parts.emails.ownerOf(digest, indexed);
      if (profileId === undefined) return false;
      const erased = await this.eraseProfile(profileId, { member: memberOf(digest), onErasing });
      if (erased !== undefined) return erased;
    }
    throw new ServiceError('unavailable');
  }

  /**
   * @param member that the profile must have, because its id may be another visitor's by now
   * @returns true if the profile existed; undefined if the session has got a link, or is retired
   */
  async eraseProfile(
    profileId: string,
    {
      name = '',
      member = '',
      onErasing = () => {},
    }: { name?: string; member?: string; onErasing?: OnErasing },
  ): Promise<boolean | undefined> {
    const { store, pending, itemIndex, onErased } = this.parts;
    const { keys } = store;
    await this.completeSetAside(profileId);
    const members = await readHash(store, keys.members(profileId));
    await onErasing([profileId, ...[...members.keys()].filter(isSession)]);
    const work = eraseWork(profileId);
    await pending.begin(profileId, work);
    const fields = itemIndex && [...(await readHash(store, keys.items(profileId))).keys()];
    const touched = [
      ...[keys.counts(profileId), keys.profile(profileId), keys.items(profileId), keys.members(profileId)],
      ...[keys.frozenCounts(profileId), keys.setAside(profileId), keys.erasedAt(profileId)],
    ];
    const reply = await store.change(ERASE, touched, [
      member,
      isCustomerName(name) ? name : '',
      Date.now(),
      ERASED_AT_S,
    ]);
    if (typeof reply === 'string') {
      if (reply !== IS_SET_ASIDE) await pending.end(profileId, work);
      return undefined;
    }
    if (reply === 1 && fields !== undefined) await itemIndex?.remove(fields, profileId);
    await this.completeSetAside(profileId);
    if (reply === 1) onErased?.();
    return reply === 1;
  }

  /** Idempotent. A late call does no harm to a later erasure, because that has another time. */
  async completeSetAside(profileId: string): Promise<void> {
    const { store, pending, emails } = this.parts;
    const { keys } = store;
    const key = keys.setAside(profileId);
    const members = await readHash(store, key);
    const erasedAt = members.get('at');
    if (erasedAt === undefined) return;
    const at = Number(erasedAt) + GRACE_MS;
    const name = members.get('name') ?? '';
    const limit = pLimit(MAX_CONCURRENT);
    const sessions = [...members].filter(([member]) => isSession(member));
    const unlinked = await together(
      sessions.map(([session, note]) => limit(() => this.#unlink(profileId, session, note, at))),
    );
    const merged = unlinked.flatMap((session) => session ?? []);
    await queueRows(store, [profileId, ...(name === '' ? [] : [name])], at);
    for (const member of members.keys()) {
      const [kind, value = ''] = member.split(':', 2);
      if (kind === 'share') await removeKeys(store, [keys.share(value)]);
      else if (kind === 'email') await emails.forgetGone(value, new Set([profileId, ...merged]));
    }
    const removed = { key, field: 'at', before: erasedAt, after: '', removesHash: true };
    if ((await changeField(store, removed)) === 1) await pending.forget(eraseWork(profileId));
  }

  /** @returns the session, if its rows are the customer's */
  async #unlink(customer: string, session: string, note: string, at: number): Promise<string | undefined> {
    const { store, merger } = this.parts;
    const { linkId, merged } = parseMember(note);
    const link = { customer, id: linkId };
    const target = await store.call((client) => client.hget(store.keys.profile(session), 'target'));
    const isMerged = merged !== '' || target === targetText(link);
    // Rows are queued before the session is unlinked, because it may then be another visitor's.
    if (isMerged) await queueRows(store, [session], at);
    await merger.unlink(session, link);
    return isMerged ? session : undefined;
  }
}

export function eraseWork(profileId: string): string {
  return `erase ${profileId}`;
}
