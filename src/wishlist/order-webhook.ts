// Parses order webhooks. A shop's own server gets 400 with all faults. Shopify unsubscribes endpoints that fail, so
// wrong parts of its orders are skipped and reported. Amounts are in the shop's currency, not `presentment_money`.
// https://shopify.dev/docs/api/admin-rest/latest/resources/order

import { type Issue, ServiceError } from '../errors.js';
import { inCents, parseAmount } from '../events/amount.js';
import type { OrderHead, OrderLine } from '../events/row.js';
import { fitsBytes, type Identity, isPlainText, isVisitorId, normaliseId } from '../identity-rules.js';
import { normaliseEmail } from '../profiles/emails.js';
import { orderBody } from '../validation/order-schema.js';
import { type Fields, idOf, isFields, parseExactly } from '../validation/shopify.js';
import { EMPTY_BODY, issueFinder } from '../validation/validator.js';

interface GivenOrder extends Fields {
  readonly id: number | string;
  readonly currency: string;
  readonly line_items: readonly GivenLine[];
  readonly financial_status?: string | null;
  readonly cancelled_at?: string | null;
  readonly processed_at?: string | null;
  readonly created_at?: string | null;
  readonly updated_at?: string | null;
  readonly test?: boolean | null;
  readonly customer?: { readonly id?: number | string | null; readonly email?: unknown } | null;
  readonly note_attributes?: readonly unknown[] | null;
}

interface GivenLine {
  readonly id?: number | string | null;
  readonly product_id: number | string;
  readonly variant_id?: number | string | null;
  readonly quantity?: number | string | null;
  readonly current_quantity?: number | string | null;
  readonly price: number | string;
  readonly discount_allocations?: readonly { readonly amount: number | string }[] | null;
  readonly total_discount?: number | string | null;
}

const findIssues = issueFinder(orderBody);

const SESSION_ATTRIBUTE = 'wishlist_session_id';
const ESSENTIAL = /^\/(id|currency|financial_status|test|line_items)?$/;
const LINE = /^\/line_items\/(\d+)/;
const MAX_NAME_BYTES = 255;
const NOTHING = '0.00';

const COUNTS: readonly unknown[] = ['paid', 'partially_paid', 'partially_refunded'];
const TAKEN_BACK = ['voided', 'refunded'] as const;

export type OrderState = 'bought' | 'unpaid' | 'cancelled' | (typeof TAKEN_BACK)[number];

/** `occurredAt` is 0 if it is unknown. */
export interface Order extends OrderHead {
  readonly state: OrderState;
  readonly identity: Identity | null;
  readonly lines: readonly OrderLine[];
}

export interface ReadOrder {
  readonly order: Order | undefined;
  readonly issues: readonly Issue[];
}

/**
 * @param isTrusted true to throw at any fault @param isPaid assumed if the order has no financial status
 * @throws ServiceError `invalid_json`, `invalid_request`
 */
export function readOrder(bytes: Buffer, isTrusted: boolean, isPaid: boolean, now: number): ReadOrder {
  const parsed = parseExactly(bytes);
  const issues = findIssues(parsed);
  const given = withoutFaults(parsed, issues);
  const order = given && orderOf(given, isPaid, now);
  if (!isTrusted) return { order, issues };
  const all = [...issues, ...(given === undefined ? [] : discountIssues(given))];
  const sentence = parsed === undefined ? EMPTY_BODY : undefined;
  if (all.length > 0) throw new ServiceError('invalid_request', sentence, all);
  return { order, issues };
}

function withoutFaults(parsed: unknown, issues: readonly Issue[]): GivenOrder | undefined {
  const paths = issues.map(({ path }) => path);
  if (!isFields(parsed) || paths.some((path) => ESSENTIAL.test(path))) return undefined;
  const lines = new Set(paths.map((path) => LINE.exec(path)?.[1]));
  const fields = new Set(paths.map((path) => path.split('/', 2)[1]).filter((name) => name !== 'line_items'));
  const given = Object.fromEntries(
    Object.entries(parsed).filter(([name]) => !fields.has(name)),
  ) as GivenOrder;
  return { ...given, line_items: given.line_items.filter((_, i) => !lines.has(String(i))) };
}

function orderOf(given: GivenOrder, isPaid: boolean, now: number): Order {
  const state = stateOf(given, isPaid);
  const updatedAt = timeOf(given.updated_at, now);
  return {
    state,
    orderId: normaliseId(String(given.id)),
    identity: buyerOf(given),
    occurredAt: timeOf(given.processed_at, now) ?? timeOf(given.created_at, now) ?? 0,
    updatedAt: updatedAt ?? now,
    isVersioned: updatedAt !== undefined,
    version: versionOf(updatedAt ?? now, state, given.financial_status),
    currency: given.currency.toUpperCase(),
    isTest: given.test === true,
    lines: linesOf(given.line_items, state === 'bought'),
  };
}

