// The bytes of an order webhook -> what was bought and by whom. Shopify drops subscribers that answer errors,
// so of an order only what makes it one is insisted on; everything else is taken where it is as it should be.

import { normaliseEmail } from '../identity/emails.js';
import {
  type Identity,
  isCustomerId,
  isId,
  isVisitorId,
  normaliseId,
  type ShopifyType,
} from '../identity-rules.js';
import type { Purchase, PurchasedLine } from '../wishlist/purchases.js';
import { orderBody } from './schemas.js';
import { type Fields, idOf, isFields, parseExactly } from './shopify.js';
import { compile } from './validator.js';

const checkOrder = compile<Fields & { id: number | string; line_items: unknown[] }>(orderBody);

/** The note attribute in which a shop's theme leaves the session of the visitor. */
const SESSION_ATTRIBUTE = 'wishlist_session_id';

/** @throws ServiceError `invalid_json`, `invalid_request` */
export function readOrder(bytes: Buffer): Purchase {
  const order = checkOrder(parseExactly(bytes));
  return {
    orderId: normaliseId(String(order.id)),
    identity: readBuyer(order),
    currency: readCurrency(order),
    lines: order.line_items.filter(isFields).map(readLine),
  };
}

function readBuyer(order: Fields): Identity | null {
  const { customer, note_attributes: attributes } = order;
  const customerId = isFields(customer) ? idOf(customer['id'], isCustomerId) : null;
  const sessionId = readSession(attributes);
  if (customerId === null && sessionId === null) return null;
  return {
    customerId,
    sessionId,
    device: null,
    locale: null,
    email: readEmail(order),
    firstName: null,
    lastName: null,
  };
}

function readEmail({ customer, email, contact_email: contact }: Fields): string | null {
  const given = [isFields(customer) ? customer['email'] : undefined, email, contact];
  return given.map(normaliseEmail).find((one) => one !== undefined) ?? null;
}

function readSession(attributes: unknown): string | null {
  if (!Array.isArray(attributes)) return null;
  const found = attributes.filter(isFields).find(({ name }) => name === SESSION_ATTRIBUTE);
  return idOf(found?.['value'], isVisitorId);
}

function readLine(line: Fields): PurchasedLine {
  const { quantity, price } = line;
  return {
    productId: readId('Product', line['product_id']),
    variantId: readId('ProductVariant', line['variant_id']),
    quantity: Number.isSafeInteger(quantity) && (quantity as number) >= 0 ? (quantity as number) : null,
    price: readPrice(price),
  };
}

/** Of the shop, in which the lines' prices are. */
function readCurrency({ currency }: Fields): string | null {
  return typeof currency === 'string' && /^[A-Za-z]{2,3}$/.test(currency) ? currency.toUpperCase() : null;
}

const MAX_PRICE_LENGTH = 32;

function readPrice(price: unknown): string | null {
  if (typeof price === 'number') return price.toFixed(2);
  return typeof price === 'string' && price.length <= MAX_PRICE_LENGTH ? price : null;
}

function readId(type: ShopifyType, value: unknown): string | null {
  return idOf(value, (text) => isId(type, text));
}
