// Links a session to a customer, after a trusted request named both. The contract's table, row by row:
//
//   customer   session                   what happens
//   unknown    unknown                   a new profile, the customer's own; the session points to it
//   known      unknown                   the session points to the customer's profile
//   unknown    known, no customer's      the session's profile becomes the customer's
//   same profile                         nothing
//   otherwise                            two different profiles: refused (merging is not built yet)
//
// Every step is one script in one slot, is safe to repeat, and leaves a state that the next request
// completes. A step that finds the state changed under it makes the whole question be asked again.

import { ServiceError } from '../errors.js';
import { bucketOf } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Identities } from './identities.js';
import { isCustomerBorn } from './profile-id.js';

const POINT = loadScript('point');
const ADOPT = loadScript('adopt');
const ROUNDS = 8;

export class Linker {
  readonly #store: Store;
  readonly #identities: Identities;

  constructor(store: Store, identities: Identities) {
    this.#store = store;
    this.#identities = identities;
  }

  /** @returns the profile that both have from now on. */
  async link(customer: string, session: string): Promise<string> {
    for (let round = 0; round < ROUNDS; round++) {
      const profileId = await this.#tryLink(customer, session);
      if (profileId !== undefined) {
        this.#identities.remember(customer, profileId);
        this.#identities.remember(session, profileId);
        return profileId;
      }
    }
    throw new ServiceError('unavailable');
  }

  /** Whether a write in both names would make the session's profile the customer's. Changes nothing. */
  async wouldAdopt(customer: string, session: string): Promise<boolean> {
    const [ofCustomer, ofSession] = await this.#peek(customer, session);
    if (ofCustomer.known || !ofSession.known || isCustomerBorn(ofSession.profileId)) return false;
    const owner = await this.#store.client.hget(this.#store.keys.profile(ofSession.profileId), 'owner');
    return owner === null || owner === customer;
  }

  #peek(customer: string, session: string) {
    return Promise.all([this.#identities.enter('peek', customer), this.#identities.enter('peek', session)]);
  }

  /** One try; undefined where somebody else changed something meanwhile. */
  async #tryLink(customer: string, session: string): Promise<string | undefined> {
    const [ofCustomer, ofSession] = await this.#peek(customer, session);
    if (ofCustomer.known && ofSession.known) {
      if (ofCustomer.profileId === ofSession.profileId) return ofCustomer.profileId;
      throw new ServiceError('invalid_request', 'The two ids belong to two different profiles.', [
        { path: '/identity/sessionId', message: 'belongs to another profile than customerId' },
      ]);
    }
    if (ofSession.known) {
      const adopted = await this.#adopt(ofSession.profileId, customer);
      if (!adopted) {
        throw new ServiceError('invalid_request', "The session belongs to another customer's profile.", [
          { path: '/identity/sessionId', message: 'belongs to another profile than customerId' },
        ]);
      }
      return (await this.#point(customer, '', ofSession.profileId)) ? ofSession.profileId : undefined;
    }
    const { profileId } = await this.#identities.enter('resolve', customer);
    return (await this.#point(session, '', profileId)) ? profileId : undefined;
  }

  async #adopt(profileId: string, customer: string): Promise<boolean> {
    if (isCustomerBorn(profileId)) return false;
    const { keys } = this.#store;
    const now = new Date().toISOString();
    const reply = await this.#store.run(ADOPT, [keys.profile(profileId), keys.visits(profileId)], [customer, now]);
    return reply === 1;
  }

  async #point(name: string, from: string, to: string): Promise<boolean> {
    const ids = this.#store.keys.ids(bucketOf(this.#identities.ownProfile(name)));
    return (await this.#store.run(POINT, [ids], [name, from, to])) === 1;
  }
}
