// Erases a linked profile, and then what leads to it, which is in other slots:
//
//   written down ──erase──▶ the profile is gone in one step, every link to it is dead, and its members are its leftovers ──▶
//   rows queued that name an identity which leads there ──▶ merged profiles ──▶ rows of all these profiles
//   queued ──▶ share codes, the index of addresses ──▶ its identities unlinked ──▶ the leftovers
//
// A profile lists its members before they lead there (lua/profiles/addMember.lua, lua/profiles/assignOwner.lua, lua/profiles/applyMergePage.lua), and the leftovers stay until
// the last of these steps is done. Each step is safe to repeat; src/profiles/resume.ts completes what a process leaves half
// done, and so does a request that finds a dead link.

import { isIdentityName } from '../clickhouse/erased-rows.js';
import { ServiceError } from '../errors.js';
import { readHash } from '../redis/hash.js';
import { removeKeys } from '../redis/remove.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { type Belonging, eachIndex, keyOf } from './belongings.js';
import type { Emails } from './emails.js';
import { type Found, type Link, type Links, linkTo } from './links.js';
import { isProfile, type Merger } from './merge.js';
import type { Pending } from './pending.js';
import { queueRows } from './queued-rows.js';

const ERASE = loadScript<number>('profiles/eraseProfile');

/** Each lost round means that another request changed the same identity. */
const ROUNDS = 16;
/** Seconds for which an erased generation stays: far longer than anything is late. */
const ERASED_S = 30 * 24 * 60 * 60;
/** Milliseconds by which the clocks of Redis's nodes may differ. */
const GRACE_MS = 1_000;

/** Called with all profiles of a visitor before the first of them goes. */
export type OnErasing = (profiles: readonly string[]) => Promise<void> | void;

export interface LinkedEraserParts {
  readonly store: Store;
  readonly links: Links;
  readonly merger: Merger;
  readonly emails: Emails;
  readonly pending: Pending;
  readonly belongings: readonly Belonging[];
}

export class LinkedEraser {
  readonly #parts: LinkedEraserParts;

  constructor(parts: LinkedEraserParts) {
    this.#parts = parts;
  }

