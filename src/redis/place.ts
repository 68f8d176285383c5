// The location of a visitor's data, as far as the caller knows. Scripts verify it in the same atomic step, and answer with a redirect
// if the visitor's data is elsewhere (lua/includes/redirect.lua).

import type { Keys } from './keys.js';

export interface Place {
  readonly profileId: string;
  /** Of a linked profile; '' if the identity has no link. */
  readonly generation: string;
  /** Default profile of the identity whose link the script verifies; '' if it was verified before. */
  readonly checked: string;
  /** The link that the identity must have; '' for none. */
  readonly link: string;
}

/** A linked profile, without verifying the link. */
export function linkedPlace(profileId: string, generation: string): Place {
  return { profileId, generation, checked: '', link: '' };
}

/** The default profile of an identity without a link. */
export function guestPlace(own: string): Place {
  return { profileId: own, generation: '', checked: own, link: '' };
}

/** Maximum redirects; more than a few would be a circle in the data. */
export const MAX_HOPS = 16;

export function countsOf(
  keys: Keys,
  { profileId, generation }: Pick<Place, 'profileId' | 'generation'>,
): string {
  return generation === '' ? keys.identity(profileId) : keys.counts(profileId);
}

/** The identity key for a script that verifies the link: the last of its keys. */
export function checkedKeys(keys: Keys, { checked }: Place): string[] {
  return checked === '' ? [] : [keys.identity(checked)];
}

/** `checkedKeys` for a write, and all keys that expire with a guest: so Redis refuses the call while one of them may have migrated. */
export function checkedAndEndingKeys(keys: Keys, place: Place): string[] {
  const { profileId, generation } = place;
  const ending =
    generation === '' ? [keys.items(profileId), keys.members(profileId), keys.identity(profileId)] : [];
  return [...checkedKeys(keys, place), ...ending];
}

/** True for a redirect in place of a script's answer. */
export function isRedirect(answer: unknown): answer is Redirect {
  return typeof answer === 'string' && (answer.startsWith('@') || answer === GONE);
}

/** `@<link>`, or GONE. */
export type Redirect = `@${string}` | '!';

/** The linked profile was erased. */
export const GONE = '!';
