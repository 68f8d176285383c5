// Whose visit or event is it? One identity may carry a customer's id, a session's, or both.
//
//   one id                      that identity's profile
//   both, from a trusted caller the two are linked first (the contract's table): see link.ts
//   both, from anyone else      the customer's profile; nothing is linked
//
// Reading creates and links nothing.

import { ServiceError } from '../errors.js';
import { type Identity, identityName } from '../identity-rules.js';
import type { Place } from '../redis/at-profile.js';
import type { Operation } from '../redis/requests.js';
import type { ProductLimit } from '../visits/product-limit.js';
import type { VisitKind } from '../visits/visit-batch.js';
import type { Asker, Counting } from './counting.js';
import type { Doors, Settled } from './doors.js';
import type { Draft, Drafts } from './drafts.js';
import type { Linked, Linker } from './link.js';
import { LinkOrder, type Outcome } from './link-order.js';
import { type Ask, asChanged, type Changed, type Places, type Subject } from './places.js';

/** Reads of one request that may go to several profiles, because the visitor is linked meanwhile, and are done again. */
const READ_ROUNDS = 8;

/** Erasures of one visitor that one request meets. */
const LINK_ROUNDS = 8;

/**
 * Refuses a change before two ids are linked for it: a request that is refused changes nothing.
 * @param places where the belongings are that the link brings together
 */
export type Check = (places: readonly Place[]) => Promise<void>;

export class Visitors {
  readonly #doors: Doors;
  readonly #places: Places;
  readonly #counting: Counting;
  readonly #drafts: Drafts;
  readonly #linker: Linker;
  readonly #products: ProductLimit;

  constructor(
    doors: Doors,
    places: Places,
    counting: Counting,
    drafts: Drafts,
    linker: Linker,
    products: ProductLimit,
  ) {
    this.#doors = doors;
    this.#places = places;
    this.#counting = counting;
    this.#drafts = drafts;
    this.#linker = linker;
    this.#products = products;
  }

