// Links a session to a customer, after a trusted request named both. The contract's table, row by row:
//
//   customer   session                     what happens
//   unknown    unknown                     the customer's own room; the session goes there
//   known      unknown                     the session goes to the customer's room
//   unknown    known, no customer's        the session's room becomes the customer's
//   same profile                           nothing
//   known      known, no customer's        the session's room is merged into the customer's
//   known or   known, another customer's   the session goes to the customer's room, an own one if need be;
//   unknown                                nothing is merged (a shared device)
//
// A session that is at home moves out first: the room that its counts are in then has this customer for its owner,
// also where we crash. From there on each change of a door is a compare-and-set on its move number. Where one fails,
// another request changed the same identity, and the question is asked again.

import { ServiceError } from '../errors.js';
import { isCustomerName, isSessionName } from '../identity-rules.js';
import { type AtProfile, ERASED, type Place, placeOf } from '../redis/at-profile.js';
import type { Store } from '../redis/store.js';
import { type Door, type Doors, isKnown } from './doors.js';
import type { Merger } from './merge.js';

/** Each lost round means that another request changed the same customer or session. */
const ROUNDS = 16;

export interface Linked {
  readonly profileId: string;
  /** Whether the session's profile was merged into the customer's by this very call. */
  readonly merged: boolean;
}

export class Linker {
  readonly #store: Store;
  readonly #doors: Doors;
  readonly #merger: Merger;
  readonly #atProfile: AtProfile;

  constructor(store: Store, doors: Doors, merger: Merger, atProfile: AtProfile) {
    this.#store = store;
    this.#doors = doors;
    this.#merger = merger;
    this.#atProfile = atProfile;
  }

  /** @returns the profile that both have from now on. @throws ServiceError `unavailable` */
  async link(customer: string, session: string): Promise<Linked> {
    for (let round = 0; round < ROUNDS; round++) {
      const [ofCustomer, ofSession] = await this.#where(customer, session);
      const linked = await this.#tryLink(customer, ofCustomer, session, ofSession);
      if (linked !== undefined) return linked;
    }
    throw new ServiceError('unavailable');
  }

  /** Whether a write in both names would make the session's profile the customer's. Changes nothing. */
  async wouldAdopt(customer: string, session: string): Promise<boolean> {
    const [ofCustomer, ofSession] = await this.#where(customer, session);
    if (isKnown(ofCustomer) || !isKnown(ofSession)) return false;
    if (ofSession.room === undefined) return true;
    const { owner, heir } = await this.#roomOf(ofSession.room);
    return heir === undefined && (owner === customer || !isCustomers(owner));
  }

  /** Where what a link would bring together is, the customer's first. Changes nothing. @throws ServiceError `unavailable` */
  async preview(customer: string, session: string): Promise<Place[]> {
    const [ofCustomer, ofSession] = await this.#where(customer, session);
    const customers = await this.#placeOf(customer, ofCustomer);
    if (!isKnown(ofSession)) return [customers];
    const sessions = await this.#placeOf(session, ofSession);
    if (sessions.profileId === customers.profileId) return [customers];
    const { owner } = await this.#roomOf(sessions.profileId);
    if (sessions.isRoom && isCustomers(owner) && owner !== customer) return [customers];
    return isKnown(ofCustomer) ? [customers, sessions] : [sessions];
  }

  /** Where what an identity has is. Changes nothing. @throws ServiceError `unavailable` */
  async locate(name: string): Promise<Place> {
    return this.#placeOf(name, await this.#doors.where(name));
  }

  async #placeOf(name: string, { room }: Door): Promise<Place> {
    const present = room === undefined ? undefined : await this.#atProfile.presentOf(room);
    if (present !== undefined) return placeOf(present);
    return { profileId: this.#doors.ownProfile(name), isRoom: false, checked: '', own: '', field: '' };
  }

  /** Whether a session's profile belongs to a customer. Changes nothing. */
  async belongsToCustomer(session: string): Promise<boolean> {
    const { room } = await this.#doors.where(session);
    if (room === undefined) return false;
    const { owner, heir } = await this.#roomOf(room);
    return heir !== undefined || owner === undefined || !isSessionName(owner);
  }

