// The links of identities: the one place that reads and changes them.
//
// Each identity has a hash in the slot of its default profile, whose id is computed from its name. A guest's hash has its
// counts. A linked identity's hash has its link instead:
//
//   <profile> <generation>             leads to that profile, as long as the profile has this generation
//   <profile> <generation> !<nonce>    and what the guest had is on its way there: see src/identity/merge.ts
//   <profile> <generation> +<session>  a customer's, written before the session's profile gets this generation
//   <profile>                          a guest's home, which ends with the guest
//
// A guest's home, the profile that it has, is its default one. If that is another visitor's (the session's profile became a customer's
// or was merged into one, and later the session lost its link), the next profile id is taken, which follows from the visitor who has
// the profile. It is in the same slot. The first write makes it, and the entry above: the other visitor may be erased before the guest.
//
// Customers always have a link once they are known. A profile that was erased has lost its generation, so all links to it are
// dead at once; src/identity/redirects.ts removes one when a request finds it.
//
// What this process remembers of links is a hint. On one server the script checks it in the same step; on a cluster, where
// identity and profile may be at two nodes, the link is read first.

import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import { GONE, guestPlace, MAX_HOPS } from '../redis/place.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { VisitBatch } from '../visits/visit-batch.js';
import type { ProfileIds } from './profile-id.js';

const LOOK = loadScript<string>('look');
const LINK = loadScript<number>('link');
const JOIN = loadScript<number>('join');
const OWN = loadScript<string>('own');

/** A session's id may have spaces, and U+2028. */
const LINK_FIELD = /^(\S+) (\S+)(?: (.+))?$/s;
/** Links that one process remembers; about 200 bytes each. */
const REMEMBERED = 100_000;

export interface Link {
  /** All of it, as it is kept: what a change of it is compared with. */
  readonly field: string;
  readonly profileId: string;
  /** Empty: it leads a guest home. */
  readonly generation: string;
  /** What is to be finished first: `!<nonce>`, `+<session>`; else empty. */
  readonly task: string;
}

/** What is known of an identity: its link, or whether it is known without one. */
export interface Found {
  readonly link: Link | undefined;
  readonly isKnown: boolean;
  /** Without a link: the profile that it has or would get. */
  readonly home: string;
}

export class Links {
  readonly #store: Store;
  readonly #batch: VisitBatch;
  readonly #profileIds: ProfileIds;
  /** name -> its link, as last seen. */
  readonly #remembered = new LRUCache<string, Link>({ max: REMEMBERED });

  constructor(store: Store, batch: VisitBatch, profileIds: ProfileIds) {
    this.#store = store;
    this.#batch = batch;
    this.#profileIds = profileIds;
  }

  /** Whether a script can check a link and do something at the profile in one step: on one server. */
  get areChecked(): boolean {
    return this.#store.isOneServer;
  }

  /** The profile that a name gets when it is first written, whether or not it was. */
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
   * The session's link, if the customer had the same when this process last saw both. While the session has it, and the profile
   * this generation, they are one visitor: a profile stays its customer's.
   */
  pair(customer: string, session: string): Link | undefined {
    const link = this.remembered(session);
    return link !== undefined && this.remembered(customer)?.field === link.field ? link : undefined;
  }

  /** @param kind `resolve` makes an unknown session known @throws ServiceError `unavailable` */
  async read(name: string, kind: 'peek' | 'resolve' = 'peek'): Promise<Found> {
    const profileId = this.defaultProfile(name);
    const asked = { kind, handle: '', device: null, ...guestPlace(profileId) };
    const field = (await this.#batch.run(asked)) as string;
    this.remember(name, linkIn(field));
    return this.#foundOf(name, field);
  }

  /** `read`, which Redis answers while it is at its `maxmemory`, too: a batch with visits fails then. */
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

  /** The home of an unknown identity whose default profile is another visitor's. */
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

  /** Whether the profile that a link leads to is there, and still the one that it leads to. */
  async isAlive({ profileId, generation }: Link): Promise<boolean> {
    const [found, target] = await this.#fencesOf(profileId);
    if (generation !== '' || found || target) return found === generation;
    const key = this.#store.keys.profile(profileId);
    return (await this.#store.call((client) => client.exists(key))) === 1;
  }

  /** Makes a session known whose default profile is another visitor's. @returns false if it has changed since */
  async enter(name: string, home: string): Promise<boolean> {
    const { keys, guestsS } = this.#store;
    const own = this.defaultProfile(name);
    const touched = [keys.identity(own), keys.profile(own), keys.profile(home)];
    return (await this.#store.change(LINK, touched, ['', home, guestsS])) === 1;
  }

  /**
   * Replaces a link, if it is still the one that was seen. @param before undefined where the identity was unknown
   * @param after undefined to take it away
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
   * Lists what is about to lead to a profile among its members.
   * @param note of a profile: nonce of the merge once that is applied; before, `+<generation> <owner>` of a linked one
   * @returns false where the profile is gone
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
