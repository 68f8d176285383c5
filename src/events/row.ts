// Encodes rows as JSONEachRow lines for ClickHouse, without empty columns, to save Redis's memory.

import type { PayloadColumn } from '../clickhouse/columns.js';
import { type Identity, normaliseId } from '../identity-rules.js';
import { knownWord } from '../known-words.js';
import { eventIdOfName, newEventId } from './event-id.js';

export interface NewEvent {
  readonly type: string;
  /** Operation that recorded the event: `event`, `item`, `share`, `purchase`, or a name of an extra's. */
  readonly origin: string;
  readonly profileId: string;
  readonly identity: Identity;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly payloadJson?: string | undefined;
  /** If true, `source` and `channel` stay as sent; see known-words.ts. */
  readonly isFromServer?: boolean | undefined;
  /** True if sent with a publishable key: its product data counts only if there is no other. */
  readonly isFromBrowser?: boolean | undefined;
  /** The UUID v7 of an event that may be recorded again. */
  readonly id?: string | undefined;
  readonly at?: number | undefined;
}

const MAX_UINT32 = 0xffff_ffff;
const DECIMAL = /^-?\d{1,16}(\.\d{1,2})?$/;

// Columns drop control characters and the payload escapes them, because a terminal would interpret them.
// JSON.stringify escapes only C0, not DEL and C1.
// biome-ignore lint/suspicious/noControlCharactersInRegex: it matches control characters on purpose
const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/g;
const UNESCAPED_CONTROLS = /[\u007f-\u009f]/g;
/** Printable ASCII without JSON escapes needs one check instead of three. */
const PLAIN = /^[ !#-[\]-~]*$/;

function withoutControls(text: string): string {
  return text.replace(CONTROLS, '');
}

// ClickHouse's JSONExtract reads nothing from a document with a lone surrogate, or an integer beyond Int64 and UInt64.
// JSON.stringify writes up to 21 digits.
const ODD = /[\u007f-\u009f]|\\ud[89a-f]|(?<!\d)\d{19}/;
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs;
const ESCAPE = /\\(?:ud[89a-f]..|.)/gs;

export function payloadText(json: string): string {
  if (!ODD.test(json)) return json;
  const readable = json.replace(TEXT_OR_NUMBER, readableToken);
  return readable.replace(UNESCAPED_CONTROLS, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);
}

function readableToken(token: string): string {
  if (token.startsWith('"'))
    return token.replace(ESCAPE, (found) => (found.startsWith('\\ud') ? '\ufffd' : found));
  const number = Number(token);
  const fits = !/^-?\d+$/.test(token) || (number > -(2 ** 63) && number < 2 ** 64);
  return fits ? token : `"${token}"`;
}

/** Drops control characters. Replaces lone surrogates by U+FFFD, because ClickHouse would refuse the row. */
export function columnText(value: unknown): string {
  if (typeof value !== 'string') return '';
  return PLAIN.test(value) ? value : withoutControls(value.toWellFormed());
}

function id(value: unknown): string {
  return Number.isSafeInteger(value) ? String(value) : normaliseId(columnText(value));
}

export function field(name: string, value: unknown): string {
  if (typeof value !== 'string' || value === '') return '';
  if (PLAIN.test(value)) return `,"${name}":"${value}"`;
  const text = columnText(value);
  return text === '' ? '' : `,"${name}":${JSON.stringify(text)}`;
}

function word(name: 'source' | 'channel', value: unknown, isFromServer = false): string {
  return field(name, isFromServer || typeof value !== 'string' ? value : knownWord(name, value));
}

function decimal(name: string, value: unknown): string {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && DECIMAL.test(text) ? `,"${name}":"${text}"` : '';
}

const CURRENCY = /^[A-Za-z]{2,3}$/;

function currency(value: unknown): string {
  return typeof value === 'string' && CURRENCY.test(value) ? `,"currency":"${value.toUpperCase()}"` : '';
}

function uint32(name: string, value: unknown): string {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_UINT32
    ? `,"${name}":${value}`
    : '';
}

function boolean(name: string, value: unknown): string {
  return typeof value === 'boolean' ? `,"${name}":${value}` : '';
}

export function eventTypeOf(line: string): string {
  return line.slice(59, line.indexOf('"', 59));
}

/** No payload matches, because its quotes are escaped. */
export function hasOrigin(line: string, origin: string): boolean {
  return line.includes(`,"origin":"${origin}"`);
}

export function beginEvent({
  type,
  origin,
  profileId,
  identity,
  id: eventId,
  at,
}: Omit<NewEvent, 'payload' | 'payloadJson'> & {
  readonly id: string;
  readonly at: number;
}): string {
  return (
    `{"event_id":"${eventId}","type":${JSON.stringify(type)},"occurred_at":${at},` +
    `"profile_id":"${profileId}","origin":"${origin}"` +
    field('customer_id', identity.customerId) +
    field('session_id', identity.sessionId) +
    field('device', identity.device) +
    field('locale', identity.locale)
  );
}

/** Returns a line with its newline. If a payload field has a wrong type, its column is empty. */
export function encodeEvent(event: NewEvent): string {
  const { payload, at = Date.now() } = event;
  const payloadJson = payloadText(event.payloadJson ?? JSON.stringify(payload));
  const { type, origin, profileId, identity, id: eventId = newEventId(at) } = event;
  const columns: Readonly<Record<PayloadColumn, string>> = {
    product_id: field('product_id', id(payload['productId'])),
    variant_id: field('variant_id', id(payload['variantId'])),
    product_handle: field('product_handle', payload['productHandle']),
    source: word('source', payload['source'], event.isFromServer),
    channel: word('channel', payload['channel'], event.isFromServer),
    share_code: field('share_code', payload['shareCode']),
    currency: currency(payload['currencyCode']),
    inventory_available: boolean('inventory_available', payload['inventoryAvailable']),
    quantity: uint32('quantity', payload['quantity']),
    price: decimal('price', payload['price']),
    compare_at: decimal('compare_at', payload['compareAt']),
  };
  let line = beginEvent({ type, origin, profileId, identity, id: eventId, at });
  for (const name in columns) line += columns[name as PayloadColumn];
  if (event.isFromBrowser) line += ',"from_browser":true';
  return `${line},"payload":${JSON.stringify(payloadJson)}}\n`;
}

export interface OrderLine {
  readonly name: string;
  readonly productId: string;
  readonly variantId: string | null;
  /** Pieces that remain after refunds. */
  readonly quantity: number;
  /** The price of one piece; `discount` and `amount` are for all pieces. Each has two decimals. */
  readonly price: string | null;
  readonly discount: string;
  readonly amount: string | null;
}

export interface OrderHead {
  readonly orderId: string;
  readonly occurredAt: number;
  readonly updatedAt: number;
  /** True if `updatedAt` is from the order, and so distinguishes its states. */
  readonly isVersioned: boolean;
  /** The row with the greatest version counts. */
  readonly version: number;
  readonly currency: string;
  readonly isTest: boolean;
}

/** The same state of an order has the same event_id. @param at when the order arrived */
export function encodeOrderLine(
  at: number,
  { profileId, identity }: { readonly profileId: string; readonly identity: Identity },
  order: OrderHead,
  line: OrderLine | undefined,
): string {
  const { orderId, occurredAt, updatedAt, isVersioned, version, currency: currencyCode, isTest } = order;
  const { name = '', productId = '', variantId, quantity = 0, price = null } = line ?? {};
  const { discount = '0.00', amount = null } = line ?? {};
  const stated = {
    orderId,
    productId: columnText(productId),
    variantId: columnText(variantId),
    quantity,
    price,
    discount,
    amount,
    currency: currencyCode,
    test: isTest,
  };
  const content = JSON.stringify([name, stated, isVersioned ? updatedAt : '']);
  const occurred = new Date(occurredAt).toISOString();
  const payload = { occurredAt: occurred, updatedAt: new Date(updatedAt).toISOString(), ...stated };
  return (
    beginEvent({
      type: line === undefined ? 'order' : 'purchase',
      origin: 'order',
      profileId,
      identity,
      id: eventIdOfName(occurredAt, content),
      at,
    }) +
    field('order_id', orderId) +
    `,"payload":${JSON.stringify(payloadText(JSON.stringify({ ...payload, line: name, version })))}}\n`
  );
}

export const SHARE_OPEN = 'shareOpen';

export function encodeShareOpen(profileId: string, shareCode: string, at = Date.now()): string {
  return (
    `{"event_id":"${newEventId(at)}","type":"${SHARE_OPEN}","occurred_at":${at},"profile_id":"${profileId}",` +
    `"origin":"open","share_code":"${shareCode}"}\n`
  );
}

/** @param merge `isNew`: the customer was unknown before */
export function encodeMerge(
  id: string,
  at: number,
  from: string,
  merge: { readonly into: string; readonly isNew: boolean },
): string {
  return (
    `{"event_id":"${id}","type":"profileMerge","occurred_at":${at},"profile_id":"${from}",` +
    `"origin":"merge","payload":${JSON.stringify(JSON.stringify(merge))}}\n`
  );
}
