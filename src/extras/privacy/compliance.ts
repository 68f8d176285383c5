// Stores each request of a compliance webhook once. A data request stays open until `wishmeter requests done`, an
// erasure until ClickHouse has none of the visitor's rows. A shop's erasure takes everything, so an operator confirms it
// first.

import { createHash } from 'node:crypto';
import { changeField, readHash } from '../../redis/hash.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';
import { complianceKeys } from './keys.js';

const TAKE = loadScript('extras/privacy/storeRequest');

export const COMPLIANCE_KINDS = ['customers/data_request', 'customers/redact', 'shop/redact'] as const;
export type ComplianceKind = (typeof COMPLIANCE_KINDS)[number];

/** Seconds that a webhook is remembered; Shopify repeats one for hours. */
const REMEMBERED_S = 7 * 24 * 60 * 60;
/** The hash's field with the newest request id. */
const LAST = '#';

export interface ComplianceRequest {
  readonly kind: ComplianceKind;
  /** When the webhook arrived, in milliseconds since 1970. */
  readonly at: number;
  readonly shop: string | null;
  readonly customerId: string | null;
  /** Keyed digest of the e-mail address; see Emails. */
  readonly email: string | null;
  readonly orders: number;
  readonly dataRequestId: string | null;
  /** When the operator confirmed a shop's erasure, in milliseconds since 1970. */
  readonly confirmedAt?: number;
  /** Profiles that the erasure has erased or will erase. May be EVERY_PROFILE. */
  readonly profiles?: readonly string[];
  /** True if the visitor is erased from Redis. */
  readonly erased?: boolean;
}

export interface OpenRequest {
  readonly id: string;
  readonly request: ComplianceRequest;
  /** The stored text, for the compare-and-set. */
  readonly kept: string;
}

export function isDataRequest({ kind }: ComplianceRequest): boolean {
  return kind === 'customers/data_request';
}

export function isUnconfirmed({ kind, confirmedAt }: ComplianceRequest): boolean {
  return kind === 'shop/redact' && confirmedAt === undefined;
}

export class Compliance {
  readonly #keys: ReturnType<typeof complianceKeys>;

  /** @param onUnreadable called for a request that can't be parsed, which is skipped but stays stored */
  constructor(
    private readonly store: Store,
    private readonly onUnreadable: (error: Error) => void,
  ) {
    this.#keys = complianceKeys(store.keys);
  }

  /** @param delivery the same only for repeats of one webhook @param request undefined if there is nothing to do */
  async take(delivery: string, request: ComplianceRequest | undefined): Promise<void> {
    const { compliance, complianceTaken } = this.#keys;
    const digest = createHash('sha256').update(delivery).digest('base64url');
    const args = [digest, REMEMBERED_S, request === undefined ? '' : JSON.stringify(request)];
    await this.store.change(TAKE, [compliance, complianceTaken], args);
  }

  async isEmpty(): Promise<boolean> {
    return (await this.store.call((client) => client.hlen(this.#keys.compliance))) <= 1;
  }

  /** Oldest first. */
  async list(): Promise<OpenRequest[]> {
    const kept = await readHash(this.store, this.#keys.compliance);
    return [...kept]
      .filter(([id]) => id !== LAST)
      .sort(([a], [b]) => Number(a) - Number(b))
      .flatMap(([id, text]) => this.#read(id, text));
  }

  /** @param changed undefined to close the request @returns undefined if `open` is outdated */
  async update(open: OpenRequest, changed: ComplianceRequest | undefined): Promise<OpenRequest | undefined> {
    const kept = changed === undefined ? '' : JSON.stringify(changed);
    const isUpdated =
      (await changeField(this.store, {
        key: this.#keys.compliance,
        field: open.id,
        before: open.kept,
        after: kept,
      })) === 1;
    return isUpdated ? { ...open, request: changed ?? open.request, kept } : undefined;
  }

  #read(id: string, kept: string): OpenRequest[] {
    try {
      return [{ id, request: JSON.parse(kept) as ComplianceRequest, kept }];
    } catch (error) {
      this.onUnreadable(new Error(`The open request ${id} can't be read.`, { cause: error }));
      return [];
    }
  }
}
