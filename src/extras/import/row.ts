// Converts a record to a visitor's item, or lists the record's faults. It normalises values as other apps export them
// (`19.9`, `yes`, `2024-03-01 10:15:00 +0100`), then checks them like POST /item/add.

import { ServiceError } from '../../errors.js';
import { fitsBytes, type Identity, isBlank } from '../../identity-rules.js';
import type { ItemContent } from '../../item-fields.js';
import { knownWord } from '../../known-words.js';
import { readItem, trust } from '../../validation/requests.js';
import type { ImportField, Values } from './columns.js';

export interface ImportRow {
  readonly line: number;
  /** Has one id: the customer id if the row has both ids. */
  readonly identity: Identity;
  /** When the item was added, in milliseconds since 1970. */
  readonly at: number;
  readonly content: ItemContent;
  readonly isStockKnown: boolean;
}

/** Bytes, as in POST /item/add. */
const MAX_PROPERTIES = 16 * 1024;
/** A row's time may be this far in the future, because clocks differ. */
const AHEAD_MS = 60_000;
/** Matches a long id that a spreadsheet has rounded, such as 6.94E+12. */
const LOST_DIGITS = /^\d([.,]\d+)?E\+?\d+$/i;

export function readRow(
  line: number,
  values: Values<ImportField>,
  customerOf: (email: string) => { readonly id: string } | { readonly fault: string },
): ImportRow | readonly string[] {
  const faults: string[] = [];
  const given = (field: ImportField) => {
    const value = values[field];
    return value == null || (typeof value === 'string' && isBlank(value)) ? undefined : value;
  };
  const id = (field: ImportField) => {
    const value = plainId(given(field));
    if (typeof value === 'string' && LOST_DIGITS.test(value))
      faults.push(`${field} has lost digits in a spreadsheet: ${value}`);
    return value;
  };
  const ids: { customerId: unknown; readonly sessionId: unknown } = {
    customerId: id('customerId'),
    sessionId: id('sessionId'),
  };
  const email = given('email');
  if (ids.customerId === undefined && ids.sessionId === undefined) {
    const found =
      typeof email === 'string' ? customerOf(email) : { fault: 'customerId or sessionId is required' };
    if ('fault' in found) faults.push(found.fault);
    else ids.customerId = found.id;
  }
  const at = timeOf(given('addedAt'));
  if (typeof at === 'string') faults.push(at);

  const stock = truthOf(given('inventoryAvailable'));
  const source = given('source');
  const body: Record<'identity' | keyof ItemContent, unknown> = {
    // If there is no id, '-' passes the check of the body: the missing id is already among the faults.
    identity:
      ids.customerId !== undefined ? { customerId: ids.customerId } : { sessionId: ids.sessionId ?? '-' },
    productId: id('productId'),
    variantId: id('variantId') ?? null,
    productHandle: given('productHandle') ?? handleIn(given('productUrl')),
    productTitle: given('productTitle'),
    variantTitle: given('variantTitle'),
    image: given('image'),
    price: amountOf(given('price')),
    compareAt: amountOf(given('compareAt')) ?? null,
    inventoryAvailable: stock ?? true,
    quantity: wholeOf(given('quantity') ?? 1),
    source: typeof source === 'string' ? knownWord('source', source) : source,
    currencyCode: given('currencyCode'),
    countryCode: given('countryCode'),
    properties: jsonOf(given('properties')),
  };
  try {
    const { identity, content } = readItem(body);
    if (!fitsBytes(JSON.stringify(content.properties ?? null), MAX_PROPERTIES))
      faults.push(`properties must have at most ${MAX_PROPERTIES} bytes as JSON`);
    if (faults.length > 0 || typeof at === 'string') return faults;
    return { line, identity: trust(identity), at, content, isStockKnown: stock !== undefined };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const found = error.issues?.map(({ path, message }) => `${path.split('/').at(-1)} ${message}`.trim());
    return [...faults, ...(found ?? [error.message])];
  }
}

/** Removes what spreadsheets and data frames add to an id: `'6940095348933`, `6940095348933.0`. */
export function plainId(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const text = value.trim();
  return /^'?(\d+)(?:\.0)?$/.exec(text)?.[1] ?? text;
}

const TIME =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?$/i;
const NOT_A_TIME = 'addedAt must be a time of ISO 8601, like "2026-03-02T10:15:00Z"';

/** Reads a time without a zone as UTC. @returns milliseconds since 1970, or a fault */
function timeOf(value: unknown): number | string {
  if (value === undefined) return 'addedAt is required';
  const isCount = /^\d{13}$/.test(String(value));
  const at = isCount ? Number(value) : parseTime(String(value).trim());
  if (at === undefined) return NOT_A_TIME;
  if (at > Date.now() + AHEAD_MS) return 'addedAt is in the future';
  return at < 0 ? 'addedAt is before 1970' : at;
}

function parseTime(text: string): number | undefined {
  const [, day, time = '00:00', seconds = '00', fraction = '0', zone = 'Z'] = TIME.exec(text) ?? [];
  if (day === undefined) return undefined;
  const [sign = '', hours = '00', minutes = '00'] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone)?.slice(1) ?? [];
  const offset = sign === '' ? 'Z' : `${sign}${hours}:${minutes ?? '00'}`;
  const at = Date.parse(`${day}T${time}:${seconds}.${fraction.padEnd(3, '0').slice(0, 3)}${offset}`);
  if (Number.isNaN(at)) return undefined;
  // JavaScript reads February 30 as March 1.
  return new Date(Date.parse(day)).toISOString().startsWith(day) ? at : undefined;
}

/** Formats an amount with two decimals. One with more decimals is left alone. A decimal comma becomes a point. */
function amountOf(value: unknown): unknown {
  if (typeof value !== 'string' && typeof value !== 'number') return value;
  const [, whole, point, comma] =
    /^(\d{1,16})(?:\.(\d{1,2})0*|,(\d{1,2}))?$/.exec(String(value).trim()) ?? [];
  return whole === undefined ? String(value) : `${whole}.${(point ?? comma ?? '').padEnd(2, '0')}`;
}

function wholeOf(value: unknown): unknown {
  return typeof value === 'string' && /^\d+(\.0+)?$/.test(value.trim()) ? Number(value) : value;
}

const TRUTHS: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  y: true,
  '1': true,
  false: false,
  no: false,
  n: false,
  '0': false,
};

function truthOf(value: unknown): unknown {
  return TRUTHS[String(value).trim().toLowerCase()] ?? value;
}

function handleIn(url: unknown): string | undefined {
  const encoded = /\/products\/([^/?#]+)/.exec(String(url))?.[1];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

function jsonOf(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
