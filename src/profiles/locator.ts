// Finds where a visitor's operation is done, and follows scripts that answer that it belongs elsewhere. A customer's profile
// is computed from the id. A session's is, too, until it has a link; remembered links are hints, which scripts verify.

import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import { isCustomers, isRedirect, type Location, ownLocation } from '../redis/location.js';
import { LUA } from '../redis/lua-codes.js';
import type { Store } from '../redis/store.js';
import {
  type AskLink,
  type Link,
  type LinkKind,
  parseLink,
  readLink,
  type SessionState,
  sessionStateIn,
} from './link.js';
import type { Merger } from './merge.js';
import type { ProfileIds } from './profile-id.js';

/** Answers with a redirect if nothing was done. */
export type Ask<Answer> = (location: Location) => Promise<Answer | string>;

/** Where an operation was done, and its answer. */
export interface Located<Answer> {
  readonly profileId: string;
  readonly answer: Answer;
}

/** Redirects that are followed. Each means that another request has changed the session's link. */
const MAX_REDIRECTS = 16;
/** Links to remember; each takes about 200 bytes. */
const REMEMBERED = 100_000;
/** A link without a merge outlives the last write that found it by more than this, ms. */
const LINK_KEPT_MS = 55 * 60 * 1_000;

type Aimed = { -readonly [Field in keyof Location]: Location[Field] };

/**
 * A request that is itself an operation of a batch, without promises unless it is redirected. `succeeded` or `failed`
 * is called once.
 */
export abstract class LocatedRequest<Answer> implements Aimed {
  deadline = 0;
  profileId = '';
  session = '';
  linkId = '';
  name = '';
  redirects = 0;
  locator: Locator | undefined;

  /** True if it changes something. */
  abstract readonly writes: boolean;
  /** Adds the request to its batch, at its present location. */
  abstract add(): void;
  abstract succeeded(answer: Answer): void;
  abstract failed(error: Error): void;

  done(answer: Answer | string): void {
    if (isRedirect(answer)) void this.locator?.redirect(this, answer);
    else this.succeeded(answer as Answer);
  }
}

interface Remembered {
  readonly link: Link;
  /** By `performance.now()`: until then, a write needn't extend the link's life. */
  readonly keptUntil: number;
}

export class Locator {
  readonly #remembered = new LRUCache<string, Remembered>({ max: REMEMBERED });

  constructor(
    private readonly store: Store,
    private readonly askLink: AskLink,
    private readonly merger: Pick<Merger, 'finish' | 'settle'>,
    private readonly profileIds: ProfileIds,
  ) {}

  profileOf(name: string): string {
    return this.profileIds.of(name);
  }

  /** Fills in the location that this process expects, without asking Redis. */
  aim(request: Aimed, name: string, writes: boolean): void {
    const own = this.profileIds.of(name);
    const found = this.#remembered.size === 0 ? undefined : this.#remembered.get(own);
    if (found !== undefined && !(writes && found.keptUntil < performance.now())) {
      request.profileId = found.link.customer;
      request.session = own;
      request.linkId = found.link.id;
      return;
    }
    // The link may have expired. If not, the write finds it again, and extends its life.
    if (found !== undefined) this.#remembered.delete(own);
    request.profileId = own;
    request.session = '';
    request.linkId = '';
  }

  send(request: LocatedRequest<unknown>, name: string): void {
    request.name = name;
    request.locator = this;
    this.aim(request, name, request.writes);
    request.add();
  }

  async redirect(request: LocatedRequest<unknown>, answer: string): Promise<void> {
    try {
      if (++request.redirects > MAX_REDIRECTS) throw new ServiceError('unavailable');
      Object.assign(request, await this.#after(request.name, answer, request, request.writes));
      request.add();
    } catch (error) {
      request.failed(error as Error);
    }
  }

  async run<Answer>(name: string, writes: boolean, ask: Ask<Answer>): Promise<Located<Answer>> {
    let location: Aimed = ownLocation('');
    this.aim(location, name, writes);
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const answer = await ask(location);
      if (!isRedirect(answer)) return { profileId: location.profileId, answer: answer as Answer };
      location = await this.#after(name, answer, location, writes);
    }
    throw new ServiceError('unavailable');
  }

  /** A customer is never linked. */
  async stateOf(name: string, kind: LinkKind = 'peek'): Promise<SessionState> {
    const own = this.profileIds.of(name);
    const state = sessionStateIn(await this.askLink(own, kind));
    if (typeof state === 'object') this.#remember(own, state, kind !== 'peek');
    else this.#remembered.delete(own);
    return state;
  }

  /** Where the data of a profile are now: a merged session's are its customer's. */
  async presentOf(profileId: string): Promise<string> {
    if (isCustomers(profileId)) return profileId;
    const { keys } = this.store;
    const target = await this.store.call((client) => client.hget(keys.profile(profileId), 'target'));
    if (target === null) return profileId;
    // Read after the target, because a merge sets both.
    const link = await readLink(this.store, profileId);
    if (link?.state === 'merging') await this.merger.finish(profileId, '', link);
    return target.split(' ', 1)[0] as string;
  }

  /** True if this process has extended the life of the session's link within LINK_KEPT_MS, or the link doesn't expire. */
  isKept(name: string): boolean {
    return (this.#remembered.get(this.profileIds.of(name))?.keptUntil ?? 0) > performance.now();
  }

  forget(name: string): void {
    this.#remembered.delete(this.profileIds.of(name));
  }

  async #after(name: string, answer: string, used: Location, writes: boolean): Promise<Location> {
    const own = this.profileIds.of(name);
    if (answer === LUA.RETIRED) throw new ServiceError('session_retired');
    if (answer === LUA.NOT_MEMBER) {
      this.#remembered.delete(own);
      await this.merger.settle(own, name, { customer: used.profileId, id: used.linkId });
      return ownLocation(own);
    }
    const link = parseLink(answer.slice(LUA.LINKED.length));
    if (link.state === 'merging') {
      await this.merger.finish(own, name, link);
      return ownLocation(own);
    }
    this.#remember(own, link, writes);
    return { profileId: link.customer, session: own, linkId: link.id };
  }

  /** @param isKept true if a write has found the link, and so extended its life */
  #remember(own: string, link: Link, isKept: boolean): void {
    if (link.state === 'merging' || isCustomers(own)) return;
    this.#remembered.set(own, { link, keptUntil: this.#keptUntil(own, link, isKept) });
  }

  #keptUntil(own: string, link: Link, isKept: boolean): number {
    if (link.state !== 'led') return Number.POSITIVE_INFINITY;
    if (isKept) return performance.now() + LINK_KEPT_MS;
    const before = this.#remembered.get(own);
    return before?.link.id === link.id ? before.keptUntil : 0;
  }
}
