// Erases a linked profile, and then the data in other slots that leads to it; docs/architecture.md has the steps.
//
// Members are listed before their links, and leftovers stay until the last step, so every step is idempotent.

import { isIdentityName } from '../clickhouse/erased-rows.js';
import { ServiceError } from '../errors.js';
import { readHash } from '../redis/hash.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { removeKeys } from '../redis/write.js';
import { type Belonging, indexedFields, keyOf } from './belongings.js';
import type { Emails } from './emails.js';
import { type Found, type Link, type Links, linkTo } from './links.js';
import { isProfile, type Merger, type Target } from './merge.js';
import type { Pending } from './pending.js';
import { queueRows } from './queued-rows.js';

const ERASE = loadScript<number>('profiles/eraseProfile');

const ROUNDS = 16;
/** Seconds that an erasure record is kept, far longer than a write can be late. */
const ERASED_S = 30 * 24 * 60 * 60;
/** Milliseconds by which clocks of Redis's nodes may differ. */
const GRACE_MS = 1_000;

/** Called with all profiles of a visitor before the first is erased. */
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
  constructor(private readonly parts: LinkedEraserParts) {}

  async erase({ profileId, generation }: Link, onErasing: OnErasing): Promise<boolean> {
    const members = await readHash(this.parts.store, this.parts.store.keys.members(profileId));
    await onErasing([profileId, ...[...members.keys()].filter(isProfile)]);
    await this.parts.pending.begin(profileId, erasureOf(profileId, generation));
    return this.eraseGeneration(profileId, generation);
  }

  /** Completes pending erasures of profiles that had this member. resume.ts completes the others, which might fail. */
  async completeOf(member: string): Promise<void> {
    for await (const page of this.parts.pending.pages()) {
      const left = await Promise.all(page.map((operation) => this.#leftOf(operation, member)));
      for (const [profileId, generation] of left.filter((one) => one !== undefined))
        await this.removeLeftovers(profileId, generation);
    }
  }

  async #leftOf(operation: string, member: string): Promise<readonly [string, string] | undefined> {
    const [kind, profileId = '', generation = ''] = operation.split(' ');
    if (kind !== 'erase') return undefined;
    const left = this.parts.store.keys.leftovers(profileId, generation);
    try {
      const isMember = await this.parts.store.call((client) => client.hexists(left, member));
      return isMember === 1 ? [profileId, generation] : undefined;
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      return undefined;
    }
  }

  /** Idempotent. @returns true if this call erased the profile */
  async eraseGeneration(profileId: string, generation: string): Promise<boolean> {
    const { keys } = this.parts.store;
    const itsKey = (one: Belonging) => keyOf(keys, one, profileId, false);
    const touched = [
      keys.profile(profileId),
      keys.members(profileId),
      keys.leftovers(profileId, generation),
      keys.erased(profileId, generation),
      ...this.parts.belongings.map(itsKey),
    ];
    // Indexes come first: only the fields, which ERASE deletes, say which indexes have the profile.
    if (await this.parts.links.isAlive(linkTo(profileId, generation)))
      for (const [index, fields] of await indexedFields(this.parts.store, this.parts.belongings, itsKey))
        await index.remove(fields, profileId);
    const isDone = (await this.parts.store.change(ERASE, touched, [generation, ERASED_S])) === 1;
    await this.removeLeftovers(profileId, generation);
    return isDone;
  }

  async removeLeftovers(profileId: string, generation: string): Promise<void> {
    const { keys } = this.parts.store;
    const left = keys.leftovers(profileId, generation);
    const members = await readHash(this.parts.store, left);
    if (members.size > 0) {
      // Later rows stay: a returning visitor has the same ids.
      const at = Number(members.get('')) + GRACE_MS;
      members.delete('');
      const names: string[] = [];
      for (const name of [...members.keys()].filter(isIdentityName))
        if (leadsTo(await this.parts.links.read(name), profileId, generation)) names.push(name);
      // Rows are queued before the links are removed, because an unlinked identity may be a new visitor's.
      await queueRows(this.parts.store, [...names, profileId], at);
      const profiles = [profileId, ...(await this.#clearMerged(profileId, generation, members, at))];
      const gone = new Set(profiles);
      for (const member of members.keys()) {
        if (member.startsWith('#')) await removeKeys(this.parts.store, [keys.share(member.slice(1))]);
        else if (member.startsWith('@')) await this.parts.emails.forgetGone(member.slice(1), gone);
      }
      for (const name of names) await this.#unlink(name, profileId, generation, at);
      const applied = [...members.keys()]
        .filter(isProfile)
        .map((one) => keys.applied(profileId, generation, one));
      await removeKeys(this.parts.store, [...applied, left]); // `left` names the others
    }
    await this.parts.pending.forget(erasureOf(profileId, generation));
  }

  async #clearMerged(
    profileId: string,
    generation: string,
    members: ReadonlyMap<string, string>,
    at: number,
  ): Promise<string[]> {
    const merged: string[] = [];
    for (const [member, note] of [...members].filter(([one]) => isProfile(one))) {
      // The source was linked, and its merge is not applied yet.
      const [, its] = /^\+(\S+)/.exec(note) ?? [];
      if (its !== undefined) await this.eraseGeneration(member, its);
      const target = await this.parts.merger.targetOf(member);
      const isDirect = target?.link.profileId === profileId && target.link.generation === generation;
      // The member was merged directly, or through another merged profile.
      if (target === undefined || !(isDirect || members.has(target.link.profileId))) continue;
      merged.push(member);
      await this.#clear(member, target, at);
    }
    return merged;
  }

  /** Rows are queued first, because nothing leads to a cleared source. */
  async #clear(source: string, target: Target, at: number): Promise<void> {
    await queueRows(this.parts.store, [source], at);
    await this.parts.merger.clear(source, target);
  }

  async #unlink(name: string, profileId: string, generation: string, at: number): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      const found = await this.parts.links.read(name);
      const { link } = found;
      if (link === undefined || !leadsTo(found, profileId, generation)) return;
      // Erases a guest whose merge into this profile has begun, but has applied no page yet: it isn't a member.
      const own = this.parts.links.defaultProfile(name);
      const target = link.task === '' ? undefined : await this.parts.merger.targetOf(own);
      if (target !== undefined) await this.#clear(own, target, at);
      if (await this.parts.links.replace(name, link, undefined)) return;
    }
    throw new ServiceError('unavailable');
  }
}

function leadsTo({ link }: Found, profileId: string, generation: string): boolean {
  return link?.profileId === profileId && link.generation === generation;
}

function erasureOf(profileId: string, generation: string): string {
  return `erase ${profileId} ${generation}`;
}
