// Links a session to a customer, after a trusted request has named both: the contract's table.
//
//   customer   session                     what happens
//   unknown    unknown                     one new profile, the customer's default one; both lead to it
//   known      unknown                     the session leads to the customer's profile
//   unknown    known, no customer's        the session's profile becomes the customer's
//   same profile                           nothing
//   known      known, no customer's        the session's profile is merged into the customer's
//   known or   known, another customer's   the session leads to the customer's profile, a new one if need be;
//   unknown                                nothing is merged (a shared device)
//
// A profile lists a member before the member's link leads to it; so an erasure knows all of them. Each change of a link is a
// compare-and-set: where one fails, another request has changed the same identity, and both are read again.

import { ServiceError } from '../errors.js';
import { guestPlace, linkedPlace, type Place } from '../redis/place.js';
import { type Link, type Links, linkHome, linkTo, newGeneration } from './links.js';
import type { Merger } from './merge.js';
import type { Redirects, State } from './redirects.js';

/** Each lost round means that another request changed the same customer or session. */
const ROUNDS = 16;

export interface Linked {
  readonly link: Link;
  readonly profileId: string;
  /** Whether the session's profile was merged into the customer's by this very call. */
  readonly merged: boolean;
}

export class Linker {
  readonly #links: Links;
  readonly #merger: Merger;
  readonly #redirects: Redirects;

  constructor(links: Links, merger: Merger, redirects: Redirects) {
    this.#links = links;
    this.#merger = merger;
    this.#redirects = redirects;
  }

  /** @returns the profile that both have from now on. @throws ServiceError `unavailable` */
  async link(customer: string, session: string): Promise<Linked> {
    for (let round = 0; round < ROUNDS; round++) {
      const [ofCustomer, ofSession] = await this.#statesOf(customer, session);
      const linked = await this.#tryLink(customer, ofCustomer, session, ofSession);
      if (linked !== undefined) return linked;
    }
    throw new ServiceError('unavailable');
  }

  /** One try; undefined where something has changed meanwhile. */
  async #tryLink(
    customer: string,
    ofCustomer: State,
    session: string,
    ofSession: State,
  ): Promise<Linked | undefined> {
    const [theirs, its] = [ofCustomer.link, ofSession.link];
    if (its !== undefined && theirs?.field === its.field) return linkedAt(its);
    if (!ofSession.isKnown || isAnothers(ofSession, customer))
      return this.#lead(customer, ofCustomer, session, its);
    // Also a customer's own one, which a failover has made the customer forget.
    if (theirs === undefined) return this.#adopt(customer, session, ofSession);
    const source = {
      profileId: its?.profileId ?? ofSession.home,
      generation: its?.generation ?? '',
      owner: ofSession.owner ?? '',
      name: session,
    };
    // A linked profile that goes there is erased with it from here on, however far the merge gets.
    const note = `+${source.generation} ${source.owner}`;
    if (its !== undefined && !(await this.#links.join(theirs, its.profileId, note))) return undefined;
    if (!(await this.#merger.merge(source, theirs))) return undefined;
    const isDefault = source.profileId === this.#links.defaultProfile(session);
    if (its !== undefined || !isDefault)
      await this.#redirects.repair(session, its ?? linkHome(source.profileId));
    return { ...linkedAt(theirs), merged: true };
  }

  /** The session leads to the customer's profile. */
  async #lead(
    customer: string,
    { link, home }: State,
    session: string,
    its: Link | undefined,
  ): Promise<Linked | undefined> {
    const target = link ?? (await this.#links.own(customer, home, customer));
    if (target === undefined || target.task !== '') return undefined;
    if (!(await this.#links.join(target, session))) return undefined;
    return (await this.#links.replace(session, its, target)) ? linkedAt(target) : undefined;
  }

  /** The session's profile becomes the customer's. The customer's link says so first: an erasure of either finds all. */
  async #adopt(customer: string, session: string, { link: its, home }: State): Promise<Linked | undefined> {
    const { profileId, generation } = its ?? { profileId: home, generation: newGeneration() };
    const link = linkTo(profileId, generation, `+${session}`);
    if (!(await this.#links.replace(customer, undefined, link))) return undefined;
    return (await this.#redirects.complete(customer, link))
      ? linkedAt(linkTo(profileId, generation))
      : undefined;
  }

  /** Whether a write in both names would make the session's profile the customer's. Links nothing. */
  async wouldAdopt(customer: string, session: string): Promise<boolean> {
    const [ofCustomer, ofSession] = await this.#statesOf(customer, session);
    return !ofCustomer.isKnown && ofSession.isKnown && !isAnothers(ofSession, customer);
  }

  /** Where what a link would bring together is, the customer's first. Links nothing. @throws ServiceError `unavailable` */
  async preview(customer: string, session: string): Promise<Place[]> {
    const [ofCustomer, ofSession] = await this.#statesOf(customer, session);
    const customers = this.#placeOf(ofCustomer);
    const areOne = ofCustomer.link !== undefined && ofCustomer.link.field === ofSession.link?.field;
    if (!ofSession.isKnown || areOne || isAnothers(ofSession, customer)) return [customers];
    const sessions = this.#placeOf(ofSession);
    return ofCustomer.isKnown ? [customers, sessions] : [sessions];
  }

  /** Where what an identity has is. Links nothing. @throws ServiceError `unavailable` */
  async locate(name: string): Promise<Place> {
    return this.#placeOf(await this.#redirects.stateOf(name));
  }

  #placeOf({ link, home }: State): Place {
    return link === undefined ? guestPlace(home) : linkedPlace(link.profileId, link.generation);
  }

  /** Whether a session's profile belongs to a customer. Links nothing. */
  async belongsToCustomer(session: string): Promise<boolean> {
    return (await this.#redirects.stateOf(session)).owner !== undefined;
  }

  #statesOf(customer: string, session: string): Promise<[State, State]> {
    return Promise.all([this.#redirects.stateOf(customer), this.#redirects.stateOf(session)]);
  }
}

/** Whether a session's profile is another customer's. */
function isAnothers({ owner }: State, customer: string): boolean {
  return owner !== undefined && owner !== customer;
}

function linkedAt(link: Link): Linked {
  return { link, profileId: link.profileId, merged: false };
}
