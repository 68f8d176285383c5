// Acts at an identity's expected location, and follows redirects.

import { ServiceError } from '../errors.js';
import { isCustomerName } from '../identity-rules.js';
import { guestLocation, isRedirect, type Location, linkedLocation, MAX_HOPS } from '../redis/location.js';
import { type Link, type Links, linkHome, linkTo } from './links.js';
import type { Redirects } from './redirects.js';

/** Answers with a redirect (lua/includes/redirect.lua) if nothing was done. */
export type Ask<Answer> = (location: Location) => Promise<Answer | string>;

type Aimed = { -readonly [Field in keyof Location]: Location[Field] };

/**
 * A request that is itself an operation of a batch, without promises unless it is redirected. `succeeded` or `failed`
 * is called once.
 */
export abstract class LocatedRequest<Answer> implements Aimed {
  deadline = 0;
  profileId = '';
  generation = '';
  checked = '';
  link = '';
  name = '';
  hops = 0;
  locations: Locations | undefined;

  /** True if it creates an unknown identity. */
  abstract readonly makes: boolean;
  /** Adds the request to its batch, at its present location. */
  abstract add(): void;
  abstract succeeded(answer: Answer): void;
  abstract failed(error: Error): void;

  done(answer: Answer | string): void {
    if (isRedirect(answer)) void this.locations?.sendElsewhere(this, answer);
    else this.succeeded(answer as Answer);
  }
}

export interface Done<Answer> {
  readonly profileId: string;
  readonly answer: Answer;
}

export class Locations {
  constructor(
    private readonly links: Links,
    private readonly redirects: Redirects,
  ) {}

  /** Fills in the location that this process remembers, without asking Redis. */
  aim(request: Aimed, name: string): void {
    const own = this.links.defaultProfile(name);
    const link = this.links.areChecked ? this.links.remembered(name) : undefined;
    request.checked = own;
    request.profileId = link === undefined ? own : link.profileId;
    request.generation = link === undefined ? '' : link.generation;
    request.link = link === undefined ? '' : link.field;
  }

  /** A customer always has a link, so a write reads it first. */
  needsLink(name: string): boolean {
    return isCustomerName(name) && !(this.links.areChecked && this.links.remembered(name) !== undefined);
  }

  send(request: LocatedRequest<unknown>, name: string): void {
    request.name = name;
    request.locations = this;
    if (request.makes && this.needsLink(name)) {
      void this.sendElsewhere(request, '@');
      return;
    }
    this.aim(request, name);
    request.add();
  }

  async sendElsewhere(request: LocatedRequest<unknown>, redirect: string): Promise<void> {
    try {
      if (++request.hops > MAX_HOPS) throw new ServiceError('unavailable');
      Object.assign(request, await this.#located(request.name, request.makes, request, redirect));
      request.add();
    } catch (error) {
      request.failed(error as Error);
    }
  }

  /** @param makes creates an unknown identity */
  async run<Answer>(name: string, makes: boolean, ask: Ask<Answer>): Promise<Done<Answer>> {
    let location: Aimed = guestLocation('');
    if (makes && this.needsLink(name)) location = await this.#located(name, makes);
    else this.aim(location, name);
    for (let hop = 0; hop <= MAX_HOPS; hop++) {
      const answer = await ask(location);
      if (!isRedirect(answer)) return { profileId: location.profileId, answer: answer as Answer };
      location = await this.#located(name, makes, location, answer);
    }
    throw new ServiceError('unavailable');
  }

  /**
   * @param session must have this link; '' if just verified @returns undefined if it has another, or the profile was
   * erased
   */
  async runAt<Answer>(link: Link, session: string, ask: Ask<Answer>): Promise<Done<Answer> | undefined> {
    const isChecked = session !== '' && this.links.areChecked;
    if (session !== '' && !isChecked && (await this.links.read(session)).link?.field !== link.field)
      return undefined;
    const { profileId, generation } = link;
    const answer = await ask(
      isChecked ? this.#locationAt(session, link) : linkedLocation(profileId, generation),
    );
    return isRedirect(answer) ? undefined : { profileId, answer: answer as Answer };
  }

  async #located(name: string, makes: boolean, location?: Location, answer = '@'): Promise<Location> {
    const used = location && usedAt(location);
    const checked = this.links.defaultProfile(name);
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const { link, exists, home } = await this.redirects.after(name, hop === 0 ? answer : '@', used);
      if (link !== undefined) return this.#locationAt(name, link);
      if (makes && isCustomerName(name)) {
        const own = await this.links.own(name, home, name);
        if (own !== undefined && own.task === '') return this.#locationAt(name, own);
      } else if (home === checked) return guestLocation(home);
      else if (exists || (makes && (await this.links.replace(name, undefined, linkHome(home)))))
        return this.#locationAt(name, linkHome(home));
      else if (!makes) return { profileId: home, generation: '', checked, link: '' };
    }
    throw new ServiceError('unavailable');
  }

  #locationAt(name: string, { profileId, generation, field }: Link): Location {
    // A guest's home is in the slot of its identity.
    if (!this.links.areChecked && generation !== '') return linkedLocation(profileId, generation);
    return { profileId, generation, checked: this.links.defaultProfile(name), link: field };
  }
}

/** Undefined for a guest at its default profile. */
function usedAt({ profileId, generation, link }: Location): Link | undefined {
  if (generation !== '') return linkTo(profileId, generation);
  return link === '' ? undefined : linkHome(profileId);
}
