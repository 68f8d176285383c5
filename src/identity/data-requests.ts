// Open data requests by the visitor they name. When a visitor is erased, the request stays for the merchant, without the
// visitor.
//
// A run of the worker reads all of them once, and after each erasure only those that came since, by their numbers. So
// after an erasure every data request is known that was taken before it ended. One that is taken later names a visitor of
// whom nothing is kept, and stays as it is.

import type { Compliance, ComplianceRequest, OpenRequest } from './compliance.js';

export class DataRequests {
  readonly #compliance: Compliance;
  /** By id. */
  readonly #open = new Map<string, OpenRequest>();
  /** Ids by each name of a visitor that a request gives. */
  readonly #named = new Map<string, string[]>();
  /** Up to this number all are known. */
  #last: number;

  /**
   * @param last number of the last request, read before `open` was: a scan may miss what comes meanwhile
   * @param open all open requests
   */
  constructor(compliance: Compliance, last: number, open: readonly OpenRequest[]) {
    this.#compliance = compliance;
    this.#last = last;
    this.#add(open);
  }

  /** Takes the visitor of an erasure that was done out of all that were taken by now. @throws ServiceError `unavailable` */
  async forget(erasure: ComplianceRequest): Promise<void> {
    const last = await this.#compliance.lastNumber();
    this.#add(await this.#compliance.listNumbers(this.#last + 1, last));
    this.#last = last;
    const ids =
      erasure.kind === 'shop/redact'
        ? [...this.#open.keys()]
        : namesOf(erasure).flatMap((name) => this.#named.get(name) ?? []);
    for (const id of ids) {
      const open = this.#open.get(id);
      if (open === undefined) continue;
      await this.#compliance.settle(open, { ...open.request, customerId: null, email: null, erased: true });
      this.#open.delete(id);
    }
  }

  #add(requests: readonly OpenRequest[]): void {
    for (const one of requests) {
      const { kind, erased } = one.request;
      if (kind !== 'customers/data_request' || erased || this.#open.has(one.id)) continue;
      this.#open.set(one.id, one);
      for (const name of namesOf(one.request)) {
        const ids = this.#named.get(name);
        if (ids === undefined) this.#named.set(name, [one.id]);
        else ids.push(one.id);
      }
    }
  }
}

function namesOf({ customerId, email }: ComplianceRequest): string[] {
  return [...(customerId === null ? [] : [`c:${customerId}`]), ...(email === null ? [] : [`@${email}`])];
}