function stateOf(
  { cancelled_at: cancelledAt, financial_status: status }: GivenOrder,
  isPaid: boolean,
): OrderState {
  if (typeof cancelledAt === 'string') return 'cancelled';
  const takenBack = TAKEN_BACK.find((one) => one === status);
  if (takenBack !== undefined) return takenBack;
  return COUNTS.includes(status) || (isPaid && typeof status !== 'string') ? 'bought' : 'unpaid';
}

/** Within a second, Shopify's unit, the later state in an order's life has the greater version. */
function versionOf(updatedAt: number, state: OrderState, status: unknown): number {
  if (state !== 'bought') return updatedAt * 4 + 2;
  return updatedAt * 4 + (status === 'partially_refunded' ? 1 : 0);
}

function timeOf(text: string | null | undefined, now: number): number | undefined {
  return typeof text === 'string' ? Math.min(Date.parse(text), now) : undefined;
}

function buyerOf({
  customer,
  note_attributes: notes,
  email,
  contact_email: contact,
}: GivenOrder): Identity | null {
  const given = customer?.id;
  const customerId = given === null || given === undefined ? null : normaliseId(String(given));
  const note = notes?.filter(isFields).find(({ name }) => name === SESSION_ATTRIBUTE);
  const sessionId = idOf(note?.['value'], isVisitorId);
  if (customerId === null && sessionId === null) return null;
  const address = [customer?.email, email, contact].map(normaliseEmail).find((one) => one !== undefined);
  return {
    customerId,
    sessionId,
    device: null,
    locale: null,
    email: address ?? null,
    firstName: null,
    lastName: null,
  };
}

function linesOf(given: readonly GivenLine[], isBought: boolean): OrderLine[] {
  const names = new Set<string>();
  return given.map((line, i) => {
    const own = nameOf(line);
    const name = own === '' || names.has(own) ? `#${i}` : own;
    names.add(name);
    const { product_id: productId, variant_id: variantId } = line;
    return {
      name,
      productId: normaliseId(String(productId)),
      variantId: variantId === null || variantId === undefined ? null : normaliseId(String(variantId)),
      ...leftOf(line, isBought),
    };
  });
}

function nameOf({ id }: GivenLine): string {
  const name = id === null || id === undefined ? '' : normaliseId(String(id));
  return fitsBytes(name, MAX_NAME_BYTES) && isPlainText(name) ? name : '';
}

function leftOf(
  line: GivenLine,
  isBought: boolean,
): Pick<OrderLine, 'quantity' | 'price' | 'discount' | 'amount'> {
  const price = amountOf(line.price);
  const ordered = orderedOf(line);
  const quantity = isBought ? Number(line.current_quantity ?? ordered) : 0;
  const whole = discountOf(line);
  const discount = ordered === 0 ? whole : (whole * BigInt(Math.min(quantity, ordered))) / BigInt(ordered);
  const paid = price * BigInt(quantity) - discount;
  return {
    quantity,
    price: centsOf(price),
    discount: centsOf(discount) ?? NOTHING,
    amount: paid > 0n ? centsOf(paid) : NOTHING,
  };
}

const orderedOf = ({ quantity }: GivenLine): number => Number(quantity ?? 1);

function discountOf({ discount_allocations: allocated, total_discount: total }: GivenLine): bigint {
  if (!allocated?.length) return amountOf(total ?? 0);
  return allocated.reduce((sum, { amount }) => sum + amountOf(amount), 0n);
}

function discountIssues({ line_items: lines }: GivenOrder): Issue[] {
  return lines.flatMap((line, i) => {
    if (discountOf(line) <= amountOf(line.price) * BigInt(orderedOf(line))) return [];
    const field = line.discount_allocations?.length ? 'discount_allocations' : 'total_discount';
    const path = `/line_items/${i}/${field}`;
    return [{ in: 'body', path, message: 'must be at most price × quantity' }];
  });
}

function amountOf(given: number | string): bigint {
  return parseAmount(typeof given === 'number' ? given.toFixed(2) : given) ?? 0n;
}

const FITS = /^\d{1,16}\./;

function centsOf(amount: bigint): string | null {
  const text = inCents(amount);
  return FITS.test(text) ? text : null;
}
