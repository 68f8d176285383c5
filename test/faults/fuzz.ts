// Requests of every operation, changed at random in JSON, bytes, headers and pieces of TCP, from a seed.

import { createRandom, type Random } from '../../bench/demo/random.js';
import { KEY } from '../harness/app.js';
import { itemOf } from '../http/wishlist.js';

export interface Fuzzed {
  readonly pieces: readonly Buffer[];
  /** Whether the request may stay incomplete: then the client hangs up after it. */
  readonly isCut: boolean;
  readonly isHead: boolean;
}

interface Draft {
  method: string;
  path: string;
  headers: string[];
  body: unknown;
}

const MANY_LEVELS = 5_000;
const SESSIONS = Array.from({ length: 20 }, (_, i) => `fuzz-${i}`);

const VALUES = [
  ...`null|true|""|" "|0|-1|1.5|1e308|1e999|-0|12345678901234567890123|NaN|[]|{}|[[],{}]|"null"`.split('|'),
  ...String.raw`"\ud800"|"\udc00\ud800"|"\u0000"|"a\r\nb"|{"__proto__":{"x":1},"constructor":null}`.split(
    '|',
  ),
  ...['"gid://shopify/Customer/7"', '"gid://shopify/Customer/"', '9'.repeat(400), `"${'x'.repeat(70_000)}"`],
];
const SIZED: readonly ((size: number) => string)[] = [
  (size) => `"${'é'.repeat(size % 300)}"`,
  (size) => '['.repeat(size + 1) + ']'.repeat(size + 1),
  (size) => `${'{"a":'.repeat(size + 1)}1${'}'.repeat(size + 1)}`,
  (size) => `[${new Array(size % 2_000).fill('1')}]`,
];
const anyValue = (random: Random) =>
  random.chance(0.2) ? random.pick(SIZED)(int(random, MANY_LEVELS)) : random.pick(VALUES);

const HEADERS = `content-type: text/html
content-type: application/json; charset=utf-16
content-type: ;
content-encoding: gzip
expect: 100-continue
authorization:
authorization: Bearer ${'x'.repeat(1_000)}
x-api-key: \x80\xff
x-request-id: a b\tc
idempotency-key:
idempotency-key: k
idempotency-key: ${'k'.repeat(256)}
origin: null
referer: http://[::1
x-forwarded-for: ,,,
connection: close
upgrade: websocket
x-fuzz: ${'y'.repeat(3_000)}
x-shopify-hmac-sha256: ====`.split('\n');

const QUERIES =
  `count=true&count=false sessionId=a&sessionId=b productHandle=%00 sessionId=%ff % &&&= key=pk_x
  signature=${'0'.repeat(64)} __proto__=1 sessionId[]=x q=${'x'.repeat(2_000)}`.split(/\s+/);
const PATHS =
  `/ // /event/ /product/visit/x /share//items /share/%00/items /share/../items /item/%61dd * http://x/event
  /openapi.json /beacon.js /share/${'c'.repeat(500)}/items`.split(/\s+/);
const METHODS = 'GET HEAD POST PUT DELETE PATCH OPTIONS TRACE get FOO CONNECT'.split(' ');

export function fuzz(seed: number, n: number): Fuzzed {
  const random = createRandom(seed * 1_000_003 + n);
  const draft = draftOf(random);
  if (random.chance(0.25)) draft.headers.push(random.pick(HEADERS));
  if (random.chance(0.1)) draft.path += `${draft.path.includes('?') ? '&' : '?'}${random.pick(QUERIES)}`;
  if (random.chance(0.03)) draft.path = random.pick(PATHS);
  if (random.chance(0.03)) draft.method = random.pick(METHODS);
  if (random.chance(0.05)) draft.headers = draft.headers.filter((line) => !line.startsWith('authorization'));
  let body = bentJson(random, draft.body);
  if (random.chance(0.15)) body = bentBytes(random, body);
  return onTheWire(random, draft, body);
}

function draftOf(random: Random): Draft {
  const sessionId = random.pick(SESSIONS);
  const facts = { device: 'desktop', locale: 'en', email: 'a@b.c', firstName: 'A', lastName: null };
  const customer = random.chance(0.2) ? { customerId: String(int(random, 5) + 1) } : {};
  const identity = { sessionId, ...facts, ...customer };
  const query = `sessionId=${sessionId}&productHandle=h`;
  const product = { productId: 1001, productHandle: 'red-shoe', productTitle: 'Red shoe' };
  const variant = { variantId: 2002, price: '1.00', inventoryAvailable: random.chance(0.5) };
  const order = {
    id: int(random, 1_000),
    currency: 'EUR',
    customer: { id: 1 },
    note_attributes: [{ name: 'wishlist_session_id', value: sessionId }],
    line_items: [{ product_id: 1001, variant_id: 2002, quantity: 1, price: '1.00' }],
  };
  const payload = { productId: '1', price: '1.00', quantity: 1, more: [1, { a: null }] };
  const removal = { identity, productId: '1001', variantId: '2002', event: 'moveToCart' };
  const [line, body] = random.pick<[line: string, body?: unknown]>([
    ['POST /product/visit', { identity, productHandle: `h${int(random, 5)}` }],
    [`GET /product/visit?${query}`],
    ['DELETE /product/visit', { identity, productHandle: 'h' }],
    [`DELETE /product/visit?${query}`],
    ['POST /event', { identity, type: 'add', payload }],
    ['POST /item/add', itemOf(identity)],
    ['POST /item/remove', removal],
    ['POST /item/list', { identity }],
    ['POST /item/count', { identity }],
    ['POST /share', { identity, channel: 'Link' }],
    ['GET /share/AAAAAAAAAAAAAAAA/items'],
    ['POST /profile/guest', identity],
    ['POST /profile/merge', { identity: { sessionId, customerId: '1' } }],
    ['GET /settings'],
    ['PUT /settings', { autoRemoveAfterPurchase: random.chance(0.5) }],
    ['PUT /products', { ...product, variants: [variant] }],
    ['POST /webhook/purchase', order],
  ]);
  const [method = '', path = ''] = line.split(' ');
  return { method, path, headers: ['host: fuzz', `authorization: Bearer ${KEY}`], body };
}

