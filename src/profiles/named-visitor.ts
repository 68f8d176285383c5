// The visitor of an export or erasure, by customer id, session id or e-mail address. If several are given, they must
// lead to one visitor.

import { type Issue, ServiceError } from '../errors.js';
import { type Identity, identityName, namesIn, normaliseEmail } from '../identity-rules.js';
import type { Emails } from './emails.js';
import type { Locator } from './locator.js';

const TWO_VISITORS = 'The ids belong to different visitors; name one of them.';

export interface NamedVisitor {
  /** The first name leads to the visitor, unless there is a `digest`. */
  readonly names: readonly string[];
  /** The digest of the e-mail address, if no id leads to a visitor. */
  readonly digest: string | undefined;
}

/** @param where part of the request that has the ids, for `issues` */
export type FindNamed = (identity: Identity, where?: Issue['in']) => Promise<NamedVisitor>;

/** An address alone may lead to several visitors. @throws ServiceError `invalid_request` if ids lead to several */
export async function findNamed(
  locator: Locator,
  emails: Emails,
  identity: Identity,
  where: Issue['in'] = 'query',
): Promise<NamedVisitor> {
  const { sessionId } = identity;
  const session = sessionId === null ? '' : identityName('s', sessionId);
  const known: string[] = [];
  const unknown: string[] = [];
  let visitor: string | undefined;
  for (const name of namesIn(identity)) {
    const state = await locator.stateOf(name);
    const own = state === 'guest' ? locator.profileOf(name) : undefined;
    const profileId = typeof state === 'object' ? state.customer : own;
    if (profileId === undefined) unknown.push(name);
    else known.push(name);
    if (visitor !== undefined && profileId !== undefined && profileId !== visitor)
      throw twoVisitors(where, name === session ? 'sessionId' : 'customerId');
    visitor ??= profileId;
  }
  const names = [...known, ...unknown];
  const normal = normaliseEmail(identity.email);
  if (normal === undefined) return { names, digest: undefined };
  const digest = emails.digest(normal);
  if (names.length === 0) return { names, digest };
  const ofEmail = new Set(await emails.findOwners(digest));
  if (visitor !== undefined) ofEmail.add(visitor);
  if (ofEmail.size > 1) throw twoVisitors(where, 'email');
  return { names, digest: visitor === undefined && ofEmail.size === 1 ? digest : undefined };
}

function twoVisitors(where: Issue['in'], field: keyof Identity): ServiceError {
  return new ServiceError('invalid_request', TWO_VISITORS, [
    { in: where, path: `/${field}`, message: 'leads to another visitor than the other ids' },
  ]);
}
