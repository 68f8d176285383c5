// <wishlist-heart> and <wishlist-count>.
const elements = new Set();

/** Sets states as `state` and as `:state()`. @param names those that hold */
function show(element, names, why) {
  const old = element.getAttribute('state') || '';
  const now = names.join(' ');
  if (why) element.setAttribute('why', why);
  else element.removeAttribute('why');
  if (old === now) return;
  element.setAttribute('state', now);
  const { states } = element.internals;
  try {
    for (const name of old.split(' ')) states.delete(name);
    for (const name of names) states.add(name);
  } catch (_) {}
  fire(element, 'state', { states: names, why });
}

class Painted extends HTMLElement {
  connectedCallback() {
    if (!this.shadowRoot) {
      this.internals = this.attachInternals();
      this.build();
    }
    elements.add(this);
    this.paint();
    askSoon();
  }

  disconnectedCallback() {
    elements.delete(this);
  }
}

let isSoon = false;
/** Asks for all elements that came together. */
function askSoon() {
  if (isSoon) return;
  isSoon = true;
  setTimeout(() => {
    isSoon = false;
    refresh(isReady && 'other-tab');
  }, 20);
}

const decimal = (value) => (Number.isFinite(parseFloat(value)) ? parseFloat(value).toFixed(2) : null);
const absolute = (url) => (url ? new URL(url, document.baseURI).href : null);

/** The chosen variant of Shopify's product JSON (prices in cents) as an item. */
function fromShopify(product, variantId) {
  const variant = product.variants.find(({ id }) => String(id) === plainId(variantId)) || product.variants[0];
  const image = Object(variant.featured_image).src || product.featured_image;
  return {
    productId: String(product.id),
    variantId: String(variant.id),
    productHandle: product.handle,
    productTitle: product.title,
    variantTitle: product.variants.length > 1 ? variant.title : null,
    image: absolute(image),
    price: decimal(variant.price / 100),
    compareAt: variant.compare_at_price ? decimal(variant.compare_at_price / 100) : null,
    inventoryAvailable: variant.available,
  };
}

class Heart extends Painted {
  static get observedAttributes() {
    return ['product-id', 'variant-id', 'name', 'for', 'match', 'variant-from'];
  }

  attributeChangedCallback() {
    if (!this.shadowRoot) return;
    this.paint();
    askSoon();
  }

  build() {
    const slot = make('slot', { name: 'icon' }, icon());
    this.button = make(
      'button',
      { type: 'button', part: 'button', class: 'h', onClick: () => this.toggle() },
      slot,
    );
    this.button.append(make('span', { part: 'label' }, make('slot', {})));
    shadow(this, HEART_STYLE).append(this.button);
  }

  /** What /item/add takes; productId is empty where the element names none. */
  item() {
    const get = (name) => this.getAttribute(name);
    const chosen = get('variant-from') && document.querySelector(get('variant-from'));
    const variantId = chosen ? chosen.value : get('variant-id');
    let json;
    try {
      json = get('for') && JSON.parse(document.querySelector(get('for')).textContent);
    } catch (_) {}
    const image = absolute(get('image'));
    const own = {
      productId: plainId(get('product-id')),
      variantId: plainId(variantId) || null,
      productHandle: get('handle') || plainId(get('product-id')),
      productTitle: get('name') || get('handle') || get('product-id'),
      variantTitle: get('variant-name'),
      image,
      price: decimal(get('price') || 0),
      compareAt: decimal(get('compare-at')),
      inventoryAvailable: get('available') !== 'false',
    };
    const item = json && json.variants ? fromShopify(json, variantId) : Object.assign(own, json);
    item.quantity = Number(get('quantity')) || 1;
    item.source = get('source') || 'pdp';
    const currency = get('currency') || Object(Object(window.Shopify).currency).active;
    if (currency) item.currencyCode = currency;
    return item;
  }

  isAny() {
    return this.getAttribute('match') === 'product';
  }

  /** What to ask the service for. */
  check() {
    const { productId, variantId } = this.item();
    return { productId, variantId: this.isAny() ? null : variantId };
  }

  paint() {
    const item = this.item();
    const saved = savedKey(item, this.isAny());
    const k = saved || keyOf(item);
    const why = whyOff();
    const isOff = why || (off && !answered.size && !cache.at && off);
    const names = [];
    if (isOff) names.push('off');
    else if (!answered.has(keyOf(this.check())) && !answered.has('*') && !cache.at && !isPending(k))
      names.push('loading');
    if (saved && !why) names.push('saved');
    if (isPending(k)) names.push('pending');
    if (problem === k) names.push('error');
    show(this, names, isOff || (off === 'offline' && off));
    this.button.setAttribute('aria-pressed', String(Boolean(saved && !why)));
    this.button.setAttribute('aria-label', text(this, 'label', item.productTitle));
    if (why) this.button.setAttribute('aria-disabled', 'true');
    else this.button.removeAttribute('aria-disabled');
  }

  /** As a click does. @returns whether it was taken */
  toggle(reason = 'click') {
    if (whyOff()) return false;
    const item = this.item();
    const saved = savedKey(item, this.isAny());
    if (!saved) return addItem(item, reason, this);
    return removeItem(Object.assign(item, { variantId: saved.split(/:([\s\S]*)/)[1] || null }), this);
  }
}

/** @returns whether nobody has cancelled it */
function addItem(item, reason = 'click', element = document) {
  if (whyOff() || !fire(element, 'add', { item, reason }, true)) return false;
  enqueue('add', item, reason);
  if (element !== document) announce(text(element, 'added'));
  return true;
}

function removeItem(item, element = document, event = undefined) {
  if (whyOff() || !fire(element, 'remove', { item, event }, true)) return false;
  const { productId, variantId, productHandle } = item;
  enqueue('remove', Object.assign({ productId, variantId, productHandle }, event && { event }), 'click');
  if (element !== document && !event) announce(text(element, 'removed'));
  return true;
}

class Count extends Painted {
  build() {
    this.text = make('span', { part: 'badge', 'aria-hidden': 'true' });
    this.label = make('span', { class: 'v' });
    shadow(this, COUNT_STYLE).append(this.text, this.label);
  }

  paint() {
    const count = whyOff() ? 0 : countNow();
    const max = Number(this.getAttribute('max')) || Infinity;
    this.text.textContent = count === undefined ? '' : count > max ? `${max}+` : count;
    this.label.textContent = count === undefined ? '' : text(this, 'count', count);
    this.toggleAttribute('zero', !count && this.hasAttribute('hide-zero'));
    show(this, count === undefined ? ['loading'] : []);
  }
}
