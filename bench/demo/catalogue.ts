// What the shop sells: some products that everyone looks at, and many that few do.

export interface Product {
  readonly id: string;
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

/** 200 products, the popular ones first. */
export const CATALOGUE: readonly Product[] = COLOURS.flatMap((colour, c) =>
  THINGS.map((thing, n) => ({
    id: String(7_000_000_000 + c * THINGS.length + n),
    handle: `${colour}-${thing.replaceAll(' ', '-')}`,
    title: `${colour[0]?.toUpperCase()}${colour.slice(1)} ${thing}`,
    price: `${9 + ((c * 7 + n * 13) % 90)}.${n % 2 === 0 ? '90' : '50'}`,
  })),
);
