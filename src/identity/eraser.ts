// Erases visitors from Redis: identities, profiles, items, journals of merges, request records and share codes.
//
//   a guest    ──erase-guest──▶ gone, in one step
//   linked     written down ──erase──▶ the profile is gone in one step, and every link to it is dead ──▶ what leads there:
//              share codes, request records, the index of addresses ──▶ its rows queued for erasure from streams and
//              ClickHouse ──▶ its identities: rows that name one queued, unlinked ──▶ what merges left of other profiles
//
// A profile lists its members before they lead there (lua/join.lua, lua/own.lua, lua/give.lua), and keeps the list until the
// last of these steps is done. Each step is safe to repeat; src/identity/resume.ts completes what a process leaves half done,
// and so does a request that finds a dead link.
//
// What was under way meanwhile ends in a new visitor, or in nothing: every script checks the profile's generation in the step
// that changes something. A line for the stream was written before the erasure says "up to now" (lua/erasures.lua); see
// src/flush/erasures.ts.

import { isIdentityName } from '../clickhouse/erased-rows.js';
import { ServiceError } from '../errors.js';
import { readHash } from '../redis/hash.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Emails } from './emails.js';
import { type Found, type Link, type Links, linkTo } from './links.js';
import { isProfile, type Merger } from './merge.js';
import type { NamedVisitor } from './named-visitor.js';
import type { Pending } from './pending.js';
import { queueRows } from './queued-rows.js';
import type { Redirects } from './redirects.js';

const ERASE = loadScript<number>('erase');
const GUEST = loadScript<string | [wasKnown: number, code: string]>('erase-guest');
const PUT = loadScript('put');

/** Each lost round means that another request changed the same identity. */
const ROUNDS = 16;
/** Keys or names that one call takes. */
const AT_ONCE = 100;
/** Seconds for which an erased generation stays: far longer than anything is late. */
const ERASED_S = 30 * 24 * 60 * 60;
/** In place of a generation, which a guest does not have. */
const GUEST_REQUESTS = 'guest';
/** Milliseconds by which the clocks of servers and of Redis may differ. */
const GRACE_MS = 1_000;

/** Called with all profiles of a visitor before the first of them goes. */
export type OnErasing = (profiles: readonly string[]) => Promise<void> | void;

export class Eraser {
  readonly #store: Store;
  readonly #links: Links;
  readonly #merger: Merger;
  readonly #redirects: Redirects;
  readonly #emails: Emails;
  readonly #pending: Pending;
  readonly #onErased: (() => void) | undefined;

  /** @param onErased called for each visitor */
  constructor(
    store: Store,
    links: Links,
    merger: Merger,
    redirects: Redirects,
    emails: Emails,
    pending: Pending,
    onErased?: () => void,
  ) {
    this.#store = store;
    this.#links = links;
    this.#merger = merger;
    this.#redirects = redirects;
    this.#emails = emails;
    this.#pending = pending;
    this.#onErased = onErased;
  }

  /**
   * Erases the visitor that an identity is one of.
   * @param name of the identity, see identityName
   * @returns whether there was one
   * @throws ServiceError `unavailable`: a part of it may be erased, and the next try does the rest
   */
  async erase(name: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      const { link } = await this.#redirects.stateOf(name, (one) => this.#links.look(one));
      const erased =
        link === undefined
          ? await this.#eraseGuest(this.#links.ownProfile(name), name, onErasing)
          : (await this.#eraseLinked(link, onErasing)) || undefined;
      if (erased === undefined) continue;
      if (!erased) await this.#completeOthers();
      return erased;
    }
    throw new ServiceError('unavailable');
  }

