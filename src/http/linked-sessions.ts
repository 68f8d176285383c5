// LINKED_SESSIONS=closed: after a logout nobody may reach the customer's wishlist with the session's id. So without a
// signed customer a linked session opens no wishlist; with a publishable key, which is public, never.

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

  /** True if a session of a customer would be refused. */
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
