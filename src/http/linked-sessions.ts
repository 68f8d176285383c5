// LINKED_SESSIONS=closed: who knew a session's id before a login must not reach the customer's wishlist by it after the
// logout. Where the storefront's signature names no customer, a session that is linked to a customer opens no wishlist.
// A publishable key, which every visitor of a page can read, never opens one.

import { ServiceError } from '../errors.js';
import type { Visitors } from '../identity/visitors.js';
import type { Identity } from '../identity-rules.js';
import type { Caller } from './access.js';

export class LinkedSessions {
  readonly #visitors: Visitors;
  readonly #areOpen: boolean;

  constructor(visitors: Visitors, setting: 'closed' | 'open') {
    this.#visitors = visitors;
    this.#areOpen = setting === 'open';
  }

  /**
   * Rejects where the session belongs to a customer; undefined where there is nothing to ask. A write asks before it
   * acts: a login that comes in between finds it done. A read asks after it has read, since what it has read may be
   * the customer's by then.
   * @param identity for which the caller acts
   * @throws ServiceError `session_belongs_to_customer`, `unavailable`
   */
  refuse({ kind }: Caller, identity: Identity): Promise<void> | undefined {
    const isClosed = kind === 'browser' || (kind === 'storefront' && !this.#areOpen);
    if (!isClosed || identity.customerId !== null) return undefined;
    return this.#visitors.belongsToCustomer(identity).then((belongs) => {
      if (belongs) throw new ServiceError('session_belongs_to_customer');
    });
  }
}
