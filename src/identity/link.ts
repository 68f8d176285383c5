// Links a session to a customer, after a trusted request named both. The contract's table, row by row:
//
//   customer   session                     what happens
//   unknown    unknown                     create: the customer's own profile; the session points to it
//   known      unknown                     point: the session points to the customer's profile
//   unknown    known, no customer's        adopt: the session's profile becomes the customer's
//   same profile                           nothing
//   known      known, no customer's        merge: the session's profile into the customer's
//   known or   known, another customer's   move: the session points to the customer's profile,
//   unknown                                an own one if need be; nothing is merged (a shared device)
//
// Every step is one script in one slot, is safe to repeat, and leaves a state that the next request
// completes. A step that finds the state changed under it makes the whole question be asked again.

import { ServiceError } from '../errors.js';
import type { AtProfile } from '../redis/at-profile.js';
import { bucketOf } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Identities } from './identities.js';
import type { Merger } from './merge.js';
import { isCustomerBorn } from './profile-id.js';

const POINT = loadScript('point');
const ADOPT = loadScript('adopt');
const LEAVE = loadScript('leave');
const ROUNDS = 8;

export interface Linked {
  readonly profileId: string;
  /** Whether the session's profile was merged into the customer's by this very call. */
  readonly merged: boolean;
}

export class Linker {
  readonly #store: Store;
  readonly #identities: Identities;
  readonly #atProfile: AtProfile;
  readonly #merger: Merger;

  constructor(store: Store, identities: Identities, atProfile: AtProfile, merger: Merger) {
    this.#store = store;
    this.#identities = identities;
    this.#atProfile = atProfile;
    this.#merger = merger;
  }

  /** @returns the profile that both have from now on. @throws ServiceError `unavailable` */
  async link(customer: string, session: string): Promise<Linked> {
    for (let round = 0; round < ROUNDS; round++) {
      const linked = await this.#tryLink(customer, session);
      if (linked !== undefined) {
        this.#identities.remember(customer, linked.profileId);
        this.#identities.remember(session, linked.profileId);
        return linked;
      }
    }
    throw new ServiceError('unavailable');
  }

  /** Whether a write in both names would make the session's profile the customer's. Changes nothing. */
  async wouldAdopt(customer: string, session: string): Promise<boolean> {
    const [ofCustomer, ofSession] = await this.#peek(customer, session);
    if (ofCustomer.known || !ofSession.known || isCustomerBorn(ofSession.profileId)) return false;
    const { keys } = this.#store;
    const owner = await this.#store.call((client) => client.hget(keys.profile(ofSession.profileId), 'owner'));
    return owner === null || owner === customer;
  }

  #peek(customer: string, session: string) {
    return Promise.all([this.#identities.enter('peek', customer), this.#identities.enter('peek', session)]);
  }

  /** One try; undefined where somebody else changed something meanwhile. */
  async #tryLink(customer: string, session: string): Promise<Linked | undefined> {
    let [ofCustomer, ofSession] = await this.#peek(customer, session);
    if (ofCustomer.known && ofSession.known && ofCustomer.profileId === ofSession.profileId) {
      return { profileId: ofCustomer.profileId, merged: false };
    }
    // Sessions that come to a customer's profile may take its counts away, and the customer must stay known.
    if (ofCustomer.known || !ofSession.known) ofCustomer = await this.#identities.enter('resolve', customer);
    if (!ofSession.known) {
      const { profileId } = ofCustomer;
      return this.#done(await this.#point(session, '', profileId), profileId);
    }
    // From here on the session's profile is this customer's or it is another's, also if we crash.
    const adopted = await this.#adopt(ofSession.profileId, customer, session);
    if (adopted === undefined) return undefined;
    if (!adopted) return this.#move(customer, session, ofSession.profileId);
    if (!ofCustomer.known) {
      return this.#done(await this.#point(customer, '', ofSession.profileId), ofSession.profileId);
    }
    const profileId = await this.#merger.merge(ofSession.profileId, ofCustomer.profileId);
    await this.#point(session, ofSession.profileId, profileId);
    return { profileId, merged: true };
  }

  #done(pointed: boolean, profileId: string): Linked | undefined {
    return pointed ? { profileId, merged: false } : undefined;
  }

  /** Whether the profile is the customer's now; undefined where it was merged away meanwhile. */
  async #adopt(profileId: string, customer: string, session: string): Promise<boolean | undefined> {
    if (isCustomerBorn(profileId)) return profileId === this.#identities.ownProfile(customer);
    const { keys } = this.#store;
    const reply = await this.#store.run(
      ADOPT,
      [keys.profile(profileId), keys.visits(profileId), keys.ids(bucketOf(profileId))],
      [
        customer,
        new Date().toISOString(),
        profileId,
        profileId === this.#identities.ownProfile(session) ? session : '',
      ],
    );
    if (typeof reply !== 'string') return reply === 1;
    await this.#atProfile.follow(profileId, reply);
    return undefined;
  }

  async #move(customer: string, session: string, from: string): Promise<Linked | undefined> {
    const { profileId } = await this.#identities.enter('resolve', customer);
    const { keys } = this.#store;
    // It may have left this profile before; now it is back.
    await this.#store.call((client) => client.hdel(keys.moved(profileId), session));
    // At its own profile the mapping decides, at any other one the note that it left.
    if (from !== this.#identities.ownProfile(session)) {
      const goesTo = await this.#store.run(LEAVE, [keys.moved(from)], [session, profileId]);
      if (goesTo !== profileId) return undefined;
    }
    const own = this.#identities.ownProfile(session);
    for (let round = 0; round < ROUNDS; round++) {
      const current = await this.#store.call((client) => client.hget(keys.ids(bucketOf(own)), session));
      if (await this.#point(session, current ?? own, profileId)) return { profileId, merged: false };
    }
    return undefined;
  }

  async #point(name: string, from: string, to: string): Promise<boolean> {
    const { keys } = this.#store;
    const own = this.#identities.ownProfile(name);
    const touched = [keys.ids(bucketOf(own)), keys.visits(own)];
    return (await this.#store.run(POINT, touched, [name, from, to, own])) === 1;
  }
}
