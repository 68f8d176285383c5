// Stores the requests of compliance webhooks: for a visitor's data, a visitor's erasure, the shop's erasure. Each is stored once,
// however often Shopify sends it, and is open until it is done.
//
//   customers/data_request   until the merchant has answered it: `wishmeter requests done`
//   customers/redact,        ──erased from Redis──▶ waits for ClickHouse, with the profiles whose rows remain
//   shop/redact                                     ──all rows erased──▶ closed
//
// src/extras/privacy/compliance-worker.ts executes erasures.

import { createHash } from 'node:crypto';
import { changeField, readHash } from '../../redis/hash.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';

const TAKE = loadScript('extras/privacy/storeRequest');

/** Shopify's topics. */
export const COMPLIANCE_KINDS = ['customers/data_request', 'customers/redact', 'shop/redact'] as const;
export type ComplianceKind = (typeof COMPLIANCE_KINDS)[number];

/** Seconds for which a webhook's id is remembered; Shopify repeats a webhook for some hours. */
const REMEMBERED_S = 30 * 24 * 60 * 60;
/** Field with the last id. */
const LAST = '#';

export interface ComplianceRequest {
  readonly kind: ComplianceKind;
  /** Time of arrival, milliseconds since 1970. */
  readonly at: number;
  readonly shop: string | null;
  readonly customerId: string | null;
  /** Keyed digest of the e-mail address, see Emails. */
  readonly email: string | null;
  /** Number of named orders. */
  readonly orders: number;
  /** Shopify's number of a data request. */
  readonly dataRequestId: string | null;
  /** For an erasure: profiles that are, or will be, erased from Redis; see EVERY_PROFILE. */
  readonly profiles?: readonly string[];
  /** Everything is erased from Redis. For a data request: the visitor was erased before it was answered. */
  readonly erased?: boolean;
}

export interface OpenRequest {
  readonly id: string;
  readonly request: ComplianceRequest;
  /** The stored text, for the compare-and-set of `settle`. */
  readonly kept: string;
}

export class Compliance {
  readonly #store: Store;
  readonly #onUnreadable: (error: Error) => void;

  /** @param onUnreadable called at each reading of a request that can't be parsed: it is skipped, and stays */
  constructor(store: Store, onUnreadable: (error: Error) => void) {
    this.#store = store;
    this.#onUnreadable = onUnreadable;
  }

  /**
   * @param deliveryId id of the webhook, the same if it is repeated
   * @param request undefined if there is nothing to do
   * @returns false if the webhook was stored before @throws ServiceError `unavailable`
   */
  async take(deliveryId: string, request: ComplianceRequest | undefined): Promise<boolean> {
    const { compliance, complianceTaken } = this.#store.keys;
    const digest = createHash('sha256').update(deliveryId).digest('base64url');
    const args = [digest, REMEMBERED_S, request === undefined ? '' : JSON.stringify(request)];
    return (await this.#store.change(TAKE, [compliance, complianceTaken], args)) === 1;
  }

  /** True if no request is open. @throws ServiceError `unavailable` */
  async isEmpty(): Promise<boolean> {
    return (await this.#store.call((client) => client.hlen(this.#store.keys.compliance))) <= 1;
  }

  /** All open requests, oldest first. @throws ServiceError `unavailable` */
  async list(): Promise<OpenRequest[]> {
    const kept = await readHash(this.#store, this.#store.keys.compliance);
    return [...kept]
      .filter(([id]) => id !== LAST)
      .sort(([a], [b]) => Number(a) - Number(b))
      .flatMap(([id, text]) => this.#read(id, text));
  }

  /**
   * Changes or closes a request by compare-and-set.
   * @param changed undefined closes it
   * @returns the changed request; undefined if it has changed since it was read: then nothing was done
   */
  async settle(open: OpenRequest, changed: ComplianceRequest | undefined): Promise<OpenRequest | undefined> {
    const kept = changed === undefined ? '' : JSON.stringify(changed);
    const { compliance } = this.#store.keys;
    const isSettled =
      (await changeField(this.#store, {
        ...{ key: compliance, field: open.id, before: open.kept, after: kept },
      })) === 1;
    return isSettled ? { ...open, request: changed ?? open.request, kept } : undefined;
  }

  /** @returns an empty list if it can't be parsed */
  #read(id: string, kept: string): OpenRequest[] {
    try {
      return [{ id, request: JSON.parse(kept) as ComplianceRequest, kept }];
    } catch (error) {
      this.#onUnreadable(new Error(`The open request ${id} can't be read.`, { cause: error }));
      return [];
    }
  }
}
