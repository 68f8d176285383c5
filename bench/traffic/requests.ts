// Requests as the bytes that go over the wire, made once and replayed by every generator of load.
// They have only the headers that a server needs: Host, Content-Type, Content-Length, and a key where one is required.

import { createRandom } from '../demo/random.js';
import { CATALOGUE, popularProduct } from './catalogue.js';
import { type EventBody, eventStream } from './events.js';
import { sessionId } from './people.js';

/** A secret key that every wishmeter of the benchmark takes. */
export const KEY = 'sk_bench_0123456789abcdef';

const TRUSTED = `Authorization: Bearer ${KEY}\r\n`;

const SEED = 20_260_101;

export interface Visit {
  readonly sessionId: string;
  readonly productHandle: string;
}

/** One visit of each visitor in `from`, in this order. */
export function visitsOf(from: Iterable<number>): Visit[] {
  const random = createRandom(SEED);
  return Array.from(from, (visitor) => ({
    sessionId: sessionId(visitor),
    productHandle: popularProduct(random).handle,
  }));
}

/** `count` numbers from 0 up, each once, mixed. */
export function shuffled(count: number): number[] {
  const random = createRandom(SEED);
  const numbers = Array.from({ length: count }, (_, n) => n);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random.next() * (i + 1));
    [numbers[i], numbers[j]] = [numbers[j] as number, numbers[i] as number];
  }
  return numbers;
}

/** `count` visitors of so many, drawn with repetition. */
export function drawn(count: number, visitors: number): number[] {
  const random = createRandom(SEED);
  return Array.from({ length: count }, () => Math.floor(random.next() * visitors));
}

function visitBody({ sessionId: id, productHandle }: Visit): object {
  return { identity: { customerId: null, sessionId: id, device: 'desktop' }, productHandle };
}

/** @param query with its `?` */
export function postVisit(visit: Visit, query = ''): string {
  return post(`/product/visit${query}`, JSON.stringify(visitBody(visit)));
}

/** Resets the count. */
export function deleteVisit(visit: Visit): string {
  return send('DELETE', '/product/visit', JSON.stringify(visitBody(visit)));
}

/** A signed-in customer's visit: it links the session to the customer. */
export function postLogin(customerId: string, { sessionId: id, productHandle }: Visit): string {
  const identity = { customerId, sessionId: id };
  return post('/product/visit', JSON.stringify({ identity, productHandle }), TRUSTED);
}

/** Visits of a batch. */
export const BATCH = 100;

export function postVisitBatch(visits: readonly Visit[]): string {
  return post('/product/visit/batch', JSON.stringify({ visits: visits.map(visitBody) }), TRUSTED);
}

/** Products of a collection page. */
const PAGE = 24;

export function postVisitList({ sessionId: id, productHandle }: Visit): string {
  const others = CATALOGUE.slice(0, PAGE - 1).map(({ handle }) => handle);
  const identity = { sessionId: id, device: 'desktop' };
  return post(
    '/product/visit/list',
    JSON.stringify({ identity, productHandles: [productHandle, ...others] }),
  );
}

const junk = { sessionId: 'undefined', productHandle: '' };

/** Requests that are refused, by status: fields that will not do, a wrong key, a body that is a byte too long. */
export const refused = {
  400: postVisit(junk),
  401: post(
    '/event',
    JSON.stringify({ identity: { sessionId: 's-1' }, type: 'add' }),
    'Authorization: Bearer sk_wrong_0123456789abcd\r\n',
  ),
  413: post('/product/visit', JSON.stringify(visitBody(junk)).padEnd(64 * 1024 + 1)),
} as const;

export function getVisit({ sessionId: id, productHandle }: Visit): string {
  return get(`/product/visit?sessionId=${id}&productHandle=${productHandle}&device=desktop`);
}

/** The same in webdis: the hash of a session, a field for each product. */
export function webdisIncrement({ sessionId: id, productHandle }: Visit): string {
  return get(`/HINCRBY/visits:${id}/${productHandle}/1`);
}

export function webdisRead({ sessionId: id, productHandle }: Visit): string {
  return get(`/HGET/visits:${id}/${productHandle}`);
}

export function events(count: number, visitors: number): EventBody[] {
  const stream = eventStream(SEED, { visitors, signedIn: 0 });
  return Array.from({ length: count }, () => stream.next().value);
}

export function postEvent(event: EventBody): string {
  return post('/event', JSON.stringify(event), TRUSTED);
}

export interface ItemBody {
  readonly identity: { readonly sessionId: string; readonly device: string };
  readonly productId: string;
  readonly variantId: string;
}

export function itemsOf(from: Iterable<number>): ItemBody[] {
  const random = createRandom(SEED);
  return Array.from(from, (visitor) => {
    const { handle, title, ...product } = popularProduct(random);
    return {
      identity: { sessionId: sessionId(visitor), device: 'mobile' },
      ...product,
      productHandle: handle,
      productTitle: title,
      inventoryAvailable: true,
      quantity: 1,
      currencyCode: 'EUR',
      source: 'pdp',
    };
  });
}

export function postItem(item: ItemBody): string {
  return post('/item/add', JSON.stringify(item), TRUSTED);
}

function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: shop.example\r\n\r\n`;
}

function post(path: string, body: string, more?: string): string {
  return send('POST', path, body, more);
}

function send(method: string, path: string, body: string, more = ''): string {
  const length = Buffer.byteLength(body);
  return `${method} ${path} HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\n${more}Content-Length: ${length}\r\n\r\n${body}`;
}
