// Whose visit or event is it? One identity may carry a customer's id, a session's, or both.
//
//   one id                      that identity's profile
//   both, from a trusted caller the two are linked first (the contract's table): see link.ts
//   both, from anyone else      the customer's profile; nothing is linked
//
// Reading creates and links nothing.

import { ServiceError } from '../errors.js';
import type { Recorder } from '../events/recorder.js';
import type { EntryKind } from '../visits/ledger.js';
import type { Identities, Settled } from './identities.js';
import type { Linked, Linker } from './link.js';
import { type Identity, identityName } from './rules.js';

/** Rounds of linking before giving up: each lost round means that another server changed the same visitor. */
const ROUNDS = 8;

export class Visitors {
  readonly #identities: Identities;
  readonly #linker: Linker;
  readonly #recorder: Recorder;

  constructor(identities: Identities, linker: Linker, recorder: Recorder) {
    this.#identities = identities;
    this.#linker = linker;
    this.#recorder = recorder;
  }

  /**
   * Counts, resets or resolves for a visitor; makes the profile where there is none.
   * @param operationId visitAndCount: counts once under this id
   */
  enter(
    kind: Exclude<EntryKind, 'read' | 'peek'>,
    who: Identity,
    mayLink: boolean,
    handle = '',
    operationId?: string,
  ): Promise<Settled> {
    if (!mustLink(who, mayLink)) return this.#identities.enter(kind, onlyName(who), handle, operationId);
    const [customer, session] = [identityName('c', who.customerId), identityName('s', who.sessionId)];
    return this.#enterLinked(kind, customer, session, handle, operationId);
  }

  /**
   * Records an event of a visitor; makes the profile where there is none.
   * @param encode the event's line (from encodeEvent) under a profile
   * @returns the profile @throws ServiceError `overloaded` at the high-water mark, `unavailable`
   */
  async record(who: Identity, mayLink: boolean, encode: (profileId: string) => string): Promise<string> {
    if (!this.#recorder.recordsOf || mustLink(who, mayLink)) {
      const { profileId } = await this.enter('resolve', who, mayLink);
      await this.#recorder.append(encode(profileId), profileId);
      return profileId;
    }
    const name = onlyName(who);
    return this.#identities.settle(
      name,
      (profileId, own) => this.#recorder.recordOf(name, profileId, own, encode(profileId)),
      (profileId) => profileId,
    );
  }

  /** The visitor's count of a product, and the profile id that it has or would get. */
  async read(who: Identity, mayLink: boolean, handle: string): Promise<Settled> {
    return this.#identities.enter('read', await this.#nameToRead(who, mayLink), handle);
  }

  /** The profile that the visitor has, or would get. Creates and links nothing. */
  async find(who: Identity, mayLink: boolean): Promise<Settled> {
    return this.#identities.enter('peek', await this.#nameToRead(who, mayLink));
  }

  /** The profile of a visitor who has one, for a write that has nothing to do where there is none: it may link. */
  async resolveKnown(who: Identity, mayLink: boolean): Promise<Settled> {
    const found = await this.find(who, mayLink);
    return found.known && mustLink(who, mayLink) ? this.enter('resolve', who, mayLink) : found;
  }

  /** Links a session to a customer. @param who has both ids. @throws ServiceError `unavailable` */
  link(who: BothIds): Promise<Linked> {
    return this.#linker.link(identityName('c', who.customerId), identityName('s', who.sessionId));
  }

  /** The name under which a read finds what a write of the same visitor would. */
  async #nameToRead(who: Identity, mayLink: boolean): Promise<string> {
    if (!mustLink(who, mayLink)) return onlyName(who);
    const [customer, session] = [identityName('c', who.customerId), identityName('s', who.sessionId)];
    return (await this.#linker.wouldAdopt(customer, session)) ? session : customer;
  }

  async #enterLinked(
    kind: EntryKind,
    customer: string,
    session: string,
    handle: string,
    operationId: string | undefined,
  ): Promise<Settled> {
    let profileId = this.#identities.believed(session);
    const areLinked = profileId === this.#identities.believed(customer);
    for (let round = areLinked ? 0 : 1; round < ROUNDS; round++) {
      if (round > 0) profileId = (await this.#linker.link(customer, session)).profileId;
      // Entered in the session's name: were it some other customer's by now, the ledger would say so.
      const settled = await this.#identities.enterAt(profileId, kind, session, handle, operationId);
      if (settled !== undefined) return settled;
    }
    throw new ServiceError('unavailable');
  }
}

/** Both ids: the two are one visitor's. */
type BothIds = { readonly customerId: string; readonly sessionId: string };

function mustLink(who: Identity, mayLink: boolean): who is Identity & BothIds {
  return mayLink && who.customerId !== null && who.sessionId !== null;
}

function onlyName({ customerId, sessionId }: Identity): string {
  return customerId !== null ? identityName('c', customerId) : identityName('s', sessionId as string);
}
