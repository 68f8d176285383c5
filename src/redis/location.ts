// Where an operation is done. Its script verifies that, see lua/includes/fence.lua.

import { LUA } from './lua-codes.js';

export interface Location {
  readonly profileId: string;
  /** Profile id of the session whose link the operation has followed to its customer; '' if it followed none. */
  readonly session: string;
  /** Id of that session's link, or ''. */
  readonly linkId: string;
}

/** A customer's profile for an operation that names the customer, or a session's own. */
export function ownLocation(profileId: string): Location {
  return { profileId, session: '', linkId: '' };
}

export function isCustomers(profileId: string): boolean {
  return profileId.charAt(profileId.indexOf('.') + 1) === 'c';
}

const { LINKED, NOT_MEMBER, RETIRED } = LUA;

/** The operation was not done, because it belongs elsewhere or nowhere. */
export type Redirect = `${typeof LINKED}${string}` | typeof NOT_MEMBER | typeof RETIRED;

export function isRedirect(answer: unknown): answer is Redirect {
  return (
    typeof answer === 'string' && (answer.startsWith(LINKED) || answer === NOT_MEMBER || answer === RETIRED)
  );
}
