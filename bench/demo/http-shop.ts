// The shop's operations as HTTP calls, and a book of how they were answered. Every operation resolves once it is
// acknowledged, and rejects if it was not.
//
// Orders come as Shopify sends them: REST JSON, ids as numbers, a customer also for a guest, the session in a note.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Currency, Product } from './catalogue.js';
import type { Channel, Listed, OrderLine, Shopper, Source, Wish, Wishlist } from './shop.js';

/** Of a request that is answered with Retry-After; the last answer is what counts. */
const TRIES = 10;

export interface ShopAddress {
  readonly url: string;
  /** Secret key: customers are named and linked, orders are delivered. */
  readonly key: string;
}

export type Shop = ReturnType<typeof createHttpShop>['shop'];
export type Book = ReturnType<typeof createHttpShop>['book'];

export function createHttpShop({ url, key }: ShopAddress) {
  const book = {
    requests: 0,
    /** How often one was sent again, as Retry-After asked for. */
    retries: 0,
    orders: 0,
    /** What was answered with anything but 200, or not at all: sentence -> how often. */
    refusals: new Map<string, number>(),
  };
  const call = async (method: string, path: string, body?: object, extra: Record<string, string> = {}) => {
    book.requests += 1;
    try {
      const send = () =>
        fetch(url + path, {
          method,
          headers: { 'content-type': 'application/json', 'x-api-key': key, ...extra },
          ...(body ? { body: JSON.stringify(body) } : {}),
        });
      let response = await send();
      for (let tries = 1; tries < TRIES && response.headers.has('retry-after'); tries++) {
        await response.body?.cancel();
        await sleep(1_000 * Number(response.headers.get('retry-after')));
        book.retries += 1;
        response = await send();
      }
      const answer = (await response.json()) as Record<string, unknown>;
      if (response.status !== 200) throw new Error(`${response.status} ${String(answer['error'])}`);
      return answer;
    } catch (error) {
      const sentence = `${method} ${path.replace(/\?.*|(?<=^\/share\/).*/, '')}: ${(error as Error).message}`;
      book.refusals.set(sentence, (book.refusals.get(sentence) ?? 0) + 1);
      throw error;
    }
  };

  const shop = {
    /** Counts a visit; resolves to the count after it. */
    async visit(who: Shopper, product: Product) {
      const body = { identity: who, productHandle: product.handle };
      return Number((await call('POST', '/product/visit?count=true', body))['count']);
    },
    /** The count, as Smart Save reads it while a page renders. */
    async count(who: Shopper, product: Product) {
      const query = new URLSearchParams({ sessionId: who.sessionId, productHandle: product.handle });
      if (who.customerId !== null) query.set('customerId', who.customerId);
      return Number((await call('GET', `/product/visit?${query}`))['count']);
    },
    /** Smart Save's offer was turned down: counting begins again. */
    async resetCount(who: Shopper, product: Product) {
      await call('DELETE', '/product/visit', { identity: who, productHandle: product.handle });
    },
    /** Saves it, or saves it anew; resolves to the item's id. */
    async save(who: Shopper, wish: Wish, source: Source) {
      const body = { identity: who, ...naming(wish), ...describing(wish), source };
      return String((await call('POST', '/item/add', body))['itemId']);
    },
    /** Resolves to whether it was there. */
    async takeOff(who: Shopper, wish: Wish, why: 'remove' | 'moveToCart') {
      const event = why === 'moveToCart' ? { event: why } : {};
      return (
        (await call('POST', '/item/remove', { identity: who, ...naming(wish), ...event }))['removed'] === true
      );
    },
    wishlist: async (who: Shopper) => asWishlist(await call('POST', '/item/list', { identity: who })),
    /** Resolves to the code of the wishlist's link. */
    async share(who: Shopper, channel: Channel) {
      return String((await call('POST', '/share', { identity: who, channel }))['code']);
    },
    /** The wishlist that a friend sees. */
    shared: async (code: string) => asWishlist(await call('GET', `/share/${code}/items`)),
    /** The session is this customer's from now on; resolves to whether two profiles became one. */
    async signIn(who: Shopper & { readonly customerId: string }) {
      return (await call('POST', '/profile/merge', { identity: who }))['merged'] === true;
    },
    /** Orders and pays; the function that comes back delivers the order, and does so again if it is called again. */
    order(who: Shopper, customer: string, currency: Currency, lines: readonly OrderLine[]) {
      const order = { id: ++book.orders, ...orderOf(who, customer, currency, lines) };
      const headers = { 'x-shopify-webhook-id': randomUUID() };
      return () => call('POST', '/webhook/purchase', order, headers);
    },
    /** Has purchased items leave wishlists. */
    open: () => call('PUT', '/settings', { autoRemoveAfterPurchase: true }),
  };
  return { shop, book };
}

/** The product and the variant, as Shopify's storefront names them. */
function naming({ product, variantId }: Wish): object {
  return {
    productId: `gid://shopify/Product/${product.id}`,
    variantId: variantId === null ? null : `gid://shopify/ProductVariant/${variantId}`,
  };
}

function describing({ product, quantity, currency }: Wish): object {
  return {
    productTitle: product.title,
    productHandle: product.handle,
    image: `https://shop.example/images/${product.handle}.jpg`,
    price: product.prices[currency],
    compareAt: null,
    inventoryAvailable: true,
    quantity,
    currencyCode: currency,
  };
}

function asWishlist({ profileId, items }: Record<string, unknown>): Wishlist {
  return { profileId: String(profileId), items: items as Listed[] };
}

function orderOf(who: Shopper, customer: string, currency: Currency, lines: readonly OrderLine[]): object {
  return {
    currency,
    test: false,
    cancelled_at: null,
    financial_status: 'paid',
    customer: { id: Number(customer), state: 'disabled' },
    note_attributes: [{ name: 'wishlist_session_id', value: who.sessionId }],
    line_items: lines.map(({ product, quantity }) => ({
      product_id: Number(product.id),
      variant_id: Number(product.variantId),
      quantity,
      current_quantity: quantity,
      price: product.prices[currency],
      total_discount: '0.00',
      discount_allocations: [],
    })),
  };
}
