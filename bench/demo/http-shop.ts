// The shop's operations as HTTP calls, and a book of what was acknowledged. Every event carries a number of
// its own in its payload, by which it is found again in ClickHouse.

import type { Product } from './catalogue.js';
import type { Shop, Shopper } from './shop.js';

/** An event that the service has said yes to. */
export interface Acknowledged {
  readonly type: string;
  readonly profileId: string;
}

export interface Book {
  /** By number. */
  readonly events: Map<string, Acknowledged>;
  requests: number;
  /** What was answered with anything but 200, or not at all: sentence -> how often. */
  readonly refusals: Map<string, number>;
}

export interface ShopAddress {
  readonly url: string;
  /** Secret key: customers are named and linked. */
  readonly key: string;
  /** Begins every event's number, so that demos on one database do not mix. */
  readonly run: string;
}

export function createHttpShop({ url, key, run }: ShopAddress): { shop: Shop; book: Book } {
  const book: Book = { events: new Map(), requests: 0, refusals: new Map() };
  const headers = { 'content-type': 'application/json', 'x-api-key': key };

  const call = async (method: string, path: string, body?: object): Promise<Record<string, unknown>> => {
    book.requests += 1;
    try {
      const response = await fetch(url + path, {
        method,
        headers,
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      const answer = (await response.json()) as Record<string, unknown>;
      if (response.status !== 200) throw new Error(`${response.status} ${String(answer.error)}`);
      return answer;
    } catch (error) {
      const sentence = `${method} ${path.split('?')[0]}: ${(error as Error).message}`;
      book.refusals.set(sentence, (book.refusals.get(sentence) ?? 0) + 1);
      throw error;
    }
  };

  let sent = 0;
  const event = async (who: Shopper, type: string, payload: object): Promise<void> => {
    const number = `${run}/${++sent}`;
    const answer = await call('POST', '/event', {
      identity: who,
      type,
      payload: { ...payload, demo: number },
    });
    book.events.set(number, { type, profileId: String(answer.profileId) });
  };

  const shop: Shop = {
    async visit(who, product) {
      const body = { identity: who, productHandle: product.handle };
      return Number((await call('POST', '/product/visit?count=true', body)).count);
    },
    async count(who, product) {
      const query = new URLSearchParams({ sessionId: who.sessionId, productHandle: product.handle });
      if (who.customerId !== null) query.set('customerId', who.customerId);
      return Number((await call('GET', `/product/visit?${query}`)).count);
    },
    async resetCount(who, product) {
      await call('DELETE', '/product/visit', { identity: who, productHandle: product.handle });
    },
    add: (who, product, source) => event(who, 'add', { ...naming(product), variantId: null, source }),
    remove: (who, product) => event(who, 'remove', naming(product)),
    moveToCart: (who, product, quantity) =>
      event(who, 'moveToCart', {
        ...naming(product),
        productTitle: product.title,
        quantity,
        price: product.price,
      }),
    async share(who, channel) {
      const shareCode = who.sessionId;
      const shareLink = `https://shop.example/apps/wishlist/wishlist/share/${shareCode}`;
      await event(who, 'share', { channel, shareCode, shareLink });
    },
  };
  return { shop, book };
}

function naming(product: Product): { productId: string; productHandle: string } {
  return { productId: product.id, productHandle: product.handle };
}
