// Links a session to a customer after a trusted request has named both:
//
//   customer   session                       effect
//   new        new                           one new profile, the customer's default one
//   exists     new                           the session leads to the customer's profile
//   new        exists, without a customer    the session's profile becomes the customer's
//   both lead to one profile                 nothing
//   exists     exists, without a customer    the session's profile is merged into the customer's
//   any        exists, of another customer   the session leads to this customer's profile, without a merge: the device
//                                            is shared
//
// A member is listed before its link is written, so that an erasure finds every link. If a compare-and-set fails, both
// identities are read again.

import { ServiceError } from '../errors.js';
import { guestLocation, type Location, linkedLocation } from '../redis/location.js';
import { type Link, type Links, linkHome, linkTo, newGeneration } from './links.js';
import type { Merger } from './merge.js';
import type { Redirects, State } from './redirects.js';

const ROUNDS = 16;

export interface Linked {
  readonly link: Link;
  readonly merged: boolean;
}

export class Linker {
  constructor(
    private readonly links: Links,
    private readonly merger: Merger,
    private readonly redirects: Redirects,
  ) {}

  async link(customer: string, session: string): Promise<Linked> {
    for (let round = 0; round < ROUNDS; round++) {
      const [ofCustomer, ofSession] = await this.#statesOf(customer, session);
      const linked = await this.#tryLink(customer, ofCustomer, session, ofSession);
      if (linked !== undefined) return linked;
    }
    throw new ServiceError('unavailable');
  }

  /** Undefined after a concurrent change. */
  async #tryLink(
    customer: string,
    ofCustomer: State,
    session: string,
    ofSession: State,
  ): Promise<Linked | undefined> {
    const [theirs, its] = [ofCustomer.link, ofSession.link];
    if (its !== undefined && theirs?.field === its.field) return { link: its, merged: false };
    if (!ofSession.exists || isAnothers(ofSession, customer))
      return this.#lead(customer, ofCustomer, session, its);
    // The customer is new, or a failover has lost its link.
    if (theirs === undefined) return this.#adopt(customer, session, ofSession);
    const source = its ?? linkHome(ofSession.home);
    // From here on an erasure of the target also erases this profile.
    if (its !== undefined && !(await this.links.join(theirs, its.profileId, `+${its.generation}`)))
      return undefined;
    if (!(await this.merger.merge(source, session, theirs))) return undefined;
    if (its !== undefined || source.profileId !== this.links.defaultProfile(session))
      await this.redirects.repair(session, source);
    return { link: theirs, merged: true };
  }

  async #lead(
    customer: string,
    { link, home }: State,
    session: string,
    its: Link | undefined,
  ): Promise<Linked | undefined> {
    const target = link ?? (await this.links.own(customer, home, customer));
    if (target === undefined || target.task !== '') return undefined;
    if (!(await this.links.join(target, session))) return undefined;
    return (await this.links.replace(session, its, target)) ? { link: target, merged: false } : undefined;
  }

  /** Links the customer first, so that an erasure of either finds everything. */
  async #adopt(customer: string, session: string, { link: its, home }: State): Promise<Linked | undefined> {
    const { profileId, generation } = its ?? { profileId: home, generation: newGeneration() };
    const link = linkTo(profileId, generation, `+${session}`);
    if (!(await this.links.replace(customer, undefined, link))) return undefined;
    return (await this.redirects.complete(customer, link))
      ? { link: linkTo(profileId, generation), merged: false }
      : undefined;
  }

  /** True if a write with both names would make the session's profile the customer's. */
  async wouldAdopt(customer: string, session: string): Promise<boolean> {
    const [ofCustomer, ofSession] = await this.#statesOf(customer, session);
    return !ofCustomer.exists && ofSession.exists && !isAnothers(ofSession, customer);
  }

  /** Locations that a link would join, the customer's first. */
  async preview(customer: string, session: string): Promise<Location[]> {
    const [ofCustomer, ofSession] = await this.#statesOf(customer, session);
    const customers = this.#locate(ofCustomer);
    const areOne = ofCustomer.link !== undefined && ofCustomer.link.field === ofSession.link?.field;
    if (!ofSession.exists || areOne || isAnothers(ofSession, customer)) return [customers];
    const sessions = this.#locate(ofSession);
    return ofCustomer.exists ? [customers, sessions] : [sessions];
  }

  async locate(name: string): Promise<Location> {
    return this.#locate(await this.redirects.stateOf(name));
  }

  #locate({ link, home }: State): Location {
    return link === undefined ? guestLocation(home) : linkedLocation(link.profileId, link.generation);
  }

  async belongsToCustomer(session: string): Promise<boolean> {
    return (await this.redirects.stateOf(session)).owner !== undefined;
  }

  #statesOf(customer: string, session: string): Promise<[State, State]> {
    return Promise.all([this.redirects.stateOf(customer), this.redirects.stateOf(session)]);
  }
}

function isAnothers({ owner }: State, customer: string): boolean {
  return owner !== undefined && owner !== customer;
}
