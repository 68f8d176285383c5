// The visitor of a request, by a customer's id, a session's, or both:
//
//   one id                       that identity's profile
//   both, from a trusted caller  linked first, see link.ts
//   both, from anyone else       the customer's profile; nothing is linked
//
// Reads create and link nothing.

import { ServiceError } from '../errors.js';
import { type Identity, identityName } from '../identity-rules.js';
import type { Location } from '../redis/location.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { ProductLimit } from '../visits/product-limit.js';
import type { VisitBatch, VisitKind } from '../visits/visit-batch.js';
import { type Counted, type CountRequest, countAt, countOnce } from './counting.js';
import { type EventRequest, type RecordingBatch, recordAt } from './event-requests.js';
import type { Linked, Linker } from './link.js';
import { type Links, linkHome } from './links.js';
import type { Ask, Done, LocatedRequest, Locations } from './locations.js';
import type { Redirects } from './redirects.js';

// Rounds until a request fails. Each failed round means that another request has changed a link or the profile.
const ROUNDS = 8;

/** Throws to refuse a change before ids are linked for it. @param locations profiles that the link would join */
export type Check = (locations: readonly Location[]) => Promise<void>;

export interface FoundProfile {
  readonly profileId: string;
  readonly exists: boolean;
  /** The name of the customer whose profile it is; undefined for a guest's. */
  readonly owner: string | undefined;
}

interface Parts {
  readonly links: Links;
  readonly redirects: Redirects;
  readonly locations: Locations;
  readonly visits: VisitBatch;
  readonly recordings: RecordingBatch;
  readonly linker: Linker;
  readonly products: ProductLimit;
}

export class Visitors {
  constructor(private readonly parts: Parts) {}

  count(request: CountRequest, who: Identity, mayLink: boolean): void {
    request.batch = this.parts.visits;
    if (!mustLink(who, mayLink)) {
      this.parts.locations.send(request, onlyName(who));
      return;
    }
    const { kind, handle, device } = request;
    const ask = countAt(this.parts.visits, kind, handle, device);
    const counted =
      kind === 'read' ? this.peek(who, mayLink, ask) : this.#enter(who, mayLink, { kind, handle }, ask);
    answer(request, counted);
  }

