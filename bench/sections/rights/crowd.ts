// Visitors by number, each with a visit to one product, and their counts as the service answers them.

import { ask } from '../../proofs/http.js';
import { CATALOGUE, type Product } from '../../traffic/catalogue.js';
import { customerId, sessionId } from '../../traffic/people.js';
import type { Visit } from '../../traffic/requests.js';

const SAMPLE = 200;

export function nthVisit(n: number): Visit {
  return { sessionId: sessionId(n), productHandle: (CATALOGUE[n % CATALOGUE.length] as Product).handle };
}

export async function countOf(port: number, n: number): Promise<unknown> {
  const { sessionId: id, productHandle } = nthVisit(n);
  return (await ask(port, 'GET', `/product/visit?sessionId=${id}&productHandle=${productHandle}`))['count'];
}

export async function countOfCustomer(port: number, n: number): Promise<unknown> {
  const { productHandle } = nthVisit(n);
  return (
    await ask(port, 'GET', `/product/visit?customerId=${customerId(n)}&productHandle=${productHandle}`)
  )['count'];
}

/** Makes a value of each number from 0 up, lazily. */
export function* made<T>(count: number, make: (n: number) => T): Generator<T> {
  for (let n = 0; n < count; n++) yield make(n);
}

export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

/** Numbers below `count` at equal distances, the first and the last among them. */
export function sampleOf(count: number): number[] {
  return upTo(SAMPLE).map((n) => Math.floor((n * (count - 1)) / (SAMPLE - 1)));
}
