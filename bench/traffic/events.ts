// What visitors do with their wishlists, as bodies of POST /event. Visitors come in sessions: a few events
// each, close together, among some thousands of others who are in the shop at the same time.

import { createRandom, type Random } from '../demo/random.js';
import { type Product, popularProduct } from './catalogue.js';
import { customerId, sessionId, uuid } from './people.js';

export interface EventBody {
  readonly identity: {
    readonly customerId: string | null;
    readonly sessionId: string;
    readonly device: string;
    readonly locale: string;
  };
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface Crowd {
  readonly visitors: number;
  /** Share of visitors who have signed in, from 0 to 1. */
  readonly signedIn: number;
}

const IN_THE_SHOP = 2_000;
const EVENTS_PER_SESSION = 4;

const TYPES: readonly [type: string, share: number][] = [
  ['add', 0.6],
  ['remove', 0.18],
  ['moveToCart', 0.13],
  ['share', 0.06],
  ['autoRemoveAfterPurchase', 0.03],
];

/** The same endless stream of events for the same seed. */
export function* eventStream(seed: number, { visitors, signedIn }: Crowd): Generator<EventBody, never> {
  const random = createRandom(seed);
  const arrive = () => ({
    identity: identityOf(Math.floor(random.next() * visitors), signedIn),
    left: 1 + Math.floor(-Math.log(1 - random.next()) * (EVENTS_PER_SESSION - 1)),
  });
  const shop = Array.from({ length: IN_THE_SHOP }, arrive);
  for (;;) {
    const place = Math.floor(random.next() * IN_THE_SHOP);
    const visitor = shop[place] as ReturnType<typeof arrive>;
    const type = typeOf(random);
    yield { identity: visitor.identity, type, payload: payloadOf(type, popularProduct(random), random) };
    if (--visitor.left <= 0) shop[place] = arrive();
  }
}

function identityOf(visitor: number, signedIn: number): EventBody['identity'] {
  const random = createRandom(visitor + 1);
  return {
    customerId: random.chance(signedIn) ? customerId(visitor) : null,
    sessionId: sessionId(visitor),
    device: random.chance(0.65) ? 'mobile' : 'desktop',
    locale: random.pick(['en', 'en', 'en', 'de', 'fr']),
  };
}

function typeOf(random: Random): string {
  let at = random.next();
  for (const [type, share] of TYPES) {
    at -= share;
    if (at < 0) return type;
  }
  return 'add';
}

/** service.md 2.3, and for what it leaves free what our own operations write. */
function payloadOf(type: string, product: Product, random: Random): Record<string, unknown> {
  const { productId, variantId, price, compareAt, image } = product;
  switch (type) {
    case 'moveToCart':
      return {
        productId,
        variantId,
        productHandle: product.handle,
        productTitle: product.title,
        variantTitle: product.variantTitle,
        quantity: random.chance(0.85) ? 1 : 2,
        price,
        compareAt,
        image,
      };
    case 'share': {
      const shareCode = uuid(random).replaceAll('-', '').slice(0, 12);
      const shareLink = `https://shop.example/apps/wishlist/wishlist/share/${shareCode}`;
      return {
        channel: random.pick(['Link', 'Link', 'Email', 'Facebook', 'Pinterest']),
        shareCode,
        shareLink,
      };
    }
    case 'autoRemoveAfterPurchase': {
      const orderId = String(5_600_000_000_000 + Math.floor(random.next() * 1e9));
      return { orderId, productId, variantId, quantity: 1, price };
    }
    default:
      return { productId, variantId, source: random.pick(['pdp', 'pdp', 'collection', 'pdpSmartSave']) };
  }
}

/** The first `count` of a stream, made as they are taken. */
export function* firstEvents(count: number, seed: number, crowd: Crowd): Generator<EventBody> {
  const stream = eventStream(seed, crowd);
  for (let n = 0; n < count; n++) yield stream.next().value;
}
