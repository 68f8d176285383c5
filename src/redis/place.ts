// Where something of a visitor is done, as far as its sender knows. Scripts check it in the step that does it, and answer with
// a redirect where the visitor is elsewhere (lua/includes/redirect.lua).

import type { Keys } from './keys.js';

export interface Place {
  readonly profileId: string;
  /** Of a linked profile; empty where the identity has no link. */
  readonly generation: string;
  /** Default profile of the identity whose link the script checks; empty where it was read before. */
  readonly checked: string;
  /** The link that the identity must have; empty for none. */
  readonly link: string;
}

/** A linked profile, without a check of the link that led there. */
export function linkedPlace(profileId: string, generation: string): Place {
  return { profileId, generation, checked: '', link: '' };
}

/** Where an identity without a link has what is its, if that is its default profile. */
export function guestPlace(own: string): Place {
  return { profileId: own, generation: '', checked: own, link: '' };
}

/** Steps from one place to the next; more than a few would be a circle in the data. */
export const MAX_HOPS = 16;

/** Key of a place's counts. */
export function countsOf(
  keys: Keys,
  { profileId, generation }: Pick<Place, 'profileId' | 'generation'>,
): string {
  return generation === '' ? keys.identity(profileId) : keys.counts(profileId);
}

/** The key that a script checks a link at, if it is to: the last of its keys. */
export function checkedKeys(keys: Keys, { checked }: Place): string[] {
  return checked === '' ? [] : [keys.identity(checked)];
}

/** As `checkedKeys`, of a write; then what else ends with a guest: Redis refuses the call while one of them may be at another node. */
export function checkedAndEndingKeys(keys: Keys, place: Place): string[] {
  const { profileId, generation } = place;
  const ending =
    generation === '' ? [keys.items(profileId), keys.members(profileId), keys.identity(profileId)] : [];
  return [...checkedKeys(keys, place), ...ending];
}

/** Whether an answer of a script says where to go instead. */
export function isRedirect(answer: unknown): answer is Redirect {
  return typeof answer === 'string' && (answer.startsWith('@') || answer === GONE);
}

/** `@<link>`, or GONE. */
export type Redirect = `@${string}` | '!';

/** The linked profile is gone. */
export const GONE = '!';
