// Erases visitors from Redis.
//
// Rows are queued for erasure first, because afterwards nothing leads to them. A concurrent request fails its check of
// the generation, and then creates a new visitor or nothing.

import { ServiceError } from '../errors.js';
import { readHash } from '../redis/hash.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { removeKeys } from '../redis/write.js';
import { type Belonging, indexedFields, keyOf } from './belongings.js';
import type { Emails } from './emails.js';
import type { LinkedEraser, OnErasing } from './linked-eraser.js';
import { type Link, type Links, linkTo } from './links.js';
import type { NamedVisitor } from './named-visitor.js';
import { queueRows, untilLaterRows } from './queued-rows.js';
import type { Redirects } from './redirects.js';

const ERASE_GUEST = loadScript<string | [wasKnown: number, code: string]>('profiles/eraseGuest');

const ROUNDS = 16;

export interface EraserParts {
  readonly store: Store;
  readonly links: Links;
  readonly redirects: Redirects;
  readonly emails: Emails;
  readonly linked: LinkedEraser;
  readonly belongings: readonly Belonging[];
  readonly onErased?: (() => void) | undefined;
}

export class Eraser {
  constructor(private readonly parts: EraserParts) {}

  /** @returns false if there was no visitor @throws ServiceError `unavailable`: a retry erases the rest */
  async erase(name: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      const { link, home } = await this.parts.redirects.stateOf(name);
      const erased =
        link === undefined
          ? await this.#eraseGuest(home, name, onErasing)
          : await this.#eraseLinked(link, onErasing);
      if (erased === undefined) continue;
      // An earlier erasure may have been interrupted.
      if (!erased) await this.parts.linked.completeOf(name);
      return erased;
    }
    throw new ServiceError('unavailable');
  }

  async eraseNamed({ names, digest }: NamedVisitor): Promise<boolean> {
    let erased = digest !== undefined && (await this.eraseByEmail(digest));
    for (const [i, name] of names.entries()) {
      if (i === 0 && digest === undefined) {
        erased = await this.erase(name);
        continue;
      }
      const { link, home } = await this.parts.links.read(name);
      // Also erases rows under this id, unless it was linked concurrently: then it is another visitor's.
      if (link === undefined) erased = ((await this.#eraseGuest(home, name)) ?? false) || erased;
    }
    // What the visitor sends after the answer stays.
    await untilLaterRows(this.parts.store);
    return erased;
  }

  /** @throws the first error, after the others are erased */
  async eraseByEmail(digest: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    let erased = false;
    const failures: unknown[] = [];
    for (const profileId of await this.parts.emails.find(digest))
      try {
        erased = (await this.#eraseGiven(digest, profileId, onErasing)) || erased;
        await this.parts.emails.forgetGone(digest, new Set([profileId]));
      } catch (error) {
        failures.push(error);
      }
    if (failures.length > 0) throw failures[0];
    if (!erased) await this.parts.linked.completeOf(`@${digest}`);
    return erased;
  }

  async #eraseGiven(digest: string, profileId: string, onErasing: OnErasing): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      const given = await this.parts.emails.givenAt(digest, profileId);
      if (given === undefined) return false;
      const { location, creator } = given;
      const erased =
        location.generation === ''
          ? await this.#eraseGuest(location.profileId, creator, onErasing, `@${digest}`)
          : await this.#eraseLinked(linkTo(location.profileId, location.generation), onErasing);
      if (erased !== undefined) return erased;
    }
    throw new ServiceError('unavailable');
  }

  /**
   * @param requiredMember abort unless present, because the id may have been reused; '' for none
   * @returns undefined if the identity has a link
   */
  async #eraseGuest(
    profileId: string,
    name: string,
    onErasing: OnErasing = () => {},
    requiredMember = '',
  ): Promise<boolean | undefined> {
    const { keys } = this.parts.store;
    const digests: string[] = [];
    for (const member of (await readHash(this.parts.store, keys.members(profileId))).keys())
      if (member.startsWith('@')) digests.push(member.slice(1));
    const rows = name === '' ? [profileId] : [profileId, name];
    await onErasing([profileId]);
    await queueRows(this.parts.store, rows);
    const own = name === '' ? profileId : this.parts.links.defaultProfile(name);
    const itsKey = (one: Belonging) => keyOf(keys, one, profileId, true);
    const touched = [
      keys.identity(own),
      keys.profile(profileId),
      keys.members(profileId),
      ...this.parts.belongings.map(itsKey),
      ...this.parts.belongings.map(({ kind }) => keys.journal(kind, profileId)),
      keys.identity(profileId),
    ];
    const indexed = await indexedFields(this.parts.store, this.parts.belongings, itsKey);
    const reply = await this.parts.store.change(ERASE_GUEST, touched, [
      requiredMember,
      own === profileId ? '' : profileId,
    ]);
    if (typeof reply === 'string') return undefined;
    const [wasKnown, code] = reply;
    if (wasKnown === 1) for (const [index, fields] of indexed) await index.remove(fields, profileId);
    if (code !== '') await removeKeys(this.parts.store, [keys.share(code)]);
    for (const digest of digests) await this.parts.emails.forgetGone(digest, new Set([profileId]));
    // Rows are queued again, because events may have arrived in between.
    await queueRows(this.parts.store, rows);
    if (wasKnown === 1) this.parts.onErased?.();
    return wasKnown === 1;
  }

  async #eraseLinked(link: Link, onErasing: OnErasing): Promise<true | undefined> {
    if (!(await this.parts.linked.erase(link, onErasing))) return undefined;
    this.parts.onErased?.();
    return true;
  }
}
