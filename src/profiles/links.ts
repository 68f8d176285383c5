// Reads and changes the links of identities.
//
// Each identity has a hash in the slot of its default profile, whose id is computed from its name. A guest's hash has its counts. A
// linked identity's hash has only its link:
//
//   <profile> <generation>             leads to that profile, as long as the profile has this generation
//   <profile> <generation> !<nonce>    the same, while the guest's data is being merged: see src/profiles/merge.ts
//   <profile> <generation> +<session>  a customer's, written before the session's profile gets this generation
//   <profile>                          a guest's home, which expires with the guest
//
// A guest's home (its profile) is its default profile. If that belongs to another visitor (the session's profile became a customer's, or
// was merged into one, and the session lost its link later), the home is the next profile id in the same slot, computed from that
// visitor's generation. The guest's first write creates it, and the entry above, because the other visitor may be erased before the
// guest.
//
// A customer that exists always has a link. An erased profile has no generation, so all links to it are dead at once;
// src/profiles/redirects.ts removes a dead link when a request meets it.
//
// Links remembered by this process are hints. On one server the script verifies them in the same step; on a cluster, where identity and
// profile may be at two nodes, the link is read first.

import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import { GONE, guestPlace, MAX_HOPS } from '../redis/place.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { VisitBatch } from '../visits/visit-batch.js';
import type { ProfileIds } from './profile-id.js';

const LOOK = loadScript<string>('profiles/peekLink');
const LINK = loadScript<number>('profiles/linkIdentity');
const JOIN = loadScript<number>('profiles/addMember');
const OWN = loadScript<string>('profiles/assignOwner');

/** A session's id may contain spaces and U+2028. */
const LINK_FIELD = /^(\S+) (\S+)(?: (.+))?$/s;
/** Maximum remembered links, about 200 bytes each. */
const REMEMBERED = 100_000;

export interface Link {
  /** The stored text, for a compare-and-set. */
  readonly field: string;
  readonly profileId: string;
  /** '' for a guest's home. */
  readonly generation: string;
  /** A task to finish first: `!<nonce>`, `+<session>`; else ''. */
  readonly task: string;
}

/** An identity's link, or whether it exists without one. */
export interface Found {
  readonly link: Link | undefined;
  readonly isKnown: boolean;
  /** Without a link: its profile, or the one that its first write creates. */
  readonly home: string;
}

export class Links {
  readonly #store: Store;
  readonly #batch: VisitBatch;
  readonly #profileIds: ProfileIds;
  /** name -> last seen link */
  readonly #remembered = new LRUCache<string, Link>({ max: REMEMBERED });

  constructor(store: Store, batch: VisitBatch, profileIds: ProfileIds) {
    this.#store = store;
    this.#batch = batch;
    this.#profileIds = profileIds;
  }

  /** On one server a script verifies a link and acts at the profile in one step. */
  get areChecked(): boolean {
    return this.#store.isOneServer;
  }

  /** Computed from the name. */
  defaultProfile(name: string): string {
    return this.#profileIds.of(name);
  }

  remembered(name: string): Link | undefined {
    return this.#remembered.size === 0 ? undefined : this.#remembered.get(name);
  }

  remember(name: string, link: Link | undefined): void {
    if (link === undefined || link.task !== '') this.#remembered.delete(name);
    else this.#remembered.set(name, link);
  }

  /**
   * The session's link, if the customer had the same one when this process last saw both. As long as the session has it, and the
   * profile this generation, both are one visitor: a profile never changes its customer.
   */
  pair(customer: string, session: string): Link | undefined {
    const link = this.remembered(session);
    return link !== undefined && this.remembered(customer)?.field === link.field ? link : undefined;
  }

