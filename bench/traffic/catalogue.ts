// What the benchmark's shop sells: 500 products, the popular ones first, as Shopify describes them.

import { createRandom, type Random, zipf } from '../demo/random.js';

export interface Product {
  readonly productId: string;
  readonly variantId: string;
  readonly handle: string;
  readonly title: string;
  readonly variantTitle: string;
  /** Decimal texts, two decimals. */
  readonly price: string;
  readonly compareAt: string;
  readonly image: string;
}

const LOOKS =
  'classic slim oversized vintage organic recycled striped plain heavy light quilted washed cropped relaxed tailored ribbed brushed waxed printed knitted hooded padded lined soft sheer'.split(
    ' ',
  );
const THINGS =
  'sneaker rain-jacket wool-scarf linen-shirt backpack t-shirt hoodie chino dress skirt beanie sunglasses parka cardigan belt wallet sandal boot tote-bag swim-short'.split(
    ' ',
  );

export const CATALOGUE: readonly Product[] = LOOKS.flatMap((look, l) =>
  THINGS.map((thing, t) => describe(`${look}-${thing}`, l * THINGS.length + t)),
);

function describe(handle: string, n: number): Product {
  const random = createRandom(n + 1);
  const euros = 9 + Math.floor(random.next() * 140);
  const title = handle.replace(/(^|-)([a-z])/g, (_, dash: string, letter: string) =>
    (dash && ' ').concat(letter.toUpperCase()),
  );
  const version = 1_690_000_000 + Math.floor(random.next() * 50_000_000);
  return {
    productId: `gid://shopify/Product/${8_123_000_000_000 + n * 32_768}`,
    variantId: `gid://shopify/ProductVariant/${44_567_000_000_000 + n * 98_304}`,
    handle,
    title,
    variantTitle: `${random.pick(['S', 'M', 'L', 'XL'])} / ${random.pick(['Black', 'Sand', 'Navy', 'Olive'])}`,
    price: `${euros}.${random.pick(['00', '90', '95'])}`,
    compareAt: `${euros + 20}.00`,
    image: `https://cdn.shopify.com/s/files/1/0533/2089/7744/files/${handle}_1024x1024.jpg?v=${version}`,
  };
}

const popular = zipf(CATALOGUE.length);

export function popularProduct(random: Random): Product {
  return CATALOGUE[popular(random)] as Product;
}
