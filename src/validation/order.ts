// The bytes of an order webhook -> what was bought and by whom. Shopify drops subscribers that answer errors,
// so of an order only what makes it one is insisted on; everything else is taken where it is as it should be.
//
// Ids come as JSON numbers, and Shopify's are 64-bit: its own test notification is about order
// 820982911946154508, which JSON.parse would round. Long numbers are read as text instead.

import {
  type Identity,
  isCustomerId,
  isId,
  isVisitorId,
  normaliseId,
  type ShopifyType,
} from '../identity/rules.js';
import type { Purchase, PurchasedLine } from '../wishlist/purchases.js';
import { parseJson } from './json.js';
import { orderBody } from './schemas.js';
import { compile } from './validator.js';

const checkOrder = compile<Fields & { id: number | string; line_items: unknown[] }>(orderBody);

/** The note attribute in which a shop's theme leaves the session of a guest. */
const SESSION_ATTRIBUTE = 'wishlist_session_id';

type Fields = Readonly<Record<string, unknown>>;

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

/** Numbers that JSON.parse may round, and the texts that may contain what looks like one. */
const LONG_INTEGER = /\d{16}/;
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function parseExactly(bytes: Buffer): unknown {
  const parsed = parseJson(bytes);
  const json = bytes.toString('utf8');
  if (!LONG_INTEGER.test(json)) return parsed;
  return JSON.parse(
    json.replace(TEXT_OR_NUMBER, (token) => (/^\d{16,}$/.test(token) ? `"${token}"` : token)),
  );
}

function readBuyer({ customer, note_attributes: attributes }: Fields): Identity | null {
  const customerId = isFields(customer) ? idOf(customer['id'], isCustomerId) : null;
  const sessionId = customerId === null ? readSession(attributes) : null;
  if (customerId === null && sessionId === null) return null;
  return {
    customerId,
    sessionId,
    device: null,
    locale: null,
    email: null,
    firstName: null,
    lastName: null,
  };
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

function idOf(value: unknown, isRight: (text: string) => boolean): string | null {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && isRight(text) ? normaliseId(text) : null;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
