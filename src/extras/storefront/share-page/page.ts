// The HTML of a shared wishlist, without scripts: a part for a theme's layout, or a whole document.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Html, html, type ImageRule, imageAddress, NOTHING } from '../../../http/html.js';
import type { Item } from '../../../wishlist/item.js';
import type { ItemPage } from '../../../wishlist/item-pages.js';
import { productLink } from '../../shop-links.js';
import type { Language, Notice } from './languages.js';

// The path leads from dist/ to the sources, because styles are not compiled.
const readStyles = (name: string) =>
  readFileSync(
    new URL(`../../../../../src/extras/storefront/share-page/${name}.css`, import.meta.url),
    'utf8',
  ).replace(/\/\*.*?\*\/\s*|^\s+/gms, '');
const PART_STYLES = readStyles('part');
const FRAMED_STYLES = readStyles('frame') + PART_STYLES;

const HEART = 'M12 20.7 4.2 13a5.2 5.2 0 0 1 7.4-7.4l.4.5.4-.5a5.2 5.2 0 0 1 7.4 7.4z';
const ICON = `data:image/svg+xml,${encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="#c2255c" d="${HEART}"/></svg>`,
)}`;
const heart = html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${HEART}"/></svg>`;

export function contentSecurityPolicy({ imageHosts }: Shop): string {
  return [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(FRAMED_STYLES).digest('base64')}'`,
    ['img-src', ...imageHosts.map((host) => `https://${host}`), 'data:'].join(' '),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** Shopify's title of the only variant of a product. */
const NO_VARIANTS = 'Default Title';

export interface Content {
  readonly title: string;
  readonly body: Html;
  readonly image: string | undefined;
}

export interface Shop extends ImageRule {
  /** May be empty. */
  readonly name: string;
  /** Has `{handle}`, and may have `{variant}`. */
  readonly productUrl: string;
}

export function showItems(page: ItemPage, language: Language, shop: Shop): Content {
  const { items } = page;
  const { texts } = language;
  const [before = '', after = ''] = texts.titleOf.split('#');
  const title = shop.name === '' ? texts.title : before + shop.name + after;
  if (items.length === 0) return { ...showNotice(texts.empty, language, shop), title };
  const heading = shop.name === '' ? html`${title}` : html`${before}<bdi>${shop.name}</bdi>${after}`;
  const body = html`<header><h1>${heading}</h1><p>${language.count(page.total)}</p></header>
<ul role="list">${items.map((item) => showItem(item, language, shop))}</ul>
${showPages(page, language)}`;
  return { title, body, image: imageAddress(items[0]?.image ?? null, shop) };
}

/** Links are relative, so that they go through the app proxy, which signs them. */
function showPages({ number, pages }: ItemPage, language: Language): Html {
  if (pages === 1) return NOTHING;
  const { newer, older } = language.texts;
  const link = (rel: string, to: number, text: string) =>
    to < 1 || to > pages ? NOTHING : html`<a rel="${rel}" href="?page=${String(to)}">${text}</a>`;
  return html`<nav class="wm-pages">${link('prev', number - 1, newer)} <span>${language.page(number, pages)}</span> ${link('next', number + 1, older)}</nav>`;
}

export function showNotice({ title, text }: Notice, { texts }: Language, { url }: Shop): Content {
  const body = html`<div class="wm-notice">${heart}<h1>${title}</h1><p>${text}</p>
<a class="wm-button" href="${url}/">${texts.toShop}</a></div>`;
  return { title, body, image: undefined };
}

function showItem(item: Item, language: Language, shop: Shop): Html {
  const { variantTitle, quantity, inventoryAvailable } = item;
  const image = imageAddress(item.image, shop);
  const title = html`${item.productTitle}`;
  const variant = variantTitle && variantTitle !== NO_VARIANTS ? html`${variantTitle}` : undefined;
  const name = variant === undefined ? title : html`${title}, ${variant}`;
  return html`
<li class="wm-item${inventoryAvailable ? '' : ' wm-sold-out'}">
<div class="wm-picture">${
    image === undefined
      ? heart
      : html`<img src="${image}" alt="${name}" width="400" height="500" loading="lazy" decoding="async" referrerpolicy="no-referrer">`
  }</div>
<h2 dir="auto"><a href="${productLink(shop.productUrl, item.productHandle, item.variantId)}" referrerpolicy="no-referrer">${title}</a></h2>
${variant === undefined ? NOTHING : html`<p class="wm-variant" dir="auto">${variant}</p>`}
${quantity > 1 ? html`<p class="wm-quantity">${language.quantity(quantity)}</p>` : NOTHING}
${showPrice(item, language)}
${inventoryAvailable ? NOTHING : html`<p class="wm-badge">${language.texts.soldOut}</p>`}
</li>`;
}

function showPrice({ price, compareAt, currencyCode }: Item, language: Language): Html {
  const { texts } = language;
  const now = language.price(price, currencyCode);
  if (compareAt === null || Number(compareAt) <= Number(price))
    return html`<p class="wm-price"><span class="wm-spoken">${texts.price} </span>${now}</p>`;
  return html`<p class="wm-price wm-sale"><span class="wm-spoken">${texts.salePrice} </span><strong>${now}</strong> <s><span class="wm-spoken">${texts.regularPrice} </span>${language.price(compareAt, currencyCode)}</s></p>`;
}

export function partOf({ body }: Content, language: Language): string {
  return html`<style>${new Html(PART_STYLES)}</style>
${showPart(body, language)}`.text;
}

export function documentOf({ title, body, image }: Content, language: Language, shop: Shop): string {
  const { host } = new URL(shop.url);
  const name = shop.name || host;
  return html`<!doctype html>
<html lang="${language.tag}" dir="ltr">
<head>
<meta charset="utf-8">
<title>${title} · ${host}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta property="og:type" content="website">
<meta property="og:title" content="${title}">
<meta property="og:site_name" content="${name}">
${image === undefined ? NOTHING : html`<meta property="og:image" content="${image}">`}
<link rel="icon" href="${ICON}">
<style>${new Html(FRAMED_STYLES)}</style>
</head>
<body>
<header class="wm-shop"><a href="${shop.url}/">${heart}<bdi>${name}</bdi></a></header>
<main>
${showPart(body, language)}
</main>
</body>
</html>
`.text;
}

function showPart(body: Html, { tag }: Language): Html {
  return html`<section class="wm-share" lang="${tag}" dir="ltr">
${body}
</section>`;
}
