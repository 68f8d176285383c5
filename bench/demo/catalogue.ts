// The shop's products: a few popular ones, and many with few visits. Prices are in the currency of the visitor's country,
// as Shopify has them: text with two decimals, also of yen, of which there are only whole ones.

import type { Random } from './random.js';

export const CURRENCIES = ['EUR', 'USD', 'JPY'] as const;
export type Currency = (typeof CURRENCIES)[number];

export interface Product {
  readonly id: string;
  /** The one variant that each product has. */
  readonly variantId: string;
  readonly handle: string;
  readonly title: string;
  /** Decimal text, two decimals. */
  readonly prices: Readonly<Record<Currency, string>>;
}

const COLOURS = ['red', 'navy', 'olive', 'sand', 'black', 'white', 'plum', 'teal', 'rust', 'grey'];
const THINGS = [
  'sneaker',
  'rain jacket',
  'wool scarf',
  'linen shirt',
  'backpack',
  'desk lamp',
  'teapot',
  'notebook',
  'beanie',
  'sunglasses',
  'yoga mat',
  'water bottle',
  'candle',
  'blanket',
  'wrist watch',
  'skateboard',
  'apron',
  'umbrella',
  'wallet',
  'headphones',
];

/** 200 products, the popular ones first; every thing comes in every colour. */
export const CATALOGUE: readonly Product[] = Array.from(
  { length: COLOURS.length * THINGS.length },
  (_, n) => {
    const thing = THINGS[n % THINGS.length] as string;
    const round = Math.floor(n / THINGS.length);
    const colour = COLOURS[(round + 3 * n) % COLOURS.length] as string;
    const title = `${colour} ${thing}`;
    const units = 9 + ((n * 37) % 90);
    return {
      id: String(7_000_000_001 + n),
      variantId: String(8_000_000_001 + n),
      handle: title.replaceAll(' ', '-'),
      title,
      prices: {
        EUR: `${units}.${n % 2 === 0 ? '90' : '50'}`,
        USD: `${units + 2}.${n % 2 === 0 ? '00' : '50'}`,
        // A tenth of it, and a quarter more, are whole yen, too.
        JPY: `${units * 160}.00`,
      },
    };
  },
);

const upTo: number[] = [];
for (const rank of CATALOGUE.keys()) upTo.push((upTo.at(-1) ?? 0) + 1 / (rank + 1));

/** By Zipf's law: the first is picked twice as often as the second, three times as often as the third. */
export function popularProduct(random: Random): Product {
  const at = random.next() * (upTo.at(-1) as number);
  return CATALOGUE[upTo.findIndex((sum) => at < sum)] as Product;
}
