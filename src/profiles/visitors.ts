// The visitor of a request, by a customer's id, a session's, or both:
//
//   one id                       that identity's profile
//   both, from a trusted caller  a login first, see link.ts; then the customer's profile
//   both, from anyone else       the customer's profile; nothing is linked
//
// Reads create and link nothing.

import { ServiceError } from '../errors.js';
import { type Identity, identityName } from '../identity-rules.js';
import { ownLocation } from '../redis/location.js';
import type { Ask, Located, LocatedRequest, Locator } from './locator.js';
import type { Check, Login } from './login.js';

export interface FoundProfile {
  readonly profileId: string;
  readonly exists: boolean;
  /** The identity's own profile: another one if it is a linked session. */
  readonly own: string;
  readonly isRetired: boolean;
}

export class Visitors {
  constructor(
    private readonly locator: Locator,
    private readonly logins: Login,
  ) {}

  /** Creates an unknown visitor. */
  async resolve(who: Identity, mayLink: boolean): Promise<string> {
    await this.login(who, mayLink);
    const { locator } = this;
    const state = await locator.stateOf(nameOf(who), 'resolve');
    if (state === 'retired') throw new ServiceError('session_retired');
    return typeof state === 'object' ? state.customer : locator.profileOf(nameOf(who));
  }

  async find(who: Identity): Promise<FoundProfile> {
    const { locator } = this;
    const state = await locator.stateOf(nameOf(who));
    const own = locator.profileOf(nameOf(who));
    const profileId = typeof state === 'object' ? state.customer : own;
    const exists = typeof state === 'object' || state === 'guest';
    return { profileId, exists, own, isRetired: state === 'retired' };
  }

  peek<Answer>(who: Identity, ask: Ask<Answer>): Promise<Located<Answer>> {
    return this.locator.run(nameOf(who), false, ask);
  }

  /** Creates an unknown visitor. */
  async change<Answer>(
    who: Identity,
    mayLink: boolean,
    ask: Ask<Answer>,
    check?: Check,
  ): Promise<Located<Answer>> {
    await this.login(who, mayLink, check);
    return this.locator.run(nameOf(who), true, ask);
  }

  /** `ask` creates no visitor. */
  async changeExisting<Answer>(who: Identity, mayLink: boolean, ask: Ask<Answer>): Promise<Located<Answer>> {
    if (mustLink(who, mayLink)) {
      const [customer, session] = await Promise.all(separately(who).map((one) => this.find(one)));
      if (customer?.exists || session?.exists) await this.login(who, mayLink);
    }
    return this.locator.run(nameOf(who), true, ask);
  }

  /** The profile that a write would change. */
  async profileToChange(who: Identity, mayLink: boolean): Promise<string> {
    if (mustLink(who, mayLink)) return this.locator.profileOf(nameOf(who));
    return (await this.find(who)).profileId;
  }

  /** Doesn't ask Redis. */
  likelyProfile(who: Identity): string {
    const location = ownLocation('');
    this.locator.aim(location, nameOf(who), true);
    return location.profileId;
  }

  async belongsToCustomer({ sessionId }: Identity): Promise<boolean> {
    if (sessionId === null) return false;
    return typeof (await this.locator.stateOf(identityName('s', sessionId))) === 'object';
  }

  /** @param who has both ids. @returns true if this call has merged the session */
  async merge(who: Identity): Promise<boolean> {
    return mustLink(who, true) && this.logins.link(...namesOf(who), undefined, true);
  }

  /** @returns true if this call has merged the session */
  async login(who: Identity, mayLink: boolean, check?: Check): Promise<boolean> {
    return mustLink(who, mayLink) && this.logins.link(...namesOf(who), check);
  }

  /** `change` without promises, unless ids are linked. The request is in its batch at the end of the call. */
  send(request: LocatedRequest<unknown>, who: Identity, mayLink: boolean, check?: Check): void {
    const { locator } = this;
    if (!mustLink(who, mayLink)) {
      locator.send(request, nameOf(who));
      return;
    }
    this.login(who, mayLink, check).then(
      () => locator.send(request, nameOf(who)),
      (error) => request.failed(error),
    );
  }
}

export type BothIds = { readonly customerId: string; readonly sessionId: string };

export function mustLink(who: Identity, mayLink: boolean): who is Identity & BothIds {
  return mayLink && who.customerId !== null && who.sessionId !== null;
}

export function namesOf({ customerId, sessionId }: BothIds): [customer: string, session: string] {
  return [identityName('c', customerId), identityName('s', sessionId)];
}

/** Each id alone. */
export function separately(identity: Identity): Identity[] {
  return [
    { ...identity, sessionId: null },
    { ...identity, customerId: null },
  ].filter(({ customerId, sessionId }) => customerId !== null || sessionId !== null);
}

function nameOf({ customerId, sessionId }: Identity): string {
  return customerId !== null ? identityName('c', customerId) : identityName('s', sessionId as string);
}
