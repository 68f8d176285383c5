// How one visitor spends the afternoon: looks at products, comes back to some, takes Smart Save's offer or
// turns it down, signs in half-way perhaps, and deals with the wishlist before leaving. One thing at a time,
// as people do.

import { type Currency, type Product, popularProduct } from './catalogue.js';
import type { Checks } from './check.js';
import { Belongings, type Diary, type Saved } from './diary.js';
import type { Shop } from './http-shop.js';
import { createRandom, type Random } from './random.js';
import { CHANNELS, type OrderLine, type Shopper, type Source, type Wish } from './shop.js';

/** Visits of one product at which Smart Save offers to save it. */
const SMART_SAVE_AT = 2;

/** Of twenty visitors twelve see prices in euros, five in dollars, three in yen. */
function currencyOf(visitor: number): Currency {
  if (visitor % 20 < 12) return 'EUR';
  return visitor % 20 < 17 ? 'USD' : 'JPY';
}

/** The customer's id: proof.ts finds the visitor by either id. */
const customerOf = (visitor: number) => String(1_000_000 + visitor);

/** A visitor at one device. */
interface Stay {
  readonly shop: Shop;
  readonly random: Random;
  readonly diary: Diary;
  readonly checks: Checks;
  readonly currency: Currency;
  who: Shopper;
  own: Belongings;
}

/** Writes the diary while it goes on. @throws what the shop throws */
export async function spendAfternoon(shop: Shop, diary: Diary, checks: Checks): Promise<void> {
  const { number } = diary;
  const random = createRandom(number);
  const customerId = customerOf(number);
  const guest: Shopper = {
    sessionId: `demo-${number}`,
    customerId: null,
    device: random.chance(0.65) ? 'mobile' : 'desktop',
    locale: random.pick(['en', 'en', 'en', 'de', 'fr']),
  };
  const currency = currencyOf(number);
  const views = 1 + Math.floor(-Math.log(1 - random.next()) * 3);
  const arrive = (who: Shopper): Stay => {
    diary.appearances.push(who);
    return { shop, random, diary, checks, currency, who, own: new Belongings() };
  };

  const habit = random.next();
  let stay: Stay;
  if (habit < 0.65) {
    stay = arrive(guest);
    await browse(stay, views);
  } else if (habit < 0.8) {
    stay = arrive({ ...guest, customerId });
    await browse(stay, views);
  } else {
    const exists = habit >= 0.9;
    const before = exists
      ? arrive({ ...guest, sessionId: `${guest.sessionId}-before`, customerId })
      : undefined;
    if (before) await browse(before, 1 + Math.floor(views / 2));
    if (before) await perhapsShare(before);
    stay = arrive(guest);
    await browse(stay, 1 + Math.floor(views / 2));
    await perhapsShare(stay);
    await signIn(stay, customerId, before?.own);
    await browse(stay, 1 + Math.floor(views / 2));
  }
  await dealWithWishlist(stay);
  if (random.chance(0.06)) await buy(stay);
  diary.left = stay.own;
}

async function browse(stay: Stay, views: number): Promise<void> {
  const { shop, random, checks, currency, who, own } = stay;
  for (let view = 0; view < views; view++) {
    const again = own.counts.size > 0 && random.chance(0.4);
    const product = again ? random.pick([...own.counts.keys()]) : popularProduct(random);
    const expected = (own.counts.get(product) ?? 0) + 1;
    own.counts.set(product, expected);
    checks.counts.count(who, product, expected, await shop.visit(who, product));

    const count = await shop.count(who, product);
    checks.counts.count(who, product, expected, count);
    const [saved] = own.savedOf(product);
    if (saved) {
      if (random.chance(0.1)) await save(stay, { ...saved, quantity: saved.quantity + 1 }, 'wishlist');
    } else if (count >= SMART_SAVE_AT && random.chance(0.22)) {
      await save(stay, wishFor(product, currency, random), 'pdpSmartSave');
    } else if (count >= SMART_SAVE_AT && random.chance(0.2)) {
      await shop.resetCount(who, product);
      own.counts.set(product, 0);
    } else if (random.chance(0.04)) {
      const wish = wishFor(product, currency, random);
      if (random.chance(0.8)) await save(stay, wish, 'pdp');
      else await save(stay, { ...wish, variantId: null }, 'collection');
    }
  }
}

