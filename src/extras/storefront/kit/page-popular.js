// How many visitors saved a product: the number beside a heart with `popular`, and <wishlist-popular>. A page works
// without these numbers, so a request that fails is only a warning.
const POPULAR_NAMES = 'saved-by|most-saved';
const POPULAR_TEXTS = {
  en: 'Saved by #|Most wished',
  de: 'Gespeichert von #|Am meisten gewünscht',
  fr: 'Enregistré par #|Les plus désirés',
  es: 'Guardado por #|Los más deseados',
};
const popularSheet = new CSSStyleSheet();
popularSheet.replaceSync(`
h2{font-size:1.25em;margin:0 0 16px}
ul{gap:24px 16px;grid-template-columns:repeat(auto-fill,minmax(min(100%,var(--wl-picture,160px)),1fr))}
wishlist-heart{min-width:var(--wl-size,44px)}
li{grid-template:auto 1fr auto auto/1fr;border:0;padding:0}
.i{width:100%;grid-row:auto}`);
const numberSheet = new CSSStyleSheet();
// One soft shadow is too thin on a photo, so several are layered.
numberSheet.replaceSync(
  `span[part=popular]{text-shadow:${Array(6).fill('0 0 2px var(--h)').join()},0 0 5px var(--h)}`,
);
const MAX_ASKED = 100;

// Product id → number, of all products that were asked for.
const numbers = new Map();
// Hearts with `popular` → their items.
const numbered = new Map();
// The last request of <wishlist-popular>. Hearts wait for it, because its answer may have their numbers.
let topAsked;
let isNumbering;

/** @returns products of the answer, or undefined */
async function askPopular(query) {
  const url = kit.urlOf('popular');
  // Without the key, since all pages may share a cached answer.
  url.search = new URLSearchParams(query);
  try {
    await kit.allowed();
    const answer = await fetch(url);
    const { products, error } = await answer.json();
    if (!answer.ok) throw Error(error);
    for (const { productId, wishers } of products) numbers.set(productId, wishers);
    return products;
  } catch (error) {
    kit.warn(`how many visitors saved a product is unknown: ${error.message}`);
    return undefined;
  }
}

/** Shows a heart's number, after its paint(). Hearts that are added together need only one request. */
function popular(heart, item = heart.item()) {
  numbered.set(heart, item);
  paintNumber(heart, item);
  if (!numbers.has(item.productId)) isNumbering ||= setTimeout(askNumbers, 20);
}

async function askNumbers() {
  await topAsked;
  isNumbering = 0;
  for (const heart of numbered.keys()) if (!heart.isConnected) numbered.delete(heart);
  const ids = new Set([...numbered.values()].map(({ productId }) => productId));
  // Sorted, so that pages with the same products share a cached answer.
  const asked = [...ids].filter((id) => id && !numbers.has(id)).sort();
  for (const id of asked) numbers.set(id, 0);
  for (let i = 0; i < asked.length; i += MAX_ASKED)
    await askPopular(asked.slice(i, i + MAX_ASKED).map((id) => ['productId', id]));
  for (const [heart, item] of numbered) paintNumber(heart, item);
}

function paintNumber(heart, { productId, productTitle }) {
  const { make, text } = kit;
  const wishers = heart.hasAttribute('popular') && numbers.get(productId);
  const shown = wishers ? wishers.toLocaleString(kit.languageOf(heart)) : '';
  if (!heart.number) {
    heart.number = make('span', { part: 'popular' });
    heart.button.append(heart.number);
    const root = heart.shadowRoot;
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, numberSheet];
  }
  heart.number.textContent = shown;
  heart.number.hidden = !shown;
  if (shown)
    heart.button.setAttribute(
      'aria-label',
      `${text(heart, 'label', productTitle)}, ${text(heart, 'saved-by', shown)}`,
    );
}

/** <wishlist-popular> shows the products that most visitors have saved, each with a heart. */
class PopularList {
  constructor(host) {
    const { make, text } = kit;
    this.host = host;
    this.heading = make('h2', { part: 'heading', hidden: '' }, text(host, 'most-saved'));
    this.list = make('ul', { role: 'list', part: 'list' });
    const root = host.shadowRoot;
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, pageSheet, popularSheet];
    root.append(this.heading, this.list);
  }

  // Rows are like a friend's: each has a heart, and no button to remove it.
  isFriend() {
    return true;
  }

  ownItem(item) {
    return item;
  }

  paint() {
    const top = this.host.getAttribute('top') || 12;
    if (top !== this.top) this.ask(top);
    const why = kit.whyOff();
    kit.show(this.host, why ? ['off'] : this.state ? [this.state] : [], why);
    this.list.hidden = Boolean(why || this.state);
    this.heading.hidden = this.list.hidden || !this.heading.textContent;
  }

  async ask(top) {
    this.top = top;
    this.state = 'loading';
    const asked = askPopular({ top });
    topAsked = asked;
    const products = await asked;
    const learnt = products && (await learn(products, this.host));
    if (this.top !== top) return;
    this.state = learnt ? (learnt[0] ? '' : 'empty') : 'error';
    this.list.replaceChildren(...(learnt || []).map((one) => this.row(one)));
    this.paint();
  }

  row({ item, now }) {
    const row = new Row(this, item, now);
    const heart = row.element.querySelector('wishlist-heart');
    // A product counts in any of its variants.
    for (const name of ['match', 'popular']) heart.setAttribute(name, 'product');
    heart.setAttribute('exportparts', 'button,icon,popular,toast');
    return row.element;
  }
}

/** @returns the `item` of each product that the shop sells, and its `now` as in today() */
async function learn(products, host) {
  const { options, warn } = kit;
  try {
    if (options.products) return learnFrom(products, await options.products(products.map(named)));
  } catch (error) {
    warn(`no titles: ${error.message}`);
    return [];
  }
  if (window.Shopify) return (await Promise.all(products.map(learnFromShopify))).filter(Boolean);
  warn(`<${host.localName}> has handles in place of titles, without wishmeterOptions.products`);
  return learnFrom(products, products);
}

const named = ({ productId, productHandle }) => ({ productId, productHandle, variantId: null });

function learnFrom(products, answers) {
  return products.flatMap(({ productId, productHandle }) => {
    const found = answers.find((one) => kit.keyOf({ productId: one.productId }) === kit.keyOf({ productId }));
    const { variantId = null, productTitle = productHandle, image = null, available = true } = found || {};
    if (!found || available === null) return [];
    const currency = found.currencyCode || found.currency;
    const { price = '0.00', compareAt } = found;
    return learntOf({
      productId,
      productHandle,
      variantId,
      productTitle,
      image,
      price: kit.decimal(price, currency),
      compareAt: kit.decimal(compareAt, currency),
      inventoryAvailable: available,
      currencyCode: currency,
    });
  });
}

async function learnFromShopify({ productHandle }) {
  try {
    const product = await shopifyProduct(productHandle);
    if (!product) return undefined;
    return learntOf({ ...kit.fromShopify(product), currencyCode: window.Shopify.currency?.active });
  } catch (error) {
    kit.warn(`no title of ${productHandle}: ${error.message}`);
    return undefined;
  }
}

function learntOf(about) {
  const { price, compareAt, currencyCode, inventoryAvailable } = about;
  return {
    item: { ...about, quantity: 1, source: 'other' },
    now: { price, compareAt, currency: currencyCode, available: inventoryAvailable },
  };
}
