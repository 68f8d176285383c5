// The expected location of a visitor's data. Scripts verify it, or answer with a redirect (lua/includes/redirect.lua).

import { GUEST_KINDS, type Keys } from './keys.js';

export interface Location {
  readonly profileId: string;
  /** '' for a guest. */
  readonly generation: string;
  /** Default profile of the identity to verify, or ''. */
  readonly checked: string;
  /** '' for none. */
  readonly link: string;
}

export function linkedLocation(profileId: string, generation: string): Location {
  return { profileId, generation, checked: '', link: '' };
}

export function guestLocation(own: string): Location {
  return { profileId: own, generation: '', checked: own, link: '' };
}

/** Redirects that are followed; more would mean a circle in the data. */
export const MAX_HOPS = 16;

export function countsOf(
  keys: Keys,
  { profileId, generation }: Pick<Location, 'profileId' | 'generation'>,
): string {
  return generation === '' ? keys.identity(profileId) : keys.counts(profileId);
}

export function checkedKeys(keys: Keys, { checked }: Location): string[] {
  return checked === '' ? [] : [keys.identity(checked)];
}

/** All keys that expire with a guest, so that Redis refuses the call if one may have migrated. */
export function checkedAndEndingKeys(keys: Keys, location: Location): string[] {
  const { profileId, generation } = location;
  const ending = generation === '' ? GUEST_KINDS.map((kind) => keys.ofKind(kind, profileId)) : [];
  return [...checkedKeys(keys, location), ...ending];
}

export function isRedirect(answer: unknown): answer is Redirect {
  return typeof answer === 'string' && (answer.startsWith('@') || answer === GONE);
}

export type Redirect = `@${string}` | '!';

export const GONE = '!';