  /** Erases the visitor that a caller has named. @returns whether there was one @throws as `erase` */
  async eraseNamed({ names, digest }: NamedVisitor): Promise<boolean> {
    let erased = digest !== undefined && (await this.eraseByEmail(digest));
    for (const [i, name] of names.entries()) {
      if (i === 0 && digest === undefined) erased = await this.erase(name);
      // Its rows go. Linked meanwhile, it is another visitor's.
      else if ((await this.#links.look(name)).link === undefined)
        erased = ((await this.#eraseGuest(this.#links.ownProfile(name), name)) ?? false) || erased;
    }
    return erased;
  }

  /**
   * Erases every visitor for whom an e-mail address was given.
   * @param digest see Emails @returns whether there was one @throws ServiceError `unavailable`
   */
  async eraseByEmail(digest: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    let erased = false;
    for (const { profileId, maker } of await this.#emails.find(digest)) {
      erased = (await this.#eraseGiven(digest, profileId, maker, onErasing)) || erased;
      await this.#emails.forgetGone(digest, [profileId]);
    }
    if (!erased) await this.#completeOthers();
    return erased;
  }

  async #eraseGiven(
    digest: string,
    profileId: string,
    maker: string,
    onErasing: OnErasing,
  ): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      const place = await this.#emails.givenAt(digest, profileId);
      if (place === undefined) return false;
      const erased =
        place.generation === ''
          ? await this.#eraseGuest(place.profileId, maker, onErasing, `@${digest}`)
          : (await this.#eraseLinked(linkTo(place.profileId, place.generation), onErasing)) || undefined;
      if (erased !== undefined) return erased;
    }
    throw new ServiceError('unavailable');
  }

  /**
   * @param name of the identity whose default profile it is; empty where that is not known
   * @param by a member that it must have, else it is another visitor; empty where that does not matter
   * @returns undefined where it has a link
   */
  async #eraseGuest(
    profileId: string,
    name: string,
    onErasing: OnErasing = () => {},
    by = '',
  ): Promise<boolean | undefined> {
    const { keys } = this.#store;
    const digests: string[] = [];
    for (const member of (await readHash(this.#store, keys.members(profileId))).keys())
      if (member.startsWith('@')) digests.push(member.slice(1));
    const rows = name === '' ? [profileId] : [profileId, name];
    await onErasing([profileId]);
    await queueRows(this.#store, rows);
    const [, requests] = keys.leftovers(profileId, GUEST_REQUESTS);
    const touched = [
      keys.identity(profileId),
      keys.profile(profileId),
      keys.members(profileId),
      keys.requests(profileId),
      requests,
      keys.items(profileId),
      ...keys.journal(profileId),
    ];
    const reply = await this.#store.change(GUEST, touched, [by]);
    if (typeof reply === 'string') return undefined;
    const [wasKnown, code] = reply;
    await this.#eraseRequests(requests);
    await this.#remove([requests]);
    if (code !== '') await this.#remove([keys.share(code)]);
    for (const digest of digests) await this.#emails.forgetGone(digest, [profileId]);
    // Events may have come since their rows were queued.
    await queueRows(this.#store, rows);
    if (wasKnown === 1) this.#onErased?.();
    return wasKnown === 1;
  }

  /** @returns false where there is no such profile (any more) */
  async #eraseLinked({ profileId, generation }: Link, onErasing: OnErasing): Promise<boolean> {
    const { keys } = this.#store;
    const members = await readHash(this.#store, keys.members(profileId));
    const profiles = [...members.keys()].filter(isProfile);
    await onErasing([profileId, ...profiles]);
    await this.#pending.begin(profileId, erasureOf(profileId, generation));
    const isDone = await this.eraseGeneration(profileId, generation);
    if (isDone) this.#onErased?.();
    return isDone;
  }

  /** The visitor that is not there may be one whose erasure a process has left half done. */
  async #completeOthers(): Promise<void> {
    for (const operation of await this.#pending.list('pending')) {
      const [kind, profileId, generation] = operation.split(' ');
      if (kind === 'erase') await this.eraseGeneration(profileId as string, generation as string);
    }
  }

  /**
   * Erases a linked profile, or completes that. @param owner that it must have; empty where that does not matter
   * @returns whether this call erased it @throws ServiceError `unavailable`
   */
  async eraseGeneration(profileId: string, generation: string, owner = ''): Promise<boolean> {
    const { keys } = this.#store;
    const touched = [
      keys.profile(profileId),
      keys.members(profileId),
      keys.requests(profileId),
      ...keys.leftovers(profileId, generation),
      keys.erased(profileId, generation),
      keys.counts(profileId),
      keys.items(profileId),
    ];
    const isDone = (await this.#store.change(ERASE, touched, [generation, ERASED_S, owner])) === 1;
    await this.removeLeftovers(profileId, generation);
    return isDone;
  }

  /** Removes what still leads to an erased generation. @throws ServiceError `unavailable` */
  async removeLeftovers(profileId: string, generation: string): Promise<void> {
    const { keys } = this.#store;
    const [left, requests] = keys.leftovers(profileId, generation);
    const members = await readHash(this.#store, left);
    if (members.size > 0) {
      // Not later, however late this is: who comes back has the same ids.
      const until = Math.min(Date.now(), Number(members.get('')) + GRACE_MS);
      members.delete('');
      const names: string[] = [];
      for (const name of [...members.keys()].filter(isIdentityName))
        if (leadsTo(await this.#links.look(name), profileId, generation)) names.push(name);
      // Before one of them is unlinked: then it may be a new visitor's.
      await queueRows(this.#store, names, until);
      await this.#eraseRequests(requests);
      const profiles = [profileId, ...(await this.#mergedInto(profileId, generation, members))];
      await queueRows(this.#store, profiles, until);
      for (const member of members.keys()) {
        if (member.startsWith('#')) await this.#remove([keys.share(member.slice(1))]);
        else if (member.startsWith('@')) await this.#emails.forgetGone(member.slice(1), profiles);
      }
      for (const name of names) await this.#unlink(name, profileId, generation);
      const applied = [...members.keys()]
        .filter(isProfile)
        .map((one) => keys.applied(profileId, generation, one));
      await this.#remove([...applied, requests, left]);
    }
    await this.#pending.forget(erasureOf(profileId, generation));
  }

  /** Clears what merges have left of profiles that were merged there. @returns these profiles */
  async #mergedInto(
    profileId: string,
    generation: string,
    members: ReadonlyMap<string, string>,
  ): Promise<string[]> {
    const merged: string[] = [];
    for (const [member, note] of [...members].filter(([one]) => isProfile(one))) {
      // A linked one that was about to be merged.
      const [, its, owner] = /^\+(\S+) (.+)$/.exec(note) ?? [];
      if (its !== undefined && owner !== undefined) await this.eraseGeneration(member, its, owner);
      const target = await this.#merger.targetOf(member);
      const isDirect = target?.link.profileId === profileId && target.link.generation === generation;
      // Or by way of another one that was merged there.
      if (target === undefined || !(isDirect || members.has(target.link.profileId))) continue;
      merged.push(member);
      await this.#eraseRequests(this.#store.keys.requests(member));
      await this.#merger.clear(member, target);
    }
    return merged;
  }

  /** Unlinks an identity, if it leads to what is erased. */
  async #unlink(name: string, profileId: string, generation: string): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      const found = await this.#links.look(name);
      const { link } = found;
      if (link === undefined || !leadsTo(found, profileId, generation)) return;
      // Of a merge that has not given anything yet.
      const own = this.#links.ownProfile(name);
      const target = link.task === '' ? undefined : await this.#merger.targetOf(own);
      if (target !== undefined) await this.#merger.clear(own, target);
      if (await this.#links.unlink(name, link)) return;
    }
    throw new ServiceError('unavailable');
  }

  /** @param key of digests of request records */
  async #eraseRequests(key: string): Promise<void> {
    const { keys } = this.#store;
    const digests = await this.#store.call((client) => client.zrange(key, '0', '-1'));
    for (let i = 0; i < digests.length; i += AT_ONCE)
      await Promise.all(digests.slice(i, i + AT_ONCE).map((digest) => this.#remove([keys.request(digest)])));
  }

  /** @param names of keys in one slot */
  async #remove(names: readonly string[]): Promise<void> {
    for (let i = 0; i < names.length; i += AT_ONCE)
      await this.#store.change(PUT, names.slice(i, i + AT_ONCE), ['']);
  }
}

function leadsTo({ link }: Found, profileId: string, generation: string): boolean {
  return link?.profileId === profileId && link.generation === generation;
}

/** As it is written down, see Pending. */
function erasureOf(profileId: string, generation: string): string {
  return `erase ${profileId} ${generation}`;
}