  /**
   * Makes a room part of its owner's profile: the owner's room, or merged into it.
   * @returns the owner's room; undefined where the room was erased meanwhile
   * @throws ServiceError `unavailable`
   */
  async bring(owner: string, room: string): Promise<string | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const ofOwner = await this.#doors.where(owner);
      if (isKnown(ofOwner) || room === this.#doors.ownProfile(owner)) {
        const target = ofOwner.room ?? (await this.#ownRoom(owner));
        if (target === room) return room;
        const heir = await this.#merger.merge(room, target);
        if (heir !== undefined) return heir;
        // One of the two was erased.
        await this.#doors.mend(owner, target);
        if (!(await this.#doors.isThere(room))) return undefined;
        continue;
      }
      if (await this.#doors.point(owner, ofOwner, room)) return room;
      if (!(await this.#doors.isThere(room))) return undefined;
    }
    throw new ServiceError('unavailable');
  }

  #where(customer: string, session: string): Promise<[Door, Door]> {
    return Promise.all([this.#doors.where(customer), this.#doors.where(session)]);
  }

  /** One try; undefined where something has changed meanwhile. */
  async #tryLink(
    customer: string,
    ofCustomer: Door,
    session: string,
    ofSession: Door,
  ): Promise<Linked | undefined> {
    if (!isKnown(ofSession)) return this.#goTo(customer, ofCustomer, session, ofSession);
    const door = ofSession.room === undefined ? await this.#doors.moveOut(session, customer) : ofSession;
    const from = door.room as string;
    if (from === ofCustomer.room) {
      if (await this.#doors.isThere(from)) {
        this.#doors.rememberLink(customer, session, door);
        return { profileId: from, merged: false };
      }
      await Promise.all([customer, session].map((name) => this.#doors.mend(name, from)));
      return undefined;
    }
    const { owner, heir } = await this.#roomOf(from);
    if (heir !== undefined) {
      // A merge that this door was not told of.
      const room = heir === ERASED ? undefined : await this.#merger.merge(from, heir);
      if (room === undefined) {
        await this.#doors.mend(session, from);
        return undefined;
      }
      await this.#doors.point(session, door, room);
      const isTheirs = room === (await this.#doors.where(customer)).room;
      return isTheirs ? { profileId: room, merged: false } : undefined;
    }
    if (owner === undefined) {
      await this.#doors.mend(session, from);
      return undefined;
    }
    if (!isCustomers(owner)) {
      await this.#doors.claim(from, customer);
      return undefined;
    }
    // What the owner was promised is kept before the session leaves.
    const room = await this.bring(owner, from);
    if (room === undefined) return undefined;
    if (owner !== customer) return this.#goTo(customer, ofCustomer, session, door);
    // The session was this customer's when the owner was read: the link holds, also where another request has moved
    // the session on before its door is told.
    if (room !== from) await this.#doors.point(session, door, room);
    else this.#doors.rememberLink(customer, session, door);
    return { profileId: room, merged: room !== from };
  }

  /** A customer's room where it is at home or unknown so far. */
  async #ownRoom(customer: string): Promise<string> {
    return (await this.#doors.moveOut(customer, customer)).room as string;
  }

  /** The session goes to the customer's room, unless its door says something else by now. */
  async #goTo(customer: string, ofCustomer: Door, session: string, door: Door): Promise<Linked | undefined> {
    const room = ofCustomer.room ?? (await this.#ownRoom(customer));
    if (await this.#doors.point(session, door, room)) return { profileId: room, merged: false };
    if (!(await this.#doors.isThere(room))) await this.#doors.mend(customer, room);
    return undefined;
  }

  async #roomOf(room: string): Promise<{ owner: string | undefined; heir: string | undefined }> {
    const key = this.#store.keys.profile(room);
    const [owner, tombstone] = await this.#store.call((client) => client.hmget(key, 'owner', 'heir'));
    return { owner: owner ?? undefined, heir: tombstone?.replace(/^!/, '') };
  }
}

function isCustomers(owner: string | undefined): boolean {
  return owner !== undefined && isCustomerName(owner);
}
