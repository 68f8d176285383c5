// Does something where an identity has what is its: at the place that seems right, and, where the script answers with a
// redirect, at the next one. The script checks the place in the same step.

import { ServiceError } from '../errors.js';
import { isCustomerName } from '../identity-rules.js';
import { guestPlace, isRedirect, linkedPlace, MAX_HOPS, type Place } from '../redis/place.js';
import { type Link, type Links, linkHome, linkTo } from './links.js';
import type { Redirects } from './redirects.js';

/** Does something at a place, or answers with a redirect (see lua/includes/redirect.lua). */
export type Ask<Answer> = (place: Place) => Promise<Answer | string>;

/** A request that is its own place, and an entry of a batch. */
export abstract class PlacedRequest implements Place {
  deadline = 0;
  profileId = '';
  generation = '';
  checked = '';
  link = '';
  /** Of the identity. */
  name = '';
}

type Aimed = { -readonly [Field in keyof Place]: Place[Field] };

/** What was done, and the profile that has it. */
export interface Done<Answer> {
  readonly profileId: string;
  readonly answer: Answer;
}

export class Places {
  readonly #links: Links;
  readonly #redirects: Redirects;

  constructor(links: Links, redirects: Redirects) {
    this.#links = links;
    this.#redirects = redirects;
  }

  /** Sets a request's place to that of an identity, as far as this process knows. */
  aim(request: Aimed, name: string): void {
    const own = this.#links.defaultProfile(name);
    const link = this.#links.areChecked ? this.#links.remembered(name) : undefined;
    request.checked = own;
    request.profileId = link === undefined ? own : link.profileId;
    request.generation = link === undefined ? '' : link.generation;
    request.link = link === undefined ? '' : link.field;
  }

  /** Whether an identity has to be looked up before something is done that makes it known: customers always have a link. */
  needsLink(name: string): boolean {
    return isCustomerName(name) && !(this.#links.areChecked && this.#links.remembered(name) !== undefined);
  }

  /**
   * Does something for an identity, in one step with the check of its link: of a guest, and on one server.
   * @param makes whether an unknown identity becomes known by it
   * @throws what `ask` throws, and ServiceError `unavailable`
   */
  async run<Answer>(name: string, makes: boolean, ask: Ask<Answer>): Promise<Done<Answer>> {
    const place = makes && this.needsLink(name) ? await this.#located(name, makes) : this.#guess(name);
    const answer = await ask(place);
    if (!isRedirect(answer)) return { profileId: place.profileId, answer: answer as Answer };
    return this.follow(name, makes, place, answer, ask);
  }

  /** Goes on from a place whose answer was a redirect. @throws as `run` */
  async follow<Answer>(
    name: string,
    makes: boolean,
    first: Place,
    redirect: string,
    ask: Ask<Answer>,
  ): Promise<Done<Answer>> {
    let [place, answer]: [Place, Answer | string] = [first, redirect];
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      place = await this.#located(name, makes, place, answer as string);
      answer = await ask(place);
      if (!isRedirect(answer)) return { profileId: place.profileId, answer: answer as Answer };
    }
    throw new ServiceError('unavailable');
  }

  /**
   * Does something at a linked profile. @param session whose link must be this one; empty where that was seen just now
   * @returns undefined, and nothing was done, where the session has another link, or the profile is gone
   */
  async runAt<Answer>(link: Link, session: string, ask: Ask<Answer>): Promise<Done<Answer> | undefined> {
    const isChecked = session !== '' && this.#links.areChecked;
    if (session !== '' && !isChecked && (await this.#links.read(session)).link?.field !== link.field)
      return undefined;
    const { profileId, generation } = link;
    const answer = await ask(isChecked ? this.#placeAt(session, link) : linkedPlace(profileId, generation));
    return isRedirect(answer) ? undefined : { profileId, answer: answer as Answer };
  }

  /** @param answer of a place: a redirect */
  async #located(name: string, makes: boolean, place?: Place, answer = '@'): Promise<Place> {
    const used = place && usedAt(place);
    const checked = this.#links.defaultProfile(name);
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const { link, isKnown, home } = await this.#redirects.after(name, hop === 0 ? answer : '@', used);
      if (link !== undefined) return this.#placeAt(name, link);
      if (makes && isCustomerName(name)) {
        const own = await this.#links.own(name, home, name);
        if (own !== undefined && own.task === '') return this.#placeAt(name, own);
      } else if (home === checked) return guestPlace(home);
      else if (isKnown || (makes && (await this.#links.enter(name, home))))
        return this.#placeAt(name, linkHome(home));
      else if (!makes) return { profileId: home, generation: '', checked, link: '' };
    }
    throw new ServiceError('unavailable');
  }

  #guess(name: string): Place {
    const place: Aimed = guestPlace('');
    this.aim(place, name);
    return place;
  }

  #placeAt(name: string, { profileId, generation, field }: Link): Place {
    // A guest's home is in the slot of its identity.
    if (!this.#links.areChecked && generation !== '') return linkedPlace(profileId, generation);
    return { profileId, generation, checked: this.#links.defaultProfile(name), link: field };
  }
}

/** The link that a place was found by; undefined if a guest was looked for at its default profile. */
function usedAt({ profileId, generation, link }: Place): Link | undefined {
  if (generation !== '') return linkTo(profileId, generation);
  return link === '' ? undefined : linkHome(profileId);
}