  async enter(
    kind: Exclude<VisitKind, 'read'>,
    who: Identity,
    mayLink: boolean,
    handle: string,
  ): Promise<Counted> {
    const ask = countAt(this.parts.visits, kind, handle, who.device);
    const { profileId, answer } = await this.#enter(who, mayLink, { kind, handle }, ask);
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
    return (await this.#enter(who, mayLink, { kind, handle }, ask)).answer;
  }

  /** Reads counts, and the profile id that the visitor has or would get. */
  async readAll(
    who: Identity,
    mayLink: boolean,
    handles: readonly string[],
  ): Promise<{ readonly profileId: string; readonly counts: readonly number[] }> {
    const { visits, locations } = this.parts;
    for (let round = 0; round < ROUNDS; round++) {
      const name = await this.#nameToRead(who, mayLink);
      const read = await Promise.all(
        handles.map((handle) => locations.run(name, false, countAt(visits, 'read', handle, null))),
      );
      const { profileId } = read[0] as Done<number>;
      if (read.every((one) => one.profileId === profileId))
        return { profileId, counts: read.map(({ answer }) => answer) };
    }
    throw new ServiceError('unavailable');
  }

  /** Creates an unknown visitor. */
  async resolve(who: Identity, mayLink: boolean): Promise<string> {
    const { links, linker, redirects } = this.parts;
    if (mustLink(who, mayLink)) return (await linker.link(...namesOf(who))).link.profileId;
    const name = onlyName(who);
    for (let round = 0; round < ROUNDS; round++) {
      const { link, exists, home } = await redirects.stateOf(
        name,
        who.customerId === null ? 'resolve' : 'peek',
      );
      if (link !== undefined) return link.profileId;
      if (who.customerId === null) {
        if (exists || (await links.replace(name, undefined, linkHome(home)))) return home;
        continue;
      }
      const own = await links.own(name, home, name);
      if (own !== undefined && own.task === '') return own.profileId;
    }
    throw new ServiceError('unavailable');
  }

  /** Creates an unknown visitor. @throws ServiceError `overloaded` */
  async record(who: Identity, mayLink: boolean, encode: (profileId: string) => string): Promise<string> {
    return (await this.change(who, mayLink, recordAt(this.parts.recordings, encode))).profileId;
  }

  /** `record` without promises, unless ids are linked. */
  submit(request: EventRequest, who: Identity, mayLink: boolean): void {
    const { recordings } = this.parts;
    request.batch = recordings;
    if (!mustLink(who, mayLink)) {
      this.parts.locations.send(request, onlyName(who));
      return;
    }
    const ask = recordAt(recordings, (profileId) => request.encode(profileId));
    answer(request, this.change(who, mayLink, ask));
  }

  async find(who: Identity, mayLink: boolean): Promise<FoundProfile> {
    const name = await this.#nameToRead(who, mayLink);
    const { link, exists, home, owner } = await this.parts.redirects.stateOf(name);
    return { profileId: link?.profileId ?? home, exists, owner };
  }

  async peek<Answer>(who: Identity, mayLink: boolean, ask: Ask<Answer>): Promise<Done<Answer>> {
    return this.parts.locations.run(await this.#nameToRead(who, mayLink), false, ask);
  }

  /** Creates an unknown visitor. */
  change<Answer>(who: Identity, mayLink: boolean, ask: Ask<Answer>, check?: Check): Promise<Done<Answer>> {
    return this.#run(who, mayLink, { makes: true, check }, ask);
  }

  async changeExisting<Answer>(who: Identity, mayLink: boolean, ask: Ask<Answer>): Promise<Done<Answer>> {
    const isNew = mustLink(who, mayLink) && !(await this.find(who, mayLink)).exists;
    return isNew ? this.peek(who, mayLink, ask) : this.#run(who, mayLink, { makes: false }, ask);
  }

  async preview(who: Identity, mayLink: boolean): Promise<Location[]> {
    const { linker } = this.parts;
    if (mustLink(who, mayLink)) return linker.preview(...namesOf(who));
    return [await linker.locate(onlyName(who))];
  }

  /** Doesn't ask Redis. */
  likelyProfile(who: Identity, mayLink: boolean): string {
    const { links } = this.parts;
    const name = mustLink(who, mayLink) ? identityName('s', who.sessionId) : onlyName(who);
    return links.remembered(name)?.profileId ?? links.defaultProfile(name);
  }

  async belongsToCustomer({ sessionId }: Identity): Promise<boolean> {
    return sessionId !== null && this.parts.linker.belongsToCustomer(identityName('s', sessionId));
  }

  link(who: BothIds): Promise<Linked> {
    return this.parts.linker.link(identityName('c', who.customerId), identityName('s', who.sessionId));
  }

  #enter<Answer>(
    who: Identity,
    mayLink: boolean,
    { kind, handle }: { readonly kind: Exclude<VisitKind, 'read'>; readonly handle: string },
    ask: Ask<Answer>,
  ): Promise<Done<Answer>> {
    if (kind === 'reset') return this.#run(who, mayLink, { makes: false }, ask);
    const check: Check = (locations) => this.parts.products.assertFits(locations, handle);
    return this.#run(who, mayLink, { makes: true, check }, ask);
  }

  async #run<Answer>(
    who: Identity,
    mayLink: boolean,
    { makes, check }: { readonly makes: boolean; readonly check?: Check | undefined },
    ask: Ask<Answer>,
  ): Promise<Done<Answer>> {
    const { locations, links, linker } = this.parts;
    if (!mustLink(who, mayLink)) return locations.run(onlyName(who), makes, ask);
    const [customer, session] = namesOf(who);
    const pair = links.pair(customer, session);
    const done = pair && (await locations.runAt(pair, session, ask));
    if (done !== undefined) return done;
    if (check !== undefined) await check(await linker.preview(customer, session));
    for (let round = 0; round < ROUNDS; round++) {
      const { link } = await linker.link(customer, session);
      const made = await locations.runAt(link, '', ask);
      if (made !== undefined) return made;
      // The profile has been erased or merged since: link again.
    }
    throw new ServiceError('unavailable');
  }

  async #nameToRead(who: Identity, mayLink: boolean): Promise<string> {
    if (!mustLink(who, mayLink)) return onlyName(who);
    const [customer, session] = namesOf(who);
    return (await this.parts.linker.wouldAdopt(customer, session)) ? session : customer;
  }
}

export type BothIds = { readonly customerId: string; readonly sessionId: string };

export function mustLink(who: Identity, mayLink: boolean): who is Identity & BothIds {
  return mayLink && who.customerId !== null && who.sessionId !== null;
}

export function namesOf({ customerId, sessionId }: BothIds): [customer: string, session: string] {
  return [identityName('c', customerId), identityName('s', sessionId)];
}

function onlyName({ customerId, sessionId }: Identity): string {
  return customerId !== null ? identityName('c', customerId) : identityName('s', sessionId as string);
}

function answer<Answer>(request: LocatedRequest<Answer>, done: Promise<Done<Answer>>): void {
  done.then(
    ({ profileId, answer }) => {
      request.profileId = profileId;
      request.succeeded(answer);
    },
    (error) => request.failed(error),
  );
}
