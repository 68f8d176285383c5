// Parses order webhooks. A shop's own server gets 400 with all faults. Shopify unsubscribes endpoints that fail, so
// wrong parts of its orders are skipped and reported. Amounts are in the shop's currency, not `presentment_money`.
// https://shopify.dev/docs/api/admin-rest/latest/resources/order

import { type Issue, ServiceError } from '../errors.js';
import { fitsColumn, inCents, MAX_AMOUNT, parseAmount } from '../events/amount.js';
import type { OrderHead, OrderLine } from '../events/row.js';
import {
  fitsBytes,
  type Identity,
  isPlainText,
  isVisitorId,
  normaliseEmail,
  normaliseId,
} from '../identity-rules.js';
import { orderBody } from '../validation/order-schema.js';
import { type Fields, idOf, isFields, parseExactly } from '../validation/shopify.js';
import { EMPTY_BODY, issueFinder } from '../validation/validator.js';

interface GivenOrder extends Fields {
  readonly id: number | string;
  readonly currency?: string | null;
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
/** Only amounts need it, and an order that is taken back has none. */
const CURRENCY = '/currency';
const LINE = /^\/line_items\/(\d+)/;
const MAX_NAME_BYTES = 255;
const TOO_MUCH = `must be at most ${MAX_AMOUNT}`;
const NO_CURRENCY: Issue = {
  in: 'body',
  path: CURRENCY,
  message: 'is required, because SHOP_CURRENCY is not set',
};

const COUNTS: readonly unknown[] = ['paid', 'partially_paid', 'partially_refunded'];
const TAKEN_BACK = ['voided', 'refunded'] as const;

/** `invalid`: an essential field is wrong, or nothing is left of its lines. */
export type OrderState = 'bought' | 'unpaid' | 'invalid' | 'cancelled' | (typeof TAKEN_BACK)[number];

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

export interface ReadOptions {
  /** True to throw at any fault. */
  readonly isTrusted: boolean;
  /** Assumed if the order has no financial status. */
  readonly isPaid: boolean;
  readonly now: number;
  /** Of an order that names none; '' if it is not set. */
  readonly shopCurrency: string;
}

/** A line with its index in the order. */
type Indexed = readonly [index: number, line: GivenLine];

/** @throws ServiceError `invalid_json`, `invalid_request` */
export function readOrder(bytes: Buffer, options: ReadOptions): ReadOrder {
  const parsed = parseExactly(bytes);
  const wrong = findIssues(parsed);
  const given = withoutFaults(parsed, wrong);
  const currency = given?.currency ?? options.shopCurrency;
  const unnamed = given !== undefined && currency === '' && !wrong.some(({ path }) => path === CURRENCY);
  const found = unnamed ? [...wrong, NO_CURRENCY] : wrong;
  const lines = given === undefined ? [] : linesWithout(given, found);
  const stated = given === undefined ? 'invalid' : stateOf(given, options.isPaid);
  const isEssential = found.some(
    ({ path }) => ESSENTIAL.test(path) && (path !== CURRENCY || stated === 'bought'),
  );
  const state = isEssential ? 'invalid' : stated;
  const read = readLines(lines, state === 'bought', options.isTrusted);
  const issues = [...found, ...read.issues];
  if (options.isTrusted && issues.length > 0)
    throw new ServiceError('invalid_request', parsed === undefined ? EMPTY_BODY : undefined, issues);
  if (given === undefined) return { order: undefined, issues };
  // A cancellation counts, whatever its lines say: those of a product that was deleted name none.
  const isEmpty = state === 'bought' && read.lines.length === 0 && issues.length > 0;
  const order = orderOf(given, isEmpty ? 'invalid' : state, options.now);
  return { order: { ...order, currency: currency.toUpperCase(), lines: read.lines }, issues };
}

/** Drops wrong fields, but those of lines. @returns undefined if the order can't be named */
function withoutFaults(parsed: unknown, issues: readonly Issue[]): GivenOrder | undefined {
  const fields = new Set(issues.map(({ path }) => path.split('/', 2)[1] ?? ''));
  if (!isFields(parsed) || fields.has('') || fields.has('id')) return undefined;
  fields.delete('line_items');
  return Object.fromEntries(Object.entries(parsed).filter(([name]) => !fields.has(name))) as GivenOrder;
}

function linesWithout({ line_items: lines }: GivenOrder, issues: readonly Issue[]): Indexed[] {
  if (issues.some(({ path }) => ESSENTIAL.test(path))) return [];
  const wrong = new Set(issues.map(({ path }) => LINE.exec(path)?.[1]));
  return [...lines.entries()].filter(([i]) => !wrong.has(String(i)));
}

function orderOf(given: GivenOrder, state: OrderState, now: number): Omit<Order, 'currency' | 'lines'> {
  const updatedAt = timeOf(given.updated_at, now);
  return {
    state,
    orderId: normaliseId(String(given.id)),
    identity: buyerOf(given),
    occurredAt: timeOf(given.processed_at, now) ?? timeOf(given.created_at, now) ?? 0,
    updatedAt: updatedAt ?? now,
    isVersioned: updatedAt !== undefined,
    version: versionOf(updatedAt ?? now, state, given.financial_status),
    isTest: given.test === true,
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

/** A line without a name of its own is named by its index, also if a line before it is left out. */
function readLines(
  given: readonly Indexed[],
  isBought: boolean,
  isTrusted: boolean,
): { readonly lines: readonly OrderLine[]; readonly issues: readonly Issue[] } {
  const names = new Set<string>();
  const lines: OrderLine[] = [];
  const issues: Issue[] = [];
  for (const [i, line] of given) {
    const own = nameOf(line);
    const name = own === '' || names.has(own) ? `#${i}` : own;
    names.add(name);
    const sums = sumsOf(line, isBought);
    const fault = faultOf(line, sums, isTrusted);
    if (fault === undefined) lines.push(lineOf(name, line, sums));
    else issues.push({ in: 'body', message: fault.message, path: `/line_items/${i}/${fault.path}` });
  }
  return { lines, issues };
}

function lineOf(name: string, line: GivenLine, { quantity, price, discount, amount }: Sums): OrderLine {
  const { product_id: productId, variant_id: variantId } = line;
  return {
    name,
    productId: normaliseId(String(productId)),
    variantId: variantId === null || variantId === undefined ? null : normaliseId(String(variantId)),
    quantity,
    price: inCents(price),
    discount: inCents(discount),
    amount: inCents(amount),
  };
}

function nameOf({ id }: GivenLine): string {
  const name = id === null || id === undefined ? '' : normaliseId(String(id));
  return fitsBytes(name, MAX_NAME_BYTES) && isPlainText(name) ? name : '';
}

interface Sums {
  readonly quantity: number;
  readonly price: bigint;
  readonly discount: bigint;
  readonly amount: bigint;
}

function sumsOf(line: GivenLine, isBought: boolean): Sums {
  const price = amountOf(line.price);
  const ordered = orderedOf(line);
  const quantity = isBought ? Number(line.current_quantity ?? ordered) : 0;
  const whole = discountOf(line);
  const discount = ordered === 0 ? whole : (whole * BigInt(Math.min(quantity, ordered))) / BigInt(ordered);
  const paid = price * BigInt(quantity) - discount;
  return { quantity, price, discount, amount: paid > 0n ? paid : 0n };
}

const orderedOf = ({ quantity }: GivenLine): number => Number(quantity ?? 1);

function discountOf({ discount_allocations: allocated, total_discount: total }: GivenLine): bigint {
  if (!allocated?.length) return amountOf(total ?? 0);
  return allocated.reduce((sum, { amount }) => sum + amountOf(amount), 0n);
}

/** @returns a path within the line; undefined if the line is right */
function faultOf(
  line: GivenLine,
  { price, discount, amount }: Sums,
  isTrusted: boolean,
): Omit<Issue, 'in'> | undefined {
  const discounted = line.discount_allocations?.length ? 'discount_allocations' : 'total_discount';
  if (!fitsColumn(price)) return { path: 'price', message: TOO_MUCH };
  if (!fitsColumn(discount)) return { path: discounted, message: TOO_MUCH };
  if (!fitsColumn(amount)) return { path: 'price', message: `${TOO_MUCH} with its quantity` };
  if (isTrusted && discountOf(line) > amountOf(line.price) * BigInt(orderedOf(line)))
    return { path: discounted, message: 'must be at most price × quantity' };
  return undefined;
}

/** The schema refuses what is no amount. */
function amountOf(given: number | string): bigint {
  return parseAmount(typeof given === 'number' ? given.toFixed(2) : given) as bigint;
}
