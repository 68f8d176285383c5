// What the benchmark's shop sells: 500 products, the popular ones first, as Shopify describes them.

import { createRandom, type Random, zipf } from '../demo/random.js';

export interface Product {
  readonly productId: string;
  readonly variantId: string;
  readonly productHandle: string;
  readonly productTitle: string;
  readonly variantTitle: string;
  /** Decimal texts, two decimals. */
  readonly price: string;
  readonly compareAt: string;
  readonly image: string;
}

const THINGS = ['Sneaker', 'Rain Jacket', 'Wool Scarf', 'Linen Shirt', 'Backpack', 'Hoodie', 'Swim Short'];

const CATALOGUE: readonly Product[] = Array.from({ length: 500 }, (_, n) => {
  const productTitle = `${THINGS[n % THINGS.length]} ${100 + n}`;
  const productHandle = productTitle.toLowerCase().replaceAll(' ', '-');
  const euros = 9 + Math.floor(createRandom(n).next() * 140);
  return {
    productId: `gid://shopify/Product/${8_123_000_000_000 + n * 32_768}`,
    variantId: `gid://shopify/ProductVariant/${44_567_000_000_000 + n * 98_304}`,
    productHandle,
    productTitle,
    variantTitle: 'M / Black',
    price: `${euros}.90`,
    compareAt: `${euros + 20}.00`,
    image: `https://cdn.shopify.com/s/files/1/0533/2089/7744/files/${productHandle}_1024x1024.jpg?v=1690000000`,
  };
});

const popular = zipf(CATALOGUE.length);

export function popularProduct(random: Random): Product {
  return CATALOGUE[popular(random)] as Product;
}
