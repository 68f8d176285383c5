// The shop's pages, as docs/storefront.md has them: a grid of products with hearts, a page of each, and the wishlist, or a friend's.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CATALOGUE, type Product } from './catalogue.js';

const STOREFRONT_KEY = 'pk_demo_0123456789abcdef';
const ON_THE_FIRST_PAGE = 12;
const SMART_SAVE_FROM = 3;

/** A shop without pages yet, on a free port: the service must know its address when it starts. */
export async function createStorefront() {
  let service = '';
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://shop');
    const picture = /^\/images\/(.+)\.svg$/.exec(pathname)?.[1];
    const body = picture === undefined ? storefrontPage(pathname, service) : pictureOf(picture);
    const type = picture === undefined ? 'text/html' : 'image/svg+xml';
    if (service === '' || body === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': `${type}; charset=utf-8` }).end(body);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    /** Settings of the service whose kit its pages load. */
    settings: {
      PUBLISHABLE_KEYS: STOREFRONT_KEY,
      ALLOWED_ORIGINS: origin,
      SHOP_URL: origin,
      SHARE_URL: `${origin}/wishlist?code={code}`,
    },
    /** From now on it has pages, with the kit of the service at `url`. */
    open(url: string) {
      service = url;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** @returns undefined if the shop has no such page */
export function storefrontPage(path: string, service: string, key = STOREFRONT_KEY): string | undefined {
  const [, first = '', second = ''] = path.split('/');
  if (first === '') return page('Twelve things', service, key, grid());
  if (first === 'wishlist')
    return page('Wishlist', service, key, '<wishlist-page cart="demo" sortable></wishlist-page>');
  const product = CATALOGUE.find(({ handle }) => handle === second);
  if (first !== 'products' || product === undefined) return undefined;
  const body = `<img src="/images/${product.handle}.svg" alt=""><p>€${product.prices.EUR} ${heart(product, `smart-save="${SMART_SAVE_FROM}"`)}`;
  return page(product.title, service, key, body, `data-product-handle="${product.handle}"`);
}

function heart({ id, variantId, handle, title, prices }: Product, more = ''): string {
  return `<wishlist-heart product-id="${id}" variant-id="${variantId}" handle="${handle}" name="${title}" image="/images/${handle}.svg"
    price="${prices.EUR}" currency="EUR" ${more}></wishlist-heart>`;
}

function grid(): string {
  const cards = CATALOGUE.slice(0, ON_THE_FIRST_PAGE).map((product) => {
    const { handle, title, prices } = product;
    return `<li><a href="/products/${handle}"><img src="/images/${handle}.svg" alt="">${title}</a>
    <p>€${prices.EUR} ${heart(product, 'source="collection"')}`;
  });
  return `<ul class="grid">${cards.join('')}</ul>`;
}

const STYLE = `
  :root { color-scheme: light dark }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: auto; padding: 16px }
  header { display: flex; justify-content: space-between }
  a { color: inherit }
  img { display: block; width: 100%; max-width: 320px; border-radius: 8px }
  .grid { list-style: none; padding: 0; display: grid; gap: 24px 16px; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)) }
  p { display: flex; align-items: center; justify-content: space-between; max-width: 320px; margin: 0 }
  wishlist-heart { display: inline-block; min-width: var(--wl-size, 44px); height: var(--wl-size, 44px); vertical-align: middle }`;

function page(title: string, service: string, key: string, body: string, tag = ''): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>${title}</title>
<style>${STYLE}</style>
<script async src="${service}/wishlist.js" data-key="${key}" ${tag}></script>
<header><a href="/">Shop</a> <a href="/wishlist">Wishlist <wishlist-count></wishlist-count></a></header>
<main><h1>${title}</h1>${body}</main>
<script>
  // This shop has no cart: a real one adds the item here.
  addEventListener('wishlist:cart', ({ detail }) => { detail.promise = Promise.resolve(); });
</script>
</html>`;
}

/** A plain picture of a product, in the colour of its name. */
function pictureOf(handle: string): string {
  const [colour = '', ...thing] = handle.split('-');
  const known: Readonly<Record<string, string>> = { rust: '#b7410e', sand: '#c2b280' };
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><rect width="100" height="100" fill="${known[colour] ?? colour}"/>
  <text x="50" y="54" font-size="11" font-family="sans-serif" text-anchor="middle" fill="#fff" stroke="#0008" stroke-width="2" paint-order="stroke">${thing.join(' ')}</text></svg>`;
}