  /** @param kind `resolve` creates an unknown session @throws ServiceError `unavailable` */
  async read(name: string, kind: 'peek' | 'resolve' = 'peek'): Promise<Found> {
    const profileId = this.defaultProfile(name);
    const asked = { kind, handle: '', device: null, ...guestPlace(profileId) };
    const field = (await this.#batch.run(asked)) as string;
    this.remember(name, linkIn(field));
    return this.#foundOf(name, field);
  }

  /** `read` that works at Redis's `maxmemory`, too, where a batch with visits fails. */
  async look(name: string): Promise<Found> {
    const { keys } = this.#store;
    const own = this.defaultProfile(name);
    return this.#foundOf(name, await this.#store.run(LOOK, [keys.identity(own), keys.profile(own)], []));
  }

  async #foundOf(name: string, field: string): Promise<Found> {
    const link = linkIn(field);
    const own = this.defaultProfile(name);
    if (link !== undefined && link.generation !== '') return { link, isKnown: true, home: own };
    if (link !== undefined) return { link: undefined, isKnown: true, home: link.profileId };
    if (field !== GONE) return { link, isKnown: field !== '', home: own };
    return { link, isKnown: false, home: await this.#homeAfter(own) };
  }

  /** The home of a new identity whose default profile belongs to another visitor. */
  async #homeAfter(own: string): Promise<string> {
    let home = own;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const [generation, target] = await this.#fencesOf(home);
      if (!generation && !target) return home;
      home = this.#profileIds.after(home, generation ?? (target as string).replace(/^!/, ''));
    }
    throw new ServiceError('internal');
  }

  #fencesOf(profileId: string): Promise<(string | null)[]> {
    const key = this.#store.keys.profile(profileId);
    return this.#store.call((client) => client.hmget(key, 'generation', 'target'));
  }

  /** False for a dead link: the profile was erased, or belongs to another visitor. */
  async isAlive({ profileId, generation }: Link): Promise<boolean> {
    const [found, target] = await this.#fencesOf(profileId);
    if (generation !== '' || found || target) return found === generation;
    const key = this.#store.keys.profile(profileId);
    return (await this.#store.call((client) => client.exists(key))) === 1;
  }

  /** Creates a session whose default profile belongs to another visitor. @returns false after a concurrent change */
  async enter(name: string, home: string): Promise<boolean> {
    const { keys, guestsS } = this.#store;
    const own = this.defaultProfile(name);
    const touched = [keys.identity(own), keys.profile(own), keys.profile(home)];
    return (await this.#store.change(LINK, touched, ['', home, guestsS])) === 1;
  }

  /**
   * Replaces a link by compare-and-set. @param before undefined for a new identity @param after undefined removes it
   */
  async replace(name: string, before: Link | undefined, after: Link | undefined): Promise<boolean> {
    const { keys } = this.#store;
    const own = this.defaultProfile(name);
    const args = [before?.field ?? '', after?.field ?? ''];
    const isDone = (await this.#store.change(LINK, [keys.identity(own), keys.profile(own)], args)) === 1;
    this.remember(name, isDone ? after : undefined);
    return isDone;
  }

  /**
   * Lists a member of a profile before anything leads there.
   * @param note for a merged profile: nonce of the finished merge; before that `+<generation> <owner>` of a linked source
   * @returns false if the profile was erased
   */
  async join({ profileId, generation }: Link, member: string, note = ''): Promise<boolean> {
    const { keys } = this.#store;
    const args = [generation, member, note];
    return (await this.#store.change(JOIN, [keys.profile(profileId), keys.members(profileId)], args)) === 1;
  }

  /**
   * Gives an identity's home an owner: a customer's own, or a guest's that becomes a customer's.
   * @returns the link to it; another one where the identity has that; undefined where this generation was erased meanwhile, or the
   * home is another visitor's by now
   */
  async own(
    name: string,
    home: string,
    owner: string,
    generation = newGeneration(),
  ): Promise<Link | undefined> {
    const { keys } = this.#store;
    const own = this.defaultProfile(name);
    const touched = [
      keys.identity(own),
      keys.counts(home),
      keys.profile(home),
      keys.members(home),
      keys.erased(home, generation),
      keys.identity(home),
      keys.items(home),
    ];
    const members = name === owner ? [] : [name];
    const leading = home === own ? '' : home;
    const args = [generation, linkTo(home, generation).field, owner, leading, ...members];
    const link = linkIn(await this.#store.change(OWN, touched, args));
    this.remember(name, link);
    return link;
  }

  /** Owner of a linked profile; undefined where it is gone. */
  async ownerOf({ profileId, generation }: Link): Promise<string | undefined> {
    const key = this.#store.keys.profile(profileId);
    const [found, owner] = await this.#store.call((client) => client.hmget(key, 'generation', 'owner'));
    return found === generation ? (owner as string) : undefined;
  }
}

export function linkTo(profileId: string, generation: string, task = ''): Link {
  const field = `${profileId} ${generation}${task === '' ? '' : ' '}${task}`;
  return { field, profileId, generation, task };
}

/** What leads a guest to a home that is not its default profile. */
export function linkHome(home: string): Link {
  return { field: home, profileId: home, generation: '', task: '' };
}

/** @param field of an identity, as scripts answer it; `.`, `!` and nothing are none */
export function linkIn(field: string): Link | undefined {
  if (field.length <= 1) return undefined;
  const [, profileId, generation, task = ''] = LINK_FIELD.exec(field) ?? [];
  if (profileId === undefined || generation === undefined) return linkHome(field);
  return { field, profileId, generation, task };
}

/** One that no profile has had: 48 bits, beside the profile's id. */
export function newGeneration(): string {
  return randomBytes(6).toString('base64url');
}