  /**
   * Counts or resets for a visitor, or only makes it known (`resolve`); makes the profile where there is none.
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_products`
   */
  enter(
    kind: Exclude<VisitKind, 'read'> | 'resolve',
    who: Identity,
    mayLink: boolean,
    handle = '',
  ): Promise<Settled> {
    if (kind === 'resolve') return this.#resolve(who, mayLink);
    return this.#for(
      who,
      mayLink,
      (subject) => this.#counting.enter(kind, subject, handle, who.device),
      kind === 'reset' ? undefined : (places) => this.#products.assertFits(places, handle),
    );
  }

  /** `enter` and `read` that tell the asker, and need no promise where nothing is linked. */
  count(kind: VisitKind, who: Identity, mayLink: boolean, handle: string, asker: Asker): void {
    if (!mustLink(who, mayLink)) {
      this.#counting.count(kind, onlyName(who), handle, who.device, asker);
      return;
    }
    const settled =
      kind === 'read' ? this.read(who, mayLink, handle) : this.enter(kind, who, mayLink, handle);
    settled.then(
      ({ profileId, count }) => asker.counted(profileId, count),
      (error) => asker.failed(error),
    );
  }

  /**
   * Counts several visits. All enter the batcher in this turn, save those that wait for a link: see LinkOrder.
   * @returns for each, in order, what `enter` gives, or the error that it throws
   */
  enterAll(
    kind: 'visit' | 'visitAndCount',
    visits: readonly { readonly identity: Identity; readonly productHandle: string }[],
    mayLink: boolean,
  ): Promise<Outcome[]> {
    if (!visits.some(({ identity }) => mustLink(identity, mayLink))) return this.#countAll(kind, visits);
    const order = new LinkOrder();
    return Promise.all(
      visits.map(({ identity, productHandle }) => {
        const names = mustLink(identity, mayLink) ? namesOf(identity) : [onlyName(identity)];
        return order.run(names, () => this.enter(kind, identity, mayLink, productHandle).catch(toOutcome));
      }),
    );
  }

  /** `enterAll` of visits that need not wait for each other: with one promise for all of them. */
  #countAll(
    kind: 'visit' | 'visitAndCount',
    visits: readonly { readonly identity: Identity; readonly productHandle: string }[],
  ): Promise<Outcome[]> {
    return new Promise((resolve, reject) => {
      const outcomes = new Outcomes(visits.length, resolve, reject);
      for (let i = 0; i < visits.length; i++) {
        const { identity, productHandle } = visits[i] as (typeof visits)[number];
        this.#counting.count(
          kind,
          onlyName(identity),
          productHandle,
          identity.device,
          new VisitOfMany(outcomes, i),
        );
      }
    });
  }

  /** Counts one visit, or resets, under an operation: once, however often it is tried. @throws as `enter` */
  enterOnce(
    kind: 'visit' | 'reset',
    who: Identity,
    mayLink: boolean,
    handle: string,
    operation: Operation,
  ): Promise<Settled> {
    return this.#for(
      who,
      mayLink,
      (subject) => this.#counting.enterOnce(kind, subject, handle, who.device, operation),
      kind === 'reset' ? undefined : (places) => this.#products.assertFits(places, handle),
    );
  }

  /**
   * Records an event of a visitor; makes the profile where there is none.
   * @param encode the event's line (from encodeEvent) under a profile
   * @returns the profile @throws ServiceError `overloaded` at the high-water mark, `unavailable`
   */
  record(who: Identity, mayLink: boolean, encode: (profileId: string) => string): Promise<string> {
    return this.#for(who, mayLink, (subject) => this.#drafts.record(subject, encode));
  }

  /** `record` of an event that is told: without a promise, wherever nothing is linked. */
  submit(who: Identity, mayLink: boolean, draft: Draft): void {
    if (!mustLink(who, mayLink)) {
      this.#drafts.submit(onlyName(who), draft);
      return;
    }
    this.record(who, mayLink, (profileId) => draft.encode(profileId)).then(
      (profileId) => draft.recorded(profileId),
      (error) => draft.failed(error),
    );
  }

  /** The visitor's count of a product, and the profile id that it has or would get. */
  async read(who: Identity, mayLink: boolean, handle: string): Promise<Settled> {
    const name = await this.#nameToRead(who, mayLink);
    return (await this.#counting.enter('read', { name }, handle)) as Settled;
  }

  /**
   * The visitor's counts of several products, in their order, and the profile id that it has or would get.
   * @throws ServiceError `unavailable`, `overloaded`
   */
  async readAll(
    who: Identity,
    mayLink: boolean,
    handles: readonly string[],
  ): Promise<{ readonly profileId: string; readonly counts: readonly number[] }> {
    for (let round = 0; round < READ_ROUNDS; round++) {
      const name = await this.#nameToRead(who, mayLink);
      const read = await Promise.all(
        handles.map((handle) => this.#counting.enter('read', { name }, handle) as Promise<Settled>),
      );
      const { profileId } = read[0] as Settled;
      if (read.every((one) => one.profileId === profileId))
        return { profileId, counts: read.map(({ count }) => count) };
    }
    throw new ServiceError('unavailable');
  }

  /** The profile that the visitor has, or would get. Creates and links nothing. */
  async find(who: Identity, mayLink: boolean): Promise<Settled> {
    const name = await this.#nameToRead(who, mayLink);
    return this.#doors.find(name);
  }

  /**
   * Changes something of a visitor's profile; makes it where there is none. @param make see Places.ask
   * @param check see Check @throws what `make` and `check` throw, and ServiceError `unavailable`
   */
  change<Answer>(
    who: Identity,
    mayLink: boolean,
    make: Ask<Answer>,
    check?: Check,
  ): Promise<Changed<Answer>> {
    return this.#for(who, mayLink, (subject) => this.#places.ask(subject, make, asChanged), check);
  }

  /** Where what this visitor has after a write is. Changes nothing. @throws ServiceError `unavailable` */
  async preview(who: Identity, mayLink: boolean): Promise<Place[]> {
    if (mustLink(who, mayLink)) return this.#linker.preview(...namesOf(who));
    return [await this.#linker.locate(onlyName(who))];
  }

  /** As `change`, where there is nothing to do for a visitor who has no profile: it stays unknown. */
  changeKnown<Answer>(who: Identity, mayLink: boolean, make: Ask<Answer>): Promise<Changed<Answer>> {
    const act = (subject: Subject) => this.#places.ask(subject, make, asChanged);
    return this.#for(who, mayLink, act, undefined, async () => {
      const { known, profileId } = await this.find(who, mayLink);
      return known ? undefined : act({ name: '', room: profileId });
    });
  }

  /** Where a visit or event of this visitor will be recorded, as far as this process knows without asking. */
  likelyProfile(who: Identity, mayLink: boolean): string {
    const name = mustLink(who, mayLink) ? identityName('s', who.sessionId) : onlyName(who);
    return this.#doors.remembered(name)?.room ?? this.#doors.ownProfile(name);
  }

  /** Whether a session belongs to a customer. Changes nothing. @throws ServiceError `unavailable` */
  async belongsToCustomer({ sessionId }: Identity): Promise<boolean> {
    return sessionId !== null && this.#linker.belongsToCustomer(identityName('s', sessionId));
  }

  /** Links a session to a customer. @param who has both ids. @throws ServiceError `unavailable` */
  link(who: BothIds): Promise<Linked> {
    return this.#linker.link(identityName('c', who.customerId), identityName('s', who.sessionId));
  }

  async #resolve(who: Identity, mayLink: boolean): Promise<Settled> {
    if (!mustLink(who, mayLink)) {
      const name = onlyName(who);
      const { room } = await this.#doors.where(name, 'resolve');
      return { profileId: room ?? this.#doors.ownProfile(name), count: 0, known: true };
    }
    const { profileId } = await this.#linker.link(...namesOf(who));
    return { profileId, count: 0, known: true };
  }

  /**
   * Does something for a visitor. Two ids are linked first, where they are not known to be.
   * @param check see Check @param instead does it, where they are not to be linked
   */
  #for<T>(
    who: Identity,
    mayLink: boolean,
    act: (subject: Subject) => Promise<T | undefined>,
    check?: Check,
    instead?: () => Promise<T | undefined>,
  ): Promise<T> {
    if (!mustLink(who, mayLink)) return act({ name: onlyName(who) }) as Promise<T>;
    return this.#forLinked(...namesOf(who), act, check, instead);
  }

  async #forLinked<T>(
    customer: string,
    session: string,
    act: (subject: Subject) => Promise<T | undefined>,
    check?: Check,
    instead?: () => Promise<T | undefined>,
  ): Promise<T> {
    const linked = this.#doors.linked(customer, session);
    if (linked !== undefined) {
      const done = await act({ name: session, ...linked });
      if (done !== undefined) return done;
    }
    const done = await instead?.();
    if (done !== undefined) return done;
    if (check !== undefined) await check(await this.#linker.preview(customer, session));
    for (let round = 0; round < LINK_ROUNDS; round++) {
      const { profileId } = await this.#linker.link(customer, session);
      const made = await act({ name: '', room: profileId });
      if (made !== undefined) return made;
      // The visitor was erased in between; from here on it is a new one.
      await Promise.all([customer, session].map((name) => this.#doors.mend(name, profileId)));
    }
    throw new ServiceError('unavailable');
  }

  /** The name under which a read finds what a write of the same visitor would. */
  async #nameToRead(who: Identity, mayLink: boolean): Promise<string> {
    if (!mustLink(who, mayLink)) return onlyName(who);
    const [customer, session] = namesOf(who);
    return (await this.#linker.wouldAdopt(customer, session)) ? session : customer;
  }
}

/** What becomes of several visits. */
class Outcomes {
  readonly #outcomes: Outcome[];
  #left: number;
  readonly #resolve: (outcomes: Outcome[]) => void;
  readonly reject: (error: Error) => void;

  constructor(count: number, resolve: (outcomes: Outcome[]) => void, reject: (error: Error) => void) {
    this.#outcomes = new Array<Outcome>(count);
    this.#left = count;
    this.#resolve = resolve;
    this.reject = reject;
  }

  tell(index: number, outcome: Outcome): void {
    this.#outcomes[index] = outcome;
    if (--this.#left === 0) this.#resolve(this.#outcomes);
  }
}

/** One of several visits. Once it was counted it is its own outcome. */
class VisitOfMany implements Asker, Settled {
  profileId = '';
  count = 0;
  readonly known = true;
  readonly #all: Outcomes;
  readonly #index: number;

  constructor(all: Outcomes, index: number) {
    this.#all = all;
    this.#index = index;
  }

  counted(profileId: string, count: number): void {
    this.profileId = profileId;
    this.count = count;
    this.#all.tell(this.#index, this);
  }

  failed(error: Error): void {
    // A mistake of ours is not told of one visit among others.
    if (error instanceof ServiceError) this.#all.tell(this.#index, error);
    else this.#all.reject(error);
  }
}

/** Both ids: the two are one visitor's. */
type BothIds = { readonly customerId: string; readonly sessionId: string };

function mustLink(who: Identity, mayLink: boolean): who is Identity & BothIds {
  return mayLink && who.customerId !== null && who.sessionId !== null;
}

function namesOf({ customerId, sessionId }: BothIds): [customer: string, session: string] {
  return [identityName('c', customerId), identityName('s', sessionId)];
}

function onlyName({ customerId, sessionId }: Identity): string {
  return customerId !== null ? identityName('c', customerId) : identityName('s', sessionId as string);
}

/** @throws what is no ServiceError: a mistake of ours is not told of one visit among others */
function toOutcome(error: Error): Outcome {
  if (error instanceof ServiceError) return error;
  throw error;
}
