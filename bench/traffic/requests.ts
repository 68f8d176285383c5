// Requests as bytes on the wire, made once and replayed by every load generator. They have only the headers that a server
// needs: Host, Content-Type, Content-Length, and a key if one is required.

import { v5 as uuid } from 'uuid';
import { type Product, popularProduct } from '../demo/catalogue.js';
import { createRandom } from '../demo/random.js';

/** The secret key of every wishmeter of the benchmark. */
export const KEY = 'sk_bench_0123456789abcdef';

const TRUSTED = `Authorization: Bearer ${KEY}\r\n`;
const SEED = 20_260_101;

export interface Visit {
  readonly sessionId: string;
  readonly productHandle: string;
}

/** The same in every run and every process. */
export function sessionId(visitor: number): string {
  return uuid(String(visitor), uuid.DNS);
}

/** A product as Shopify describes it. */
function describe({ id, variantId, handle, title, prices }: Product) {
  return {
    productId: `gid://shopify/Product/${id}`,
    variantId: `gid://shopify/ProductVariant/${variantId}`,
    productHandle: handle,
    productTitle: title,
    variantTitle: 'M / Black',
    price: prices.EUR,
    compareAt: prices.USD,
    image: `https://cdn.shopify.com/s/files/1/0533/2089/7744/files/${handle}_1024x1024.jpg?v=1690000000`,
  };
}

/** One visit of each visitor, in this order. */
export function visitsOf(visitors: Iterable<number>): Visit[] {
  const random = createRandom(SEED);
  return Array.from(visitors, (visitor) => {
    return { sessionId: sessionId(visitor), productHandle: popularProduct(random).handle };
  });
}

/** `count` numbers from 0 up, each once, shuffled. */
export function shuffled(count: number): number[] {
  const random = createRandom(SEED);
  const numbers = Array.from({ length: count }, (_, n) => n);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random.next() * (i + 1));
    [numbers[i], numbers[j]] = [numbers[j] as number, numbers[i] as number];
  }
  return numbers;
}

function visitBody({ sessionId: id, productHandle }: Visit): object {
  return { identity: { customerId: null, sessionId: id, device: 'desktop' }, productHandle };
}

export function postVisit(visit: Visit): string {
  return post('/product/visit', visitBody(visit));
}

/** Visits of a batch. */
export const BATCH = 100;

export function postVisitBatch(visits: readonly Visit[]): string {
  return post('/product/visit/batch', { visits: visits.map(visitBody) }, TRUSTED);
}

export function getVisit({ sessionId: id, productHandle }: Visit): string {
  return get(`/product/visit?sessionId=${id}&productHandle=${productHandle}&device=desktop`);
}

/** Commands as paths, for webdis and nginx: a hash for each session, a field for each product. */
export function hashIncrement({ sessionId: id, productHandle }: Visit): string {
  return get(`/HINCRBY/visits:${id}/${productHandle}/1`);
}

export function hashRead({ sessionId: id, productHandle }: Visit): string {
  return get(`/HGET/visits:${id}/${productHandle}`);
}

/** An event of each visitor: four of five name the product, the others describe it. */
export function postEvents(visitors: Iterable<number>): string[] {
  const random = createRandom(SEED);
  return Array.from(visitors, (visitor) => {
    const { productId, variantId, ...described } = describe(popularProduct(random));
    const type = random.pick(['add', 'add', 'add', 'remove', 'moveToCart']);
    const more = type === 'moveToCart' ? { ...described, quantity: 1 } : { source: 'pdp' };
    const identity = { customerId: null, sessionId: sessionId(visitor), device: 'mobile', locale: 'en' };
    return post('/event', { identity, type, payload: { productId, variantId, ...more } }, TRUSTED);
  });
}

/** An item of each visitor. */
export function postItems(visitors: Iterable<number>): string[] {
  const random = createRandom(SEED);
  return Array.from(visitors, (visitor) => {
    const identity = { sessionId: sessionId(visitor), device: 'mobile' };
    const more = { inventoryAvailable: true, quantity: 1, currencyCode: 'EUR', source: 'pdp' };
    return post('/item/add', { identity, ...describe(popularProduct(random)), ...more }, TRUSTED);
  });
}

function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: shop.example\r\n\r\n`;
}

function post(path: string, content: object, more = ''): string {
  const body = JSON.stringify(content);
  const length = Buffer.byteLength(body);
  return `POST ${path} HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\n${more}Content-Length: ${length}\r\n\r\n${body}`;
}
