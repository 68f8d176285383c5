// What an identity is: the ids that are taken, how they are compared, and which fields come with them.
// Ids are normalised here and nowhere else.

import { createHash } from 'node:crypto';

/** An identity as the rest of the program sees it: checked, trimmed and normalised. */
export interface Identity {
  readonly customerId: string | null;
  readonly sessionId: string | null;
  readonly device: string | null;
  readonly locale: string | null;
  readonly email: string | null;
  readonly firstName: string | null;
  readonly lastName: string | null;
}

/** Stands for all profiles where they are erased, in place of one's id. */
export const EVERY_PROFILE = '*';

/** Bytes of UTF-8 that an id or a product handle may have. */
export const MAX_ID_BYTES = 255;

// What broken clients send in place of an id. Each would pour many visitors into one profile.
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
// What forms and scripts send in place of an e-mail address. Each would lead to many visitors.
const PLACEHOLDER_EMAIL =
  /^(?:(?:none|null|undefined|nan|no-?reply|do-?not-?reply)@|test@test\.|[^@]*@example\.)/;

const LONGEST_JUNK = Math.max(...Array.from(JUNK, (word) => word.length));

const CONTROL = /\p{Cc}/u;
/** Printable ASCII, as nearly all texts are: one look in place of two. */
const PRINTABLE = /^[ -~]*$/;
const SHOPIFY_GID = /^gid:\/\/shopify\/([A-Za-z]+)\/(\d+)$/;

/** What a gid names, of the things that ids are taken of here. */
export type ShopifyType = 'Customer' | 'Product' | 'ProductVariant' | 'Order';

/** Whether a text has at most `max` bytes of UTF-8; most are known to without counting. */
export function fitsBytes(text: string, max: number): boolean {
  return text.length * 3 <= max || (text.length <= max && Buffer.byteLength(text) <= max);
}

/** Whether a text has no control characters and can be written as UTF-8 (no lone surrogates). */
export function isPlainText(text: string): boolean {
  return PRINTABLE.test(text) || (!CONTROL.test(text) && text.isWellFormed());
}

/** `text.trim()`, which has work to do for few texts and takes longer to find that out. */
export function trimmed(text: string): string {
  return isInk(text.charCodeAt(0)) && isInk(text.charCodeAt(text.length - 1)) ? text : text.trim();
}

/** Whether a text is empty or white space only. */
export function isBlank(text: string): boolean {
  return !isInk(text.charCodeAt(0)) && text.trim() === '';
}

/** Whether it is printable ASCII and no space. */
function isInk(charCode: number): boolean {
  return charCode > 0x20 && charCode < 0x7f;
}

/** `gid://shopify/<Type>/<digits>` and the digits name the same thing: the digits. Others are taken as they are. */
export function normaliseId(id: string): string {
  const text = trimmed(id);
  if (!text.startsWith('gid:')) return text;
  return SHOPIFY_GID.exec(text)?.[2] ?? text;
}

/** Whether the id of a thing may be taken. A gid of another type names another thing. */
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

/** Whether a customer's id may be taken. */
export function isCustomerId(text: string): boolean {
  return isVisitorId(text) && isOfType('Customer', text);
}

/** Whether a session's id may be taken; of a customer's, all but the type. */
export function isVisitorId(text: string): boolean {
  const id = normaliseId(text);
  return isNormalId(id) && !(id.length <= LONGEST_JUNK && JUNK.has(id.toLowerCase()));
}

/** Whether an address, trimmed and in lower case, is nobody's. It is kept as it was sent, and leads nowhere. */
export function isPlaceholderEmail(email: string): boolean {
  return PLACEHOLDER_EMAIL.test(email);
}

/** Whether a name, see identityName, is a customer's. */
export function isCustomerName(name: string): boolean {
  return name.startsWith('c:') || name.startsWith('C:');
}

/** The names of an identity's ids, the customer's first. */
export function namesIn({ customerId, sessionId }: Identity): string[] {
  return [
    ...(customerId === null ? [] : [identityName('c', customerId)]),
    ...(sessionId === null ? [] : [identityName('s', sessionId)]),
  ];
}

/** Longest id that its name has in clear: the name fits a listpack's longest field (hash-max-listpack-value, 64). */
export const MAX_CLEAR_ID_BYTES = 62;

/**
 * The name of an identity in Redis: `c:<customer>` or `s:<session>`. Long ids are hashed (`C:`, `S:`):
 * one long field would turn the whole bucket from a listpack into a hash table.
 */
export function identityName(kind: 'c' | 's', id: string): string {
  if (fitsBytes(id, MAX_CLEAR_ID_BYTES)) return `${kind}:${id}`;
  return `${kind.toUpperCase()}:${createHash('sha256').update(id).digest('base64url')}`;
}
