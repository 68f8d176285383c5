// The shop's products: a few popular ones, and many with few visits.

export interface Product {
  readonly id: string;
  /** The one variant that each product has. */
  readonly variantId: string;
  readonly handle: string;
  readonly title: string;
  /** Decimal text, two decimals. */
  readonly price: string;
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
    return {
      id: String(7_000_000_001 + n),
      variantId: String(8_000_000_001 + n),
      handle: title.replaceAll(' ', '-'),
      title,
      price: `${9 + ((n * 37) % 90)}.${n % 2 === 0 ? '90' : '50'}`,
    };
  },
);
