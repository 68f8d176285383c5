// Parses compliance webhooks. https://shopify.dev/docs/apps/build/compliance/privacy-law-compliance
//
// Accepts any object, because Shopify repeats a webhook until it is answered 200.

import { isCustomerId } from '../../identity-rules.js';
import { type Fields, idOf, isFields, parseExactly } from '../../validation/shopify.js';
import { compile } from '../../validation/validator.js';

export const complianceBody = { type: 'object', additionalProperties: true, properties: {} } as const;

const checkDelivery = compile<Fields>(complianceBody);

export interface ComplianceDelivery {
  readonly shop: string | null;
  readonly customerId: string | null;
  /** As sent, of any type. */
  readonly email: unknown;
  readonly orders: number;
  readonly dataRequestId: string | null;
}

const MAX_SHOP = 255;

/** @throws ServiceError `invalid_json`, `invalid_request` */
export function readCompliance(bytes: Buffer): ComplianceDelivery {
  const {
    shop_domain: shop,
    customer,
    orders_requested: requested,
    orders_to_redact: toRedact,
    data_request: dataRequest,
  } = checkDelivery(parseExactly(bytes));
  const orders = requested ?? toRedact;
  return {
    shop: typeof shop === 'string' ? shop.slice(0, MAX_SHOP) : null,
    customerId: isFields(customer) ? idOf(customer['id'], isCustomerId) : null,
    email: isFields(customer) ? customer['email'] : undefined,
    orders: Array.isArray(orders) ? orders.length : 0,
    dataRequestId: isFields(dataRequest) ? idOf(dataRequest['id'], (id) => /^\d{1,20}$/.test(id)) : null,
  };
}
