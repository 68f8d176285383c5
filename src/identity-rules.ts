// The rules of identities: valid ids, their normal form, and their names in Redis.

import { createHash } from 'node:crypto';

export interface Identity {
  readonly customerId: string | null;
  readonly sessionId: string | null;
  readonly device: string | null;
  readonly locale: string | null;
  readonly email: string | null;
  readonly firstName: string | null;
  readonly lastName: string | null;
}

/** The name that stands for all profiles in an erasure. */
export const EVERY_PROFILE = '*';

export const MAX_ID_BYTES = 255;
const MAX_EMAIL_BYTES = 320;
export const MAX_HANDLE_CHARACTERS = 255;

// Broken clients send these as ids. Each of them would merge many visitors into one profile.
const JUNK = new Set([
  'null',
  'undefined',
  'nan',
  '0',
  '-1',
  'none',
  'guest',
  'anonymous',
  '[object object]',
  'true',
  'false',
]);
// Forms and scripts send these. Each of them would lead to many visitors.
const PLACEHOLDER_EMAIL =
  /^(?:(?:none|null|undefined|nan|no-?reply|do-?not-?reply)@|test@test\.|[^@]*@example\.)/;

const LONGEST_JUNK = Math.max(...Array.from(JUNK, (word) => word.length));

const CONTROL = /\p{Cc}/u;
/** Nearly all texts match, and need no further check. */
const PRINTABLE = /^[ -~]*$/;
const SHOPIFY_GID = /^gid:\/\/shopify\/([A-Za-z]+)\/(\d+)$/;

export type ShopifyType = 'Customer' | 'Product' | 'ProductVariant' | 'Order';

export function fitsBytes(text: string, max: number): boolean {
  return text.length * 3 <= max || (text.length <= max && Buffer.byteLength(text) <= max);
}

/** Counts code points, as Shopify does: a character beyond U+FFFF is one, in two UTF-16 units and four bytes. */
export function fitsCharacters(text: string, max: number): boolean {
  return text.length <= max || (text.length <= 2 * max && Array.from(text).length <= max);
}

/** False if there are control characters, or lone surrogates, which UTF-8 can't encode. */
export function isPlainText(text: string): boolean {
  return PRINTABLE.test(text) || (!CONTROL.test(text) && text.isWellFormed());
}

export function trimmed(text: string): string {
  return isInk(text.charCodeAt(0)) && isInk(text.charCodeAt(text.length - 1)) ? text : text.trim();
}

export function isBlank(text: string): boolean {
  return !isInk(text.charCodeAt(0)) && text.trim() === '';
}

function isInk(charCode: number): boolean {
  return charCode > 0x20 && charCode < 0x7f;
}

/** Shortens `gid://shopify/<Type>/<digits>` to the digits. */
export function normaliseId(id: string): string {
  const text = trimmed(id);
  if (!text.startsWith('gid:')) return text;
  return SHOPIFY_GID.exec(text)?.[2] ?? text;
}

/** A gid of another type is invalid. */
export function isId(type: ShopifyType, text: string): boolean {
  return isNormalId(normaliseId(text)) && isOfType(type, text);
}

function isOfType(type: ShopifyType, id: string): boolean {
  const text = trimmed(id);
  return !text.startsWith('gid:') || (SHOPIFY_GID.exec(text)?.[1] ?? type) === type;
}

function isNormalId(id: string): boolean {
  return id !== '' && fitsBytes(id, MAX_ID_BYTES) && isPlainText(id);
}

export function isCustomerId(text: string): boolean {
  return isVisitorId(text) && isOfType('Customer', text);
}

/** Checks a visitor's id, but not the type of a gid. */
export function isVisitorId(text: string): boolean {
  const id = normaliseId(text);
  return isNormalId(id) && !(id.length <= LONGEST_JUNK && JUNK.has(id.toLowerCase()));
}

export function normaliseEmail(email: unknown): string | undefined {
  if (typeof email !== 'string') return undefined;
  const normal = email.trim().toLowerCase();
  return normal.includes('@') && fitsBytes(normal, MAX_EMAIL_BYTES) && isPlainText(normal)
    ? normal
    : undefined;
}

/** A placeholder is stored, but doesn't lead to a visitor. @param email trimmed, in lower case */
export function isPlaceholderEmail(email: string): boolean {
  return PLACEHOLDER_EMAIL.test(email);
}

export function isCustomerName(name: string): boolean {
  return name.startsWith('c:') || name.startsWith('C:');
}

export function namesIn({ customerId, sessionId }: Identity): string[] {
  return [
    ...(customerId === null ? [] : [identityName('c', customerId)]),
    ...(sessionId === null ? [] : [identityName('s', sessionId)]),
  ];
}

/**
 * Longer ids are hashed: one field longer than hash-max-listpack-value (64) would turn a whole listpack into a hash
 * table.
 */
export const MAX_CLEAR_ID_BYTES = 62;

/** @returns `c:<customer>` or `s:<session>`; if the id is hashed, `C:<hash>` or `S:<hash>` */
export function identityName(kind: 'c' | 's', id: string): string {
  if (fitsBytes(id, MAX_CLEAR_ID_BYTES)) return `${kind}:${id}`;
  return `${kind.toUpperCase()}:${createHash('sha256').update(id).digest('base64url')}`;
}
