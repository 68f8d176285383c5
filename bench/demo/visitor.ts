// How one visitor spends the afternoon: looks at products, comes back to some, takes Smart Save's offer or
// turns it down, and deals with the wishlist before leaving. One thing at a time, as people do.

import { CATALOGUE, type Product } from './catalogue.js';
import { createRandom, type Random, zipf } from './random.js';
import { CHANNELS, type Shop, type Shopper } from './shop.js';

/** Visits of one product at which Smart Save offers to save it. */
const SMART_SAVE_AT = 2;

const popular = zipf(CATALOGUE.length);

/** Checks one count; `expected` is what this visitor knows it to be. */
export type CheckCount = (who: Shopper, product: Product, expected: number, got: number) => void;

/** Resolves to what the visitor's counts should be afterwards. @throws what the shop throws */
export async function spendAfternoon(
  shop: Shop,
  run: string,
  number: number,
  check: CheckCount,
): Promise<{ who: Shopper; counts: Map<Product, number> }> {
  const random = createRandom(number);
  const who = shopper(run, number, random);
  const counts = new Map<Product, number>();
  const wishlist = new Set<Product>();
  const views = 1 + Math.floor(-Math.log(1 - random.next()) * 4);

  for (let view = 0; view < views; view++) {
    const again = counts.size > 0 && random.chance(0.4);
    const product = again ? random.pick([...counts.keys()]) : popularProduct(random);
    const expected = (counts.get(product) ?? 0) + 1;
    counts.set(product, expected);
    check(who, product, expected, await shop.visit(who, product));

    const count = await shop.count(who, product);
    check(who, product, expected, count);
    if (wishlist.has(product)) continue;
    if (count >= SMART_SAVE_AT && random.chance(0.5)) {
      wishlist.add(product);
      await shop.add(who, product, 'pdpSmartSave');
    } else if (count >= SMART_SAVE_AT && random.chance(0.2)) {
      await shop.resetCount(who, product);
      counts.set(product, 0);
    } else if (random.chance(0.15)) {
      wishlist.add(product);
      await shop.add(who, product, random.chance(0.8) ? 'pdp' : 'collection');
    }
  }

  if (wishlist.size > 0 && random.chance(0.25)) await shop.share(who, random.pick(CHANNELS));
  for (const product of wishlist) {
    if (random.chance(0.35)) await shop.moveToCart(who, product, random.chance(0.85) ? 1 : 2);
    else if (random.chance(0.2)) await shop.remove(who, product);
  }
  return { who, counts };
}

function popularProduct(random: Random): Product {
  return CATALOGUE[popular(random)] as Product;
}

function shopper(run: string, number: number, random: Random): Shopper {
  return {
    sessionId: `${run}-s${number}`,
    customerId: random.chance(0.2) ? `${run}-c${number}` : null,
    device: random.chance(0.65) ? 'mobile' : 'desktop',
    locale: random.pick(['en', 'en', 'en', 'de', 'fr']),
  };
}
