// Erases visitors from Redis, guests and customers alike; docs/architecture.md has the steps. One script deletes the profile
// and sets its members aside, until their rows are queued and nothing leads to the profile; any process can do the rest.

import { randomBytes } from 'node:crypto';
import pLimit from 'p-limit';
import { ServiceError } from '../errors.js';
import { isCustomerName } from '../identity-rules.js';
import { changeField, readHash } from '../redis/hash.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { removeKeys } from '../redis/write.js';
import { together } from '../together.js';
import { type Emails, memberOf } from './emails.js';
import { ERASED_AT_S } from './erased-at.js';
import type { ItemIndex } from './item-index.js';
import { type LinkRef, targetText } from './link.js';
import type { Locator } from './locator.js';
import { isSession, parseMember } from './members.js';
import type { Merger } from './merge.js';
import type { NamedVisitor } from './named-visitor.js';
import type { Pending } from './pending.js';
import { queueRows, untilLaterRows } from './queued-rows.js';

const ERASE = loadScript<number | string>('profiles/eraseProfile');

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
  readonly itemIndexes: readonly ItemIndex[];
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
   * @param member that the profile must have, because another visitor may have got its id
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
    const { store, pending, itemIndexes, onErased } = this.parts;
    const { keys } = store;
    await this.completeSetAside(profileId);
    const members = await readHash(store, keys.members(profileId));
    await onErasing([profileId, ...[...members.keys()].filter(isSession)]);
    const id = randomBytes(6).toString('base64url');
    const work = eraseWork(profileId, id);
    await pending.begin(profileId, work);
    const fields = itemIndexes.length === 0 ? [] : [...(await readHash(store, keys.items(profileId))).keys()];
    const touched = [...keys.allOf(profileId), keys.erasedAt(profileId)];
    const reply = await store.change(ERASE, touched, [
      member,
      isCustomerName(name) ? name : '',
      Date.now(),
      ERASED_AT_S,
      id,
    ]);
    if (typeof reply === 'string' || reply === LUA.SET_ASIDE) {
      await pending.end(profileId, work);
      return undefined;
    }
    if (reply === 1) for (const index of itemIndexes) await index.remove(fields, profileId);
    await this.completeSetAside(profileId);
    if (reply === 0) await pending.end(profileId, work); // nothing was set aside if the required member was missing
    if (reply === 1) onErased?.();
    return reply === 1;
  }

  /** Idempotent. A late call doesn't affect a later erasure, which has another time. */
  async completeSetAside(profileId: string): Promise<void> {
    const { store, pending, emails } = this.parts;
    const { keys } = store;
    const key = keys.setAside(profileId);
    const members = await readHash(store, key);
    const at = members.get('at');
    if (at === undefined) return;
    const until = Number(at) + GRACE_MS;
    const name = members.get('name') ?? '';
    const limit = pLimit(MAX_CONCURRENT);
    const sessions = [...members].filter(([member]) => isSession(member));
    await together(
      sessions.map(([session, note]) => limit(() => this.#unlink(profileId, session, note, until))),
    );
    await queueRows(store, [profileId, ...(name === '' ? [] : [name])], until);
    const gone = new Set([profileId, ...sessions.map(([session]) => session)]);
    for (const code of valuesOf('share', members)) await removeKeys(store, [keys.share(code)]);
    for (const digest of valuesOf('email', members)) await emails.forgetGone(digest, gone);
    await changeField(store, { key, field: 'at', before: at, after: '', removesHash: true });
    await pending.forget(eraseWork(profileId, members.get('id') ?? ''));
  }

  /** Unlinks one session whose customer was erased; `completeSetAside` unlinks all that it finds. */
  async release(session: string, { customer, id }: LinkRef): Promise<void> {
    const { store } = this.parts;
    const { now } = store;
    const key = store.keys.setAside(customer);
    const [note, at] = await store.call((client) => client.hmget(key, session, 'at'));
    const until = at == null ? now : Number(at) + GRACE_MS;
    await this.#unlink(customer, session, note ?? `${id} known \n`, until);
  }

  async #unlink(customer: string, session: string, note: string, until: number): Promise<void> {
    const { store, merger, emails } = this.parts;
    const { keys } = store;
    const { linkId, merged } = parseMember(note);
    const link = { customer, id: linkId };
    const [target, share] = await store.call((client) =>
      client.hmget(keys.profile(session), 'target', 'share'),
    );
    const isTarget = target === targetText(link);
    // First its rows and the entries that lead to it: once unlinked, its id may be another visitor's.
    if (merged !== '' || isTarget) await queueRows(store, [session], until);
    const digests = isTarget ? valuesOf('email', await readHash(store, keys.members(session))) : [];
    for (const digest of digests) await emails.remove(digest, session);
    if (isTarget && share != null) await removeKeys(store, [keys.share(share)]);
    await merger.unlink(session, link);
    for (const digest of digests) await emails.restore(digest, session);
  }
}

function valuesOf(kind: 'share' | 'email', members: ReadonlyMap<string, string>): string[] {
  const prefix = `${kind}:`;
  return [...members.keys()].flatMap((one) => (one.startsWith(prefix) ? [one.slice(prefix.length)] : []));
}

export function eraseWork(profileId: string, id: string): string {
  return `erase ${profileId} ${id}`;
}