  /**
   * @returns false where there is no such profile (any more) @throws ServiceError `unavailable`
   */
  async erase({ profileId, generation }: Link, onErasing: OnErasing): Promise<boolean> {
    const members = await readHash(this.#parts.store, this.#parts.store.keys.members(profileId));
    await onErasing([profileId, ...[...members.keys()].filter(isProfile)]);
    await this.#parts.pending.begin(profileId, erasureOf(profileId, generation));
    return this.eraseGeneration(profileId, generation);
  }

  /**
   * Completes the interrupted erasures of profiles that had this member, and no others: those of other visitors may fail, and are
   * completed by src/profiles/resume.ts. @throws ServiceError `unavailable`
   */
  async completeOf(member: string): Promise<void> {
    for await (const page of this.#parts.pending.pages()) {
      const left = await Promise.all(page.map((operation) => this.#leftOf(operation, member)));
      for (const [profileId, generation] of left.filter((one) => one !== undefined))
        await this.removeLeftovers(profileId, generation);
    }
  }

  /** The profile of an interrupted erasure, if it had this member. */
  async #leftOf(operation: string, member: string): Promise<readonly [string, string] | undefined> {
    const [kind, profileId = '', generation = ''] = operation.split(' ');
    if (kind !== 'erase') return undefined;
    const left = this.#parts.store.keys.leftovers(profileId, generation);
    try {
      const isMember = await this.#parts.store.call((client) => client.hexists(left, member));
      return isMember === 1 ? [profileId, generation] : undefined;
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      return undefined;
    }
  }

  /**
   * Erases what was written down, or completes that. @param owner that it must have; empty where that does not matter
   * @returns whether this call erased it @throws ServiceError `unavailable`
   */
  async eraseGeneration(profileId: string, generation: string, owner = ''): Promise<boolean> {
    const { keys } = this.#parts.store;
    const itsKey = (one: Belonging) => keyOf(keys, one, profileId, false);
    const touched = [
      keys.profile(profileId),
      keys.members(profileId),
      keys.leftovers(profileId, generation),
      keys.erased(profileId, generation),
      ...this.#parts.belongings.map(itsKey),
    ];
    const itsOwner = await this.#parts.links.ownerOf(linkTo(profileId, generation));
    // Before the fields go: they say which indexes the profile is in.
    if (itsOwner !== undefined && ['', itsOwner].includes(owner))
      await eachIndex(this.#parts.store, this.#parts.belongings, itsKey, (index, fields) =>
        index.remove(fields, profileId),
      );
    const isDone = (await this.#parts.store.change(ERASE, touched, [generation, ERASED_S, owner])) === 1;
    await this.removeLeftovers(profileId, generation);
    return isDone;
  }

  /** Removes what still leads to an erased generation. @throws ServiceError `unavailable` */
  async removeLeftovers(profileId: string, generation: string): Promise<void> {
    const { keys } = this.#parts.store;
    const left = keys.leftovers(profileId, generation);
    const members = await readHash(this.#parts.store, left);
    if (members.size > 0) {
      // Not later, however late this is: who comes back has the same ids.
      const at = Number(members.get('')) + GRACE_MS;
      members.delete('');
      const names: string[] = [];
      for (const name of [...members.keys()].filter(isIdentityName))
        if (leadsTo(await this.#parts.links.look(name), profileId, generation)) names.push(name);
      // Before one of them is unlinked: then it may be a new visitor's.
      await queueRows(this.#parts.store, names, at);
      const profiles = [profileId, ...(await this.#clearMerged(profileId, generation, members))];
      await queueRows(this.#parts.store, profiles, at);
      const gone = new Set(profiles);
      for (const member of members.keys()) {
        if (member.startsWith('#')) await removeKeys(this.#parts.store, [keys.share(member.slice(1))]);
        else if (member.startsWith('@')) await this.#parts.emails.forgetGone(member.slice(1), gone);
      }
      for (const name of names) await this.#unlink(name, profileId, generation);
      const applied = [...members.keys()]
        .filter(isProfile)
        .map((one) => keys.applied(profileId, generation, one));
      await removeKeys(this.#parts.store, [...applied, left]);
    }
    await this.#parts.pending.forget(erasureOf(profileId, generation));
  }

  /** Clears what merges have left of profiles that were merged there. @returns these profiles */
  async #clearMerged(
    profileId: string,
    generation: string,
    members: ReadonlyMap<string, string>,
  ): Promise<string[]> {
    const merged: string[] = [];
    for (const [member, note] of [...members].filter(([one]) => isProfile(one))) {
      // A linked one that was about to be merged.
      const [, its, owner] = /^\+(\S+) (.+)$/s.exec(note) ?? [];
      if (its !== undefined && owner !== undefined) await this.eraseGeneration(member, its, owner);
      const target = await this.#parts.merger.targetOf(member);
      const isDirect = target?.link.profileId === profileId && target.link.generation === generation;
      // Or by way of another one that was merged there.
      if (target === undefined || !(isDirect || members.has(target.link.profileId))) continue;
      merged.push(member);
      await this.#parts.merger.clear(member, target);
    }
    return merged;
  }

  /** Unlinks an identity, if it leads to what is erased. */
  async #unlink(name: string, profileId: string, generation: string): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      const found = await this.#parts.links.look(name);
      const { link } = found;
      if (link === undefined || !leadsTo(found, profileId, generation)) return;
      // Of a merge that has not given anything yet.
      const own = this.#parts.links.defaultProfile(name);
      const target = link.task === '' ? undefined : await this.#parts.merger.targetOf(own);
      if (target !== undefined) await this.#parts.merger.clear(own, target);
      if (await this.#parts.links.replace(name, link, undefined)) return;
    }
    throw new ServiceError('unavailable');
  }
}

function leadsTo({ link }: Found, profileId: string, generation: string): boolean {
  return link?.profileId === profileId && link.generation === generation;
}

/** As it is written down, see Pending. */
function erasureOf(profileId: string, generation: string): string {
  return `erase ${profileId} ${generation}`;
}