function bentJson(random: Random, body: unknown): Buffer {
  if (body === undefined) return Buffer.alloc(0);
  let text = JSON.stringify(body);
  for (let bends = random.pick([0, 1, 1, 1, 2, 3]); bends > 0; bends--) {
    const members = [...text.matchAll(/"(\w+)":/g)];
    const member = members.length > 0 ? random.pick(members) : undefined;
    const at = member?.index ?? 0;
    const value = anyValue(random);
    const afterName = at + (member?.[0].length ?? 0);
    switch (int(random, 5)) {
      case 0: // changes the value of a member
        text = text.slice(0, afterName) + value + text.slice(valueEnd(text, afterName));
        break;
      case 1: // repeats the name
        text = `${text.slice(0, at)}"${member?.[1] ?? 'x'}":${value},${text.slice(at)}`;
        break;
      case 2: // changes the name to an unknown one
        text =
          text.slice(0, at) + text.slice(at).replace(/\w+/, random.pick(['x', '__proto__', 'toString', '']));
        break;
      case 3: // removes the member
        text = text.slice(0, at) + text.slice(valueEnd(text, afterName)).replace(/^,/, '');
        break;
      default: // replaces the whole body
        if (random.chance(0.2)) text = value;
    }
  }
  return Buffer.from(text);
}

/** Where the JSON value that begins at `from` ends; roughly, because the text may be changed already. */
function valueEnd(text: string, from: number): number {
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    const c = text[i];
    if (c === '"') for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === '\\') i++;
    if (c === '{' || c === '[') depth++;
    else if (c === '}' || c === ']') depth--;
    if (depth < 0 || (depth === 0 && c === ',')) return i;
  }
  return text.length;
}

function bentBytes(random: Random, body: Buffer): Buffer {
  const at = int(random, body.length + 1);
  const [before, after] = [body.subarray(0, at), body.subarray(at)];
  switch (int(random, 5)) {
    case 0:
      return Buffer.concat([before, bytes(random, 1 + int(random, 20)), after]);
    case 1:
      return Buffer.concat([before, after.subarray(1)]);
    case 2:
      return before;
    case 3:
      return Buffer.concat([Buffer.from('\ufeff'), body]);
    default: {
      const copy = Buffer.from(body);
      if (copy.length > 0) copy[at % copy.length] = int(random, 256);
      return copy;
    }
  }
}

function onTheWire(random: Random, { method, path, headers }: Draft, body: Buffer): Fuzzed {
  let isCut = false;
  let payload = body;
  if (body.length > 0 || random.chance(0.1)) {
    const how = random.next();
    if (how < 0.8) headers.push(`content-length: ${body.length}`);
    else if (how < 0.9) {
      headers.push('transfer-encoding: chunked');
      payload = chunked(random, body);
    } else {
      isCut = true;
      const tooMany = body.length + 1 + int(random, 99);
      const lengths = [tooMany, '-1', '1e3', '99999999999999999999'].map(
        (length) => `content-length: ${length}`,
      );
      headers.push(random.pick([...lengths, 'transfer-encoding: chunked', 'transfer-encoding: gzip']));
    }
  }
  const version = random.chance(0.01) ? random.pick(['HTTP/1.0', 'HTTP/2.0', 'HTTP/1.1 ', '']) : 'HTTP/1.1';
  const head = [`${method} ${path} ${version}`, ...headers, '', ''].join('\r\n');
  if (version !== 'HTTP/1.1') isCut = true;
  const whole = Buffer.concat([Buffer.from(head, 'latin1'), payload]);
  return { pieces: random.chance(0.2) ? split(random, whole) : [whole], isCut, isHead: method === 'HEAD' };
}

function chunked(random: Random, body: Buffer): Buffer {
  const parts = body.length === 0 ? [] : split(random, body);
  const lines = parts.flatMap((part) => [
    Buffer.from(`${part.length.toString(16)}\r\n`),
    part,
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...lines, Buffer.from('0\r\n\r\n')]);
}

function split(random: Random, whole: Buffer): Buffer[] {
  const cuts = Array.from({ length: int(random, 6) }, () => int(random, whole.length + 1)).sort(
    (a, b) => a - b,
  );
  return [0, ...cuts]
    .map((from, i) => whole.subarray(from, cuts[i] ?? whole.length))
    .filter((part) => part.length > 0);
}

function int(random: Random, below: number): number {
  return Math.floor(random.next() * below);
}

function bytes(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => int(random, 256)));
}
