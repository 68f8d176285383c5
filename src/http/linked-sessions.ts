// LINKED_SESSIONS=closed: somebody who knows a session's id must not reach the customer's wishlist after the logout. So if the
// storefront's signature names no customer, a session that is linked to a customer opens no wishlist. A publishable key, which
// every visitor of a page can read, never opens one.

import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { Visitors } from '../profiles/visitors.js';
import type { Caller } from './access.js';

export class LinkedSessions {
  readonly #visitors: Pick<Visitors, 'belongsToCustomer'>;
  readonly #areOpen: boolean;

  constructor(visitors: Pick<Visitors, 'belongsToCustomer'>, setting: 'closed' | 'open') {
    this.#visitors = visitors;
    this.#areOpen = setting === 'open';
  }

  /** True if this caller is refused when the session belongs to a customer. @param identity for which the caller acts */
  mayRefuse({ kind }: Caller, { customerId }: Identity): boolean {
    const isClosed = kind === 'browser' || (kind === 'storefront' && !this.#areOpen);
    return isClosed && customerId === null;
  }

  /** @throws ServiceError `session_belongs_to_customer`, `unavailable` */
  async refuse(identity: Identity): Promise<void> {
    if (await this.#visitors.belongsToCustomer(identity))
      throw new ServiceError('session_belongs_to_customer');
  }
}
