// Reads a heart's product from its attributes, its `for` and its `variant-from`, and amounts as shops show them.
const warned = new Set();
/** Each warning is logged once, because elements are painted often. */
function warn(message) {
  if (!warned.has(message)) console.warn(`wishmeter: ${message}`);
  warned.add(message);
}

// ISO 4217.
const THREE_DECIMALS = /BHD|IQD|JOD|KWD|LYD|OMR|TND/i;

/**
 * Reads `49.90`, `$1,299.00`, `1.299,00 €`, `1'299.–`. One separator before three digits groups thousands, except in
 * currencies with three decimals.
 * @returns two decimals; null for an amount that it can't read, so that no wrong price is saved
 */
function decimal(value, currency) {
  if (value === null || value === undefined || value === '') return null;
  if (typeof value === 'number') return value >= 0 ? value.toFixed(2) : null;
  const [, sign, shown = ''] = /^([^\d−-]*)(\d[\d.,\s'’]*?)\D*$/.exec(value) || [];
  let amount = /[\s'’](?!\d{3}(?!\d))/.test(shown) ? '' : shown.replace(/[\s'’]/g, '');
  if (
    /^[1-9]\d{0,2}([.,])(\d{2,3}\1)*\d{3}$/.test(amount) &&
    !(amount.length < 8 && THREE_DECIMALS.test(currency))
  )
    amount = amount.replace(/[.,]/g, '');
  // A comma is the decimal separator if the amount makes no sense otherwise.
  const isRead = () => /^(\d+|\d{1,3}(,\d{2,3})*,\d{3})(\.\d+)?$/.test(amount);
  if (!isRead()) amount = amount.replace(/[.,]/g, (one) => (one === '.' ? ',' : '.'));
  if (isRead() && !/(^|\P{L})[.,]$/u.test(sign)) return Number(amount.replaceAll(',', '')).toFixed(2);
  warn(`can't read the price "${value}"`);
  return null;
}

/** @returns the item with two decimals; price is null if it can't be read */
const priced = ({ price, compareAt, ...item }) => ({
  ...item,
  price: decimal(price, item.currencyCode),
  compareAt: decimal(compareAt, item.currencyCode),
});

const absolute = (url) => url && new URL(url, document.baseURI).href;

function fromShopify(product, variantId) {
  const { variants } = product;
  const variant = variants.find(({ id }) => String(id) === plainId(variantId)) || variants[0] || product;
  const inCents = (amount) => (amount ? decimal(amount / 100) : null);
  return {
    productId: String(product.id),
    variantId: variants[0] ? String(variant.id) : null,
    productHandle: product.handle,
    productTitle: product.title,
    variantTitle: variants[1] ? variant.title : null,
    image: absolute(variant.featured_image?.src || product.featured_image),
    price: inCents(variant.price) || '0.00',
    compareAt: inCents(variant.compare_at_price),
    inventoryAvailable: variant.available,
  };
}

/** @returns an element of the page, or undefined; a wrong selector or JSON is a warning */
function find(selector, read = (element) => element) {
  try {
    return selector ? read(document.querySelector(selector)) : undefined;
  } catch (error) {
    warn(`"${selector}": ${error.message}`);
  }
}

/** @returns the chosen field, radio button or option, whose `data-*` replace the heart's attributes */
function chosenBy(selector) {
  const field = find(selector);
  if (field?.type !== 'radio') return field?.selectedOptions?.[0] || field;
  const { name } = field;
  return [...document.querySelectorAll('[type=radio]:checked')].find((one) => one.name === name) || field;
}

/** @returns the item for /item/add; productId may be empty, and price null if it can't be read */
function itemOf(heart) {
  const chosen = chosenBy(heart.getAttribute('variant-from'));
  const get = (name) => chosen?.getAttribute(`data-${name}`) ?? heart.getAttribute(name);
  const variantId = chosen ? chosen.value : get('variant-id');
  const json = find(get('for'), (element) => JSON.parse(element.textContent));
  const currency = get('currency') || json?.currencyCode || window.Shopify?.currency?.active;
  const productId = plainId(get('product-id'));
  const productHandle = get('handle') || productId;
  const own = {
    productId,
    variantId: plainId(variantId) || null,
    productHandle,
    productTitle: get('name') || productHandle,
    variantTitle: get('variant-name') || chosen?.text?.trim(),
    image: absolute(get('image')),
    price: get('price') || 0,
    compareAt: get('compare-at'),
    inventoryAvailable: get('available') !== 'false',
    ...json,
  };
  return {
    ...(json?.variants ? fromShopify(json, variantId) : priced({ ...own, currencyCode: currency })),
    quantity: Number(get('quantity')) || 1,
    source: get('source') || 'pdp',
    ...(currency && { currencyCode: currency }),
  };
}