function wishFor(product: Product, currency: Currency, random: Random): Wish {
  return { product, variantId: product.variantId, quantity: random.chance(0.85) ? 1 : 2, currency };
}

async function save({ shop, diary, who, own }: Stay, wish: Wish, source: Source): Promise<void> {
  const itemId = await shop.save(who, wish, source);
  own.save({ ...wish, itemId });
  diary.note('add', wish);
}

async function lookAtWishlist({ shop, checks, who, own }: Stay): Promise<void> {
  checks.wishlists.wishlist(who, own, (await shop.wishlist(who)).items);
}

/** @param before what the customer had before, where the shop knows this customer from another device */
async function signIn(stay: Stay, customerId: string, before: Belongings | undefined): Promise<void> {
  const { shop, random, diary, checks } = stay;
  await lookAtWishlist(stay);
  const who = { ...stay.who, customerId };
  stay.who = who;
  diary.appearances.push(who);
  // Some shops tell of a login, others let the next visit say it.
  if (random.chance(0.5)) {
    checks.wishlists.same(who, 'has become one profile', true, await shop.signIn(who));
  }
  if (before === undefined) return;
  before.takeIn(stay.own);
  stay.own = before;
}

async function perhapsShare({ shop, random, diary, checks, who, own }: Stay): Promise<void> {
  if (own.saved.size === 0 || !random.chance(0.25)) return;
  const channel = random.pick(CHANNELS);
  const code = await shop.share(who, channel);
  diary.note('share');
  if (own.codes[0] === undefined) own.codes.push(code);
  checks.wishlists.same(who, 'share code', own.codes[0] as string, code);
  if (random.chance(0.5)) checks.wishlists.wishlist(who, own, (await shop.shared(code)).items);
}

async function dealWithWishlist(stay: Stay): Promise<void> {
  const { random, own } = stay;
  await perhapsShare(stay);
  if (random.chance(0.3)) await lookAtWishlist(stay);
  for (const item of [...own.saved.values()]) {
    if (random.chance(0.35)) await takeOff(stay, item, 'moveToCart');
    else if (random.chance(0.2)) await takeOff(stay, item, 'remove');
  }
}

async function takeOff(stay: Stay, item: Saved, why: 'remove' | 'moveToCart'): Promise<void> {
  const { shop, random, diary, checks, who, own } = stay;
  checks.wishlists.same(who, `${why} of what is there`, true, await shop.takeOff(who, item, why));
  own.takeOff(item);
  diary.note(why, item);
  // A double click, which is no second event.
  if (random.chance(0.1)) {
    checks.wishlists.same(who, `${why} of what is gone`, false, await shop.takeOff(who, item, why));
  }
}

/** Buys some of what is on the wishlist, and something that need not be there. */
async function buy(stay: Stay): Promise<void> {
  const { shop, random, diary, currency, who, own } = stay;
  const wished = [...own.saved.values()].filter(() => random.chance(0.7)).map(({ product }) => product);
  const products = new Set([...wished, popularProduct(random)]);
  const lines = [...products].map(
    (product): OrderLine => ({ product, quantity: random.chance(0.8) ? 1 : 3 }),
  );
  const deliver = shop.order(who, customerOf(diary.number), currency, lines);
  await deliver();
  for (const item of lines.flatMap(({ product }) => own.savedOf(product))) {
    own.takeOff(item);
    own.counts.delete(item.product);
    diary.note('autoRemoveAfterPurchase', item);
  }
  // Saved again for the next time: the same order, delivered once more, must leave it there.
  if (random.chance(0.5)) {
    await save(stay, wishFor((lines[0] as OrderLine).product, currency, random), 'pdp');
    await deliver();
  }
}
