// Requests that Shopify passes on to the shop: a visitor's data, a visitor's erasure, the shop's. They are taken once,
// however often a request is delivered, and stay open until they are done.
//
//   customers/data_request   until the merchant has answered it: `wishmeter requests done`
//   customers/redact,        ──erased from Redis──▶ waits for ClickHouse, with the profiles whose rows are still to go
//   shop/redact                                     ──all of them gone──▶ closed
//
// What is erased is erased by src/identity/compliance-worker.ts.

import { createHash } from 'node:crypto';
import { changeField, readHash } from '../redis/hash.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const TAKE = loadScript('compliance-take');

/** Shopify's topics. */
export const COMPLIANCE_KINDS = ['customers/data_request', 'customers/redact', 'shop/redact'] as const;
export type ComplianceKind = (typeof COMPLIANCE_KINDS)[number];

/** Seconds for which a delivery is known; Shopify repeats one for some hours. */
const REMEMBERED_S = 30 * 24 * 60 * 60;
/** Field with the last number that was given. */
const LAST = '#';

export interface ComplianceRequest {
  readonly kind: ComplianceKind;
  /** When it was taken, milliseconds since 1970. */
  readonly at: number;
  readonly shop: string | null;
  readonly customerId: string | null;
  /** Keyed digest of the e-mail address, see Emails. */
  readonly email: string | null;
  /** Orders that it names. */
  readonly orders: number;
  /** Shopify's number of a data request. */
  readonly dataRequestId: string | null;
  /** Of what is being erased: profiles that are gone from Redis or about to be; see EVERY_PROFILE. */
  readonly profiles?: readonly string[];
  /** Whether all of it is gone from Redis. Of a data request: the visitor was erased before it was answered. */
  readonly erased?: boolean;
}

export interface OpenRequest {
  readonly id: string;
  readonly request: ComplianceRequest;
  /** As it is kept, for `settle`. */
  readonly kept: string;
}

export class Compliance {
  readonly #store: Store;
  readonly #onUnreadable: (error: Error) => void;

  /** @param onUnreadable called for each open request that can't be read, whenever it is come upon: it is left out, and stays */
  constructor(store: Store, onUnreadable: (error: Error) => void) {
    this.#store = store;
    this.#onUnreadable = onUnreadable;
  }

  /**
   * @param deliveryId of the delivery, the same where it is repeated
   * @param request undefined where there is nothing to do
   * @returns false where the delivery was taken before @throws ServiceError `unavailable`
   */
  async take(deliveryId: string, request: ComplianceRequest | undefined): Promise<boolean> {
    const { compliance, complianceTaken } = this.#store.keys;
    const digest = createHash('sha256').update(deliveryId).digest('base64url');
    const args = [digest, REMEMBERED_S, request === undefined ? '' : JSON.stringify(request)];
    return (await this.#store.change(TAKE, [compliance, complianceTaken], args)) === 1;
  }

  /** Whether none is open. @throws ServiceError `unavailable` */
  async isEmpty(): Promise<boolean> {
    return (await this.#store.call((client) => client.hlen(this.#store.keys.compliance))) <= 1;
  }

  /** All that are open, oldest first. @throws ServiceError `unavailable` */
  async list(): Promise<OpenRequest[]> {
    const kept = await readHash(this.#store, this.#store.keys.compliance);
    return [...kept]
      .filter(([id]) => id !== LAST)
      .sort(([a], [b]) => Number(a) - Number(b))
      .flatMap(([id, text]) => this.#read(id, text));
  }

  /** @returns the request as it is now; undefined, and nothing was done, where it was changed meanwhile */
  async settle(open: OpenRequest, changed: ComplianceRequest | undefined): Promise<OpenRequest | undefined> {
    const kept = changed === undefined ? '' : JSON.stringify(changed);
    const { compliance } = this.#store.keys;
    const isSettled = (await changeField(this.#store, compliance, open.id, open.kept, kept)) === 1;
    return isSettled ? { ...open, request: changed ?? open.request, kept } : undefined;
  }

  /** @returns none where it can't be read */
  #read(id: string, kept: string): OpenRequest[] {
    try {
      return [{ id, request: JSON.parse(kept) as ComplianceRequest, kept }];
    } catch (error) {
      this.#onUnreadable(new Error(`The open request ${id} can't be read.`, { cause: error }));
      return [];
    }
  }
}
