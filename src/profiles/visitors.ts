// The visitor of a request, by a customer's id, a session's, or both:
//
//   one id                       that identity's profile
//   both, from a trusted caller  a login first, see link.ts; then the customer's profile
//   both, from anyone else       the customer's profile; nothing is linked
//
// Reads create and link nothing.

import { ServiceError } from '../errors.js';
import { type EventRequest, type RecordingBatch, recordAt, recordOnce } from '../events/recorder.js';
import { type Identity, identityName } from '../identity-rules.js';
import { ownLocation } from '../redis/location.js';
import type { KeyedOperation } from '../redis/requests.js';
import { type Counted, type CountRequest, countAt, countOnce } from '../visits/counter.js';
import type { VisitBatch, VisitKind } from '../visits/visit-batch.js';
import type { Ask, Located, LocatedRequest, Locator } from './locator.js';
import type { Check, Login } from './login.js';

/** Rounds until a request fails. Each failed round means that another request has changed the session's link. */
const ROUNDS = 8;

export interface FoundProfile {
  readonly profileId: string;
  readonly exists: boolean;
  /** The identity's own profile: another one if it is a linked session. */
  readonly own: string;
  readonly isRetired: boolean;
}

interface Parts {
  readonly locator: Locator;
  readonly login: Login;
  readonly visits: VisitBatch;
  readonly recordings: RecordingBatch;
  /** Throws `too_many_products`. */
  readonly fitsProduct: (customer: string, handle: string) => ReturnType<Check>;
}

export class Visitors {
  constructor(private readonly parts: Parts) {}

  count(request: CountRequest, who: Identity, mayLink: boolean): void {
    request.batch = this.parts.visits;
    this.#send(request, who, mayLink && request.kind !== 'read', this.#checkOf(request.kind, request.handle));
  }

  async enter(
    kind: Exclude<VisitKind, 'read'>,
    who: Identity,
    mayLink: boolean,
    handle: string,
  ): Promise<Counted> {
    const ask = countAt(this.parts.visits, kind, handle, who.device);
    const { profileId, answer } = await this.change(who, mayLink, ask, this.#checkOf(kind, handle));
    return { profileId, count: answer };
  }

  async enterOnce(
    who: Identity,
    mayLink: boolean,
    { kind, handle }: { readonly kind: 'visit' | 'reset'; readonly handle: string },
    operation: KeyedOperation,
  ): Promise<Counted> {
    const asked = { kind: kind === 'visit' ? 'count' : kind, handle, device: who.device } as const;
    const ask = countOnce(this.parts.visits, asked, operation);
    return (await this.change(who, mayLink, ask, this.#checkOf(kind, handle))).answer;
  }

  /** Reads counts, and the profile id that the visitor has or would get. */
  async readAll(
    who: Identity,
    handles: readonly string[],
  ): Promise<{ readonly profileId: string; readonly counts: readonly number[] }> {
    const { visits, locator } = this.parts;
    for (let round = 0; round < ROUNDS; round++) {
      const read = await Promise.all(
        handles.map((handle) => locator.run(nameOf(who), false, countAt(visits, 'read', handle, null))),
      );
      const { profileId } = read[0] as Located<number>;
      if (read.every((one) => one.profileId === profileId))
        return { profileId, counts: read.map(({ answer }) => answer) };
    }
    throw new ServiceError('unavailable');
  }

  /** Creates an unknown visitor. */
  async resolve(who: Identity, mayLink: boolean): Promise<string> {
    await this.login(who, mayLink);
    const { locator } = this.parts;
    const state = await locator.stateOf(nameOf(who), 'resolve');
    if (state === 'retired') throw new ServiceError('session_retired');
    return typeof state === 'object' ? state.customer : locator.profileOf(nameOf(who));
  }

  /** Creates an unknown visitor. @throws ServiceError `overloaded` */
  async record(
    who: Identity,
    mayLink: boolean,
    encode: (profileId: string) => string,
    operation?: KeyedOperation,
  ): Promise<string> {
    const { recordings } = this.parts;
    if (operation === undefined)
      return (await this.change(who, mayLink, recordAt(recordings, encode))).profileId;
    return (await this.change(who, mayLink, recordOnce(recordings, encode, operation))).answer.profileId;
  }

  /** `record` without promises, unless ids are linked. */
  submit(request: EventRequest, who: Identity, mayLink: boolean): void {
    request.batch = this.parts.recordings;
    this.#send(request, who, mayLink);
  }

  async find(who: Identity): Promise<FoundProfile> {
    const { locator } = this.parts;
    const state = await locator.stateOf(nameOf(who));
    const own = locator.profileOf(nameOf(who));
    const profileId = typeof state === 'object' ? state.customer : own;
    const exists = typeof state === 'object' || state === 'guest';
    return { profileId, exists, own, isRetired: state === 'retired' };
  }

  peek<Answer>(who: Identity, ask: Ask<Answer>): Promise<Located<Answer>> {
    return this.parts.locator.run(nameOf(who), false, ask);
  }

  /** Creates an unknown visitor. */
  async change<Answer>(
    who: Identity,
    mayLink: boolean,
    ask: Ask<Answer>,
    check?: Check,
  ): Promise<Located<Answer>> {
    await this.login(who, mayLink, check);
    return this.parts.locator.run(nameOf(who), true, ask);
  }

  /** `ask` creates no visitor. */
  async changeExisting<Answer>(who: Identity, mayLink: boolean, ask: Ask<Answer>): Promise<Located<Answer>> {
    if (mustLink(who, mayLink)) {
      const [customer, session] = await Promise.all(separately(who).map((one) => this.find(one)));
      if (customer?.exists || session?.exists) await this.login(who, mayLink);
    }
    return this.parts.locator.run(nameOf(who), true, ask);
  }

  /** The profile that a write would change. */
  async profileToChange(who: Identity, mayLink: boolean): Promise<string> {
    if (mustLink(who, mayLink)) return this.parts.locator.profileOf(nameOf(who));
    return (await this.find(who)).profileId;
  }

  /** Doesn't ask Redis. */
  likelyProfile(who: Identity): string {
    const location = ownLocation('');
    this.parts.locator.aim(location, nameOf(who), true);
    return location.profileId;
  }

  async belongsToCustomer({ sessionId }: Identity): Promise<boolean> {
    if (sessionId === null) return false;
    return typeof (await this.parts.locator.stateOf(identityName('s', sessionId))) === 'object';
  }

  /** @returns true if this call has merged the session */
  async login(who: Identity, mayLink: boolean, check?: Check): Promise<boolean> {
    return mustLink(who, mayLink) && this.parts.login.link(...namesOf(who), check);
  }

  #send(request: LocatedRequest<unknown>, who: Identity, mayLink: boolean, check?: Check): void {
    const { locator } = this.parts;
    if (!mustLink(who, mayLink)) {
      locator.send(request, nameOf(who));
      return;
    }
    this.login(who, mayLink, check).then(
      () => locator.send(request, nameOf(who)),
      (error) => request.failed(error),
    );
  }

  #checkOf(kind: VisitKind, handle: string): Check | undefined {
    return kind === 'reset' ? undefined : (customer) => this.parts.fitsProduct(customer, handle);
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
