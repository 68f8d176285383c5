// The bytes of an order webhook -> what was bought and by whom. Shopify drops subscribers that answer errors,
// so of an order only what makes it one is insisted on, and quantities, which no figure could do without; everything else
// is taken where it is as it should be.
//
// Amounts are in the currency of the shop: Shopify has those in which the buyer paid in fields of their own
// (`presentment_money`). https://shopify.dev/docs/api/admin-rest/latest/resources/order

import { type Issue, ServiceError } from '../errors.js';
import type { OrderLine } from '../events/row.js';
import { normaliseEmail } from '../identity/emails.js';
import {
  type Identity,
  isCustomerId,
  isId,
  isVisitorId,
  normaliseId,
  type ShopifyType,
} from '../identity-rules.js';
import type { Purchase } from '../wishlist/purchases.js';
import { orderBody } from './schemas.js';
import { type Fields, idOf, isFields, parseExactly } from './shopify.js';
import { compile } from './validator.js';

const checkOrder = compile<Fields & { id: number | string; line_items: unknown[] }>(orderBody);

/** The note attribute in which a shop's theme leaves the session of the visitor. */
const SESSION_ATTRIBUTE = 'wishlist_session_id';

/** Why an order is left out: it was taken back before it came. */
export type OrderState = 'cancelled' | 'voided' | 'refunded';

/** @returns a state where the order is left out @throws ServiceError `invalid_json`, `invalid_request` */
export function readOrder(bytes: Buffer): Purchase | OrderState {
  const order = checkOrder(parseExactly(bytes));
  const { cancelled_at: cancelledAt, financial_status: status } = order;
  if (cancelledAt !== undefined && cancelledAt !== null && cancelledAt !== '') return 'cancelled';
  if (status === 'voided' || status === 'refunded') return status;
  return {
    orderId: normaliseId(String(order.id)),
    identity: readBuyer(order),
    currency: readCurrency(order),
    isTest: order['test'] === true,
    lines: readLines(order.line_items),
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

/** Without those of which nothing was bought, or nothing is left. @throws ServiceError `invalid_request` */
function readLines(given: readonly unknown[]): OrderLine[] {
  const lines: OrderLine[] = [];
  const issues: Issue[] = [];
  for (const [i, line] of given.entries()) {
    if (!isFields(line)) continue;
    const name = isThere(line['current_quantity']) ? 'current_quantity' : 'quantity';
    const quantity = readQuantity(line[name]);
    if (quantity === undefined)
      issues.push({
        path: `/line_items/${i}/${name}`,
        message: `must be a whole number from 0 to ${MAX_QUANTITY}`,
      });
    else if (quantity > 0) lines.push(readLine(line, quantity));
  }
  if (issues.length > 0) throw new ServiceError('invalid_request', undefined, issues);
  return lines;
}

function readLine(line: Fields, quantity: number): OrderLine {
  return {
    productId: readId('Product', line['product_id']),
    variantId: readId('ProductVariant', line['variant_id']),
    quantity,
    price: readAmount(line['price']),
    discounts: readDiscounts(line),
  };
}

/** What a column of quantities takes. */
const MAX_QUANTITY = 0xffff_ffff;

/** One where it is left out. @returns undefined where it is none */
function readQuantity(given: unknown): number | undefined {
  if (!isThere(given)) return 1;
  const quantity = typeof given === 'string' && /^\d{1,10}$/.test(given) ? Number(given) : given;
  if (typeof quantity !== 'number' || !Number.isInteger(quantity)) return undefined;
  return quantity >= 0 && quantity <= MAX_QUANTITY ? quantity : undefined;
}

/** What was allocated to a line has discounts of the whole order in it; `total_discount` has only those of the line. */
function readDiscounts({ discount_allocations: allocated, total_discount: total }: Fields): string[] {
  const amounts =
    Array.isArray(allocated) && allocated.length > 0
      ? allocated.filter(isFields).map(({ amount }) => amount)
      : [total];
  return amounts.map(readAmount).filter((amount) => amount !== null);
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Of the shop, in which the lines' prices are. */
function readCurrency({ currency }: Fields): string | null {
  return typeof currency === 'string' && /^[A-Za-z]{2,3}$/.test(currency) ? currency.toUpperCase() : null;
}

const MAX_AMOUNT_LENGTH = 32;

function readAmount(amount: unknown): string | null {
  if (typeof amount === 'number') return amount.toFixed(2);
  return typeof amount === 'string' && amount.length <= MAX_AMOUNT_LENGTH ? amount : null;
}

function readId(type: ShopifyType, value: unknown): string | null {
  return idOf(value, (text) => isId(type, text));
}
