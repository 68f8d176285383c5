// Reads and changes links. An identity's hash is in the slot of its default profile, and has a guest's counts, or only
// a link:
//
//   <profile> <generation>              valid while the profile has this generation
//   <profile> <generation> !<mergeId>   the guest's data is being merged: see merge.ts
//   <profile> <generation> +<session>   a customer's, written before the session's profile gets this generation
//   <profile>                           a guest's home, which expires with the guest
//
// A guest's home is its default profile, unless another visitor has that (a customer took it over, then the session
// lost its link). Then it is the next profile id in the slot, computed from that visitor's generation. The identity
// gets a link to it: without one, it would lead to the default profile again once the other visitor is erased.
//
// A customer always has a link. redirects.ts removes dead links lazily. Remembered links are hints: on one server the
// script verifies them; on a cluster, where identity and profile may be at two nodes, links are read first.

import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import { GUEST_KINDS } from '../redis/keys.js';
import { GONE, guestLocation, MAX_HOPS } from '../redis/location.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { LinkKind, VisitBatch } from '../visits/visit-batch.js';
import type { ProfileIds } from './profile-id.js';

const LINK = loadScript<number>('profiles/linkIdentity');
const ADD_MEMBER = loadScript<number>('profiles/addMember');
const ASSIGN_OWNER = loadScript<string>('profiles/assignOwner');

/** A session's id may contain spaces and U+2028. */
const LINK_FIELD = /^(\S+) (\S+)(?: (.+))?$/s;
/** Links to remember; each takes about 200 bytes. */
const REMEMBERED = 100_000;

export interface Link {
  /** The link as it is stored. */
  readonly field: string;
  readonly profileId: string;
  /** '' for a guest's home. */
  readonly generation: string;
  /** The task to finish first: `!<mergeId>` or `+<session>`; '' if there is none. */
  readonly task: string;
}

export interface Found {
  readonly link: Link | undefined;
  readonly exists: boolean;
  /** If there is no link: the identity's profile, or the profile that its first write will create. */
  readonly home: string;
}

export class Links {
  readonly #remembered = new LRUCache<string, Link>({ max: REMEMBERED });

  constructor(
    private readonly store: Store,
    private readonly batch: VisitBatch,
    private readonly profileIds: ProfileIds,
  ) {}

  get areChecked(): boolean {
    return this.store.isOneServer;
  }

  defaultProfile(name: string): string {
    return this.profileIds.of(name);
  }

  remembered(name: string): Link | undefined {
    return this.#remembered.size === 0 ? undefined : this.#remembered.get(name);
  }

  remember(name: string, link: Link | undefined): void {
    if (link === undefined || link.task !== '') this.#remembered.delete(name);
    else this.#remembered.set(name, link);
  }

  /** The remembered link of both. A profile never changes its customer, so checking the session suffices. */
  pair(customer: string, session: string): Link | undefined {
    const link = this.remembered(session);
    return link !== undefined && this.remembered(customer)?.field === link.field ? link : undefined;
  }

  /** @param kind `resolve` creates an unknown session */
  async read(name: string, kind: LinkKind = 'peek'): Promise<Found> {
    const own = this.defaultProfile(name);
    const asked = { kind, handle: '', device: null, ...guestLocation(own) };
    const field = (await this.batch.run(asked)) as string;
    const link = linkIn(field);
    this.remember(name, link);
    if (link !== undefined && link.generation !== '') return { link, exists: true, home: own };
    if (link !== undefined) return { link: undefined, exists: true, home: link.profileId };
    if (field !== GONE) return { link, exists: field !== '', home: own };
    return { link, exists: false, home: await this.#homeAfter(own) };
  }

  async #homeAfter(own: string): Promise<string> {
    let home = own;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const [generation, target] = await this.#fencesOf(home);
      if (!generation && !target) return home;
      home = this.profileIds.after(home, generation ?? (target as string).replace(/^!/, ''));
    }
    throw new ServiceError('internal');
  }

  #fencesOf(profileId: string): Promise<(string | null)[]> {
    const key = this.store.keys.profile(profileId);
    return this.store.call((client) => client.hmget(key, 'generation', 'target'));
  }

  async isAlive({ profileId, generation }: Link): Promise<boolean> {
    const [found, target] = await this.#fencesOf(profileId);
    if (generation !== '' || found || target) return found === generation;
    const key = this.store.keys.profile(profileId);
    return (await this.store.call((client) => client.exists(key))) === 1;
  }

  /** @returns false after a concurrent change */
  async replace(name: string, before: Link | undefined, after: Link | undefined): Promise<boolean> {
    const { keys, guestsS } = this.store;
    const own = this.defaultProfile(name);
    const touched = [keys.identity(own), keys.profile(own)];
    if (after?.generation === '') touched.push(keys.profile(after.profileId));
    const args = [before?.field ?? '', after?.field ?? '', guestsS];
    const isDone = (await this.store.change(LINK, touched, args)) === 1;
    this.remember(name, isDone ? after : undefined);
    return isDone;
  }

  /** Call before the member's link is set. @param note see Keys.members @returns false if the profile was erased */
  async join({ profileId, generation }: Link, member: string, note = ''): Promise<boolean> {
    const { keys } = this.store;
    const args = [generation, member, note];
    return (
      (await this.store.change(ADD_MEMBER, [keys.profile(profileId), keys.members(profileId)], args)) === 1
    );
  }

  /**
   * Makes a customer the owner of an identity's home. @returns the identity's link, maybe another one; undefined if
   * this generation was erased, or the home is another visitor's
   */
  async own(
    name: string,
    home: string,
    owner: string,
    generation = newGeneration(),
  ): Promise<Link | undefined> {
    const { keys } = this.store;
    const own = this.defaultProfile(name);
    const touched = [
      keys.identity(own),
      keys.counts(home),
      keys.profile(home),
      keys.members(home),
      keys.erased(home, generation),
      ...GUEST_KINDS.map((kind) => keys.ofKind(kind, home)),
    ];
    const members = name === owner ? [] : [name];
    const leading = home === own ? '' : home;
    const args = [generation, linkTo(home, generation).field, owner, leading, ...members];
    const link = linkIn(await this.store.change(ASSIGN_OWNER, touched, args));
    this.remember(name, link);
    return link;
  }

  async ownerOf({ profileId, generation }: Link): Promise<string | undefined> {
    const key = this.store.keys.profile(profileId);
    const [found, owner] = await this.store.call((client) => client.hmget(key, 'generation', 'owner'));
    return found === generation ? (owner as string) : undefined;
  }
}

export function linkTo(profileId: string, generation: string, task = ''): Link {
  const field = `${profileId} ${generation}${task === '' ? '' : ' '}${task}`;
  return { field, profileId, generation, task };
}

export function linkHome(home: string): Link {
  return { field: home, profileId: home, generation: '', task: '' };
}

/** @param field an answer of countVisits.lua's `peek` */
export function linkIn(field: string): Link | undefined {
  if (field.length <= 1) return undefined;
  const [, profileId, generation, task = ''] = LINK_FIELD.exec(field) ?? [];
  if (profileId === undefined || generation === undefined) return linkHome(field);
  return { field, profileId, generation, task };
}

/** 48 bits, unique per profile id. */
export function newGeneration(): string {
  return randomBytes(6).toString('base64url');
}
