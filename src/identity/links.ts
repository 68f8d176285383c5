// The links of identities: the one place that reads and changes them.
//
// Each identity has a hash in the slot of its default profile, whose id is computed from its name. A guest's hash has its
// counts. A linked identity's hash has its link instead:
//
//   <profile> <generation>             leads to that profile, as long as the profile has this generation
//   <profile> <generation> !<nonce>    and what the guest had is on its way there: see src/identity/merge.ts
//   <profile> <generation> +<session>  a customer's, written before the session's profile gets this generation
//
// Customers always have a link once they are known. A profile that was erased has lost its generation, so all links to it are
// dead at once; src/identity/redirects.ts removes one when a request finds it.
//
// What this process remembers of links is a hint. On one server the script checks it in the same step; on a cluster, where
// identity and profile may be at two nodes, the link is read first.

import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { guestPlace } from '../redis/place.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { VisitBatch } from '../visits/visit-batch.js';
import { freshLike, type ProfileIds } from './profile-id.js';

const LOOK = loadScript<string>('look');
const LINK = loadScript<number>('link');
const UNLINK = loadScript<number>('unlink');
const JOIN = loadScript<number>('join');
const OWN = loadScript<string>('own');
const ASSIGN = loadScript<string>('assign');

/** A session's id may have spaces, and U+2028. */
const LINK_FIELD = /^(\S+) (\S+)(?: (.+))?$/s;
/** Links that one process remembers, of identities and of pairs; about 200 bytes each. */
const REMEMBERED = 100_000;

export interface Link {
  /** All of it, as it is kept: what a change of it is compared with. */
  readonly field: string;
  readonly profileId: string;
  readonly generation: string;
  /** What is to be finished first: `!<nonce>`, `+<session>`; else empty. */
  readonly task: string;
}

/** What is known of an identity: its link, or whether it is known without one. */
export interface Found {
  readonly link: Link | undefined;
  readonly isKnown: boolean;
}

export class Links {
  readonly #store: Store;
  readonly #batch: VisitBatch;
  readonly #profileIds: ProfileIds;
  /** name -> its link, as last seen. And of pairs, see `pair`. */
  readonly #remembered = new LRUCache<string, Link>({ max: REMEMBERED });

  constructor(store: Store, batch: VisitBatch, profileIds: ProfileIds) {
    this.#store = store;
    this.#batch = batch;
    this.#profileIds = profileIds;
  }

  /** Whether a script can check a link and do something at the profile in one step: on one server. */
  get areChecked(): boolean {
    return !this.#store.isCluster;
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
   * The session's link when this process last saw that both lead to one profile. While the session has it, and the profile
   * this generation, they do: a profile stays its customer's.
   */
  pair(customer: string, session: string): Link | undefined {
    return this.remembered(pairOf(customer, session));
  }

  rememberPair(customer: string, session: string, link: Link): void {
    this.remember(pairOf(customer, session), link);
  }

  /** @param kind `resolve` makes an unknown session known @throws ServiceError `unavailable` */
  async read(name: string, kind: 'peek' | 'resolve' = 'peek'): Promise<Found> {
    const profileId = this.defaultProfile(name);
    const asked = { kind, handle: '', device: null, ...guestPlace(profileId) };
    const found = foundOf((await this.#batch.run(asked)) as string);
    this.remember(name, found.link);
    return found;
  }

  /** `read`, which Redis answers while it is at its `maxmemory`, too: a batch with visits fails then. */
  async look(name: string): Promise<Found> {
    const { keys } = this.#store;
    const own = this.defaultProfile(name);
    return foundOf(await this.#store.run(LOOK, [keys.identity(own), keys.profile(own)], []));
  }

  /**
   * Replaces a link, if it is still the one that was seen. @param before undefined where the identity was unknown
   * @param after undefined to take it away, of a customer
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
   * Takes away the link to a profile that is gone. Where the identity's default profile is another visitor's by now, it gets
   * a fresh one. @returns false where it has another link
   */
  async unlink(name: string, link: Link): Promise<boolean> {
    const { keys } = this.#store;
    const own = this.defaultProfile(name);
    const fresh = freshLike(own);
    const generation = newGeneration();
    const touched = [keys.identity(own), keys.profile(own), keys.profile(fresh), keys.members(fresh)];
    const args = [link.field, name, generation, linkTo(fresh, generation).field];
    this.#remembered.delete(name);
    return (await this.#store.change(UNLINK, touched, args)) === 1;
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
   * Gives an identity's default profile an owner: a customer's own, or a guest's that becomes a customer's.
   * @returns the link to it; another one where the identity has that; undefined where this generation was erased meanwhile
   */
  async own(name: string, owner: string, generation = newGeneration()): Promise<Link | undefined> {
    const { keys } = this.#store;
    const own = this.defaultProfile(name);
    const touched = [
      keys.identity(own),
      keys.counts(own),
      keys.profile(own),
      keys.members(own),
      keys.erased(own, generation),
      keys.items(own),
    ];
    const members = name === owner ? [] : [name];
    const args = [generation, linkTo(own, generation).field, owner, ...members];
    const { link } = foundOf(await this.#store.change(OWN, touched, args));
    this.remember(name, link);
    return link;
  }

  /** Makes a session's linked profile its customer's. @returns its owner then; empty where the profile is gone */
  async assign({ profileId, generation }: Link, customer: string): Promise<string> {
    const { keys } = this.#store;
    return this.#store.change(ASSIGN, [keys.profile(profileId)], [generation, customer]);
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

/** @param field of an identity, as scripts answer it */
export function foundOf(field: string): Found {
  const [, profileId, generation, task = ''] = LINK_FIELD.exec(field) ?? [];
  if (profileId === undefined || generation === undefined) return { link: undefined, isKnown: field !== '' };
  return { link: { field, profileId, generation, task }, isKnown: true };
}

/** One that no profile has had: 48 bits, beside the profile's id. */
export function newGeneration(): string {
  return randomBytes(6).toString('base64url');
}

/** No name has a control character. */
function pairOf(customer: string, session: string): string {
  return `${customer}\n${session}`;
}
