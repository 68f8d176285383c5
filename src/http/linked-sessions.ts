// Refuses linked sessions: always with a publishable key, because that is public; through the app proxy with
// LINKED_SESSIONS=closed, since after a logout the session's id must not open the customer's wishlist.

import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { Caller } from './access.js';

export class LinkedSessions {
  readonly #areOpen: boolean;

  constructor(
    private readonly belongsToCustomer: (identity: Identity) => Promise<boolean>,
    setting: 'closed' | 'open',
  ) {
    this.#areOpen = setting === 'open';
  }

  mayRefuse({ kind }: Caller, { customerId }: Identity): boolean {
    const isClosed = kind === 'browser' || (kind === 'storefront' && !this.#areOpen);
    return isClosed && customerId === null;
  }

  async refuse(identity: Identity): Promise<void> {
    if (await this.belongsToCustomer(identity)) throw new ServiceError('session_belongs_to_customer');
  }
}
