// <wishlist-heart> and <wishlist-count>.
const elements = new Set();

function show(element, names, why) {
  const old = element.getAttribute('state');
  const now = names.join(' ');
  if (why) element.setAttribute('why', why);
  else element.removeAttribute('why');
  if (old === now) return;
  element.setAttribute('state', now);
  try {
    const { states } = element.internals;
    states.clear();
    for (const name of names) states.add(name);
  } catch {}
  fire(element, 'state', { states: names, why });
}

/** One element that fails stops no other. */
function paintAll() {
  for (const element of elements)
    try {
      element.paint();
    } catch (error) {
      warn(error);
    }
}

class Painted extends HTMLElement {
  connectedCallback() {
    if (!this.shadowRoot) {
      this.internals = this.attachInternals();
      this.build();
    }
    elements.add(this);
    paintAll();
    askSoon();
  }

  disconnectedCallback() {
    elements.delete(this);
  }

  attributeChangedCallback() {
    if (this.shadowRoot) this.connectedCallback();
  }
}

let isSoon;
/** Waits a moment, so that elements that are added together need only one request. */
function askSoon() {
  if (isSoon) return;
  isSoon = setTimeout(() => {
    isSoon = 0;
    sync();
  }, 20);
}

const decimal = (value) => (parseFloat(value) >= 0 ? parseFloat(value).toFixed(2) : null);
const absolute = (url) => url && new URL(url, document.baseURI).href;

function fromShopify(product, variantId) {
  const variant = product.variants.find(({ id }) => String(id) === plainId(variantId)) || product.variants[0];
  return {
    productId: String(product.id),
    variantId: String(variant.id),
    productHandle: product.handle,
    productTitle: product.title,
    variantTitle: product.variants[1] ? variant.title : null,
    image: absolute(variant.featured_image?.src || product.featured_image),
    price: decimal(variant.price / 100),
    compareAt: decimal(variant.compare_at_price / 100 || null),
    inventoryAvailable: variant.available,
  };
}

class Heart extends Painted {
  static observedAttributes = ['product-id', 'variant-id', 'name', 'for', 'match', 'variant-from'];

  build() {
    this.button = button('button', make('slot', { name: 'icon' }, icon()), () => this.toggle());
    this.label = make('span', { part: 'label' }, make('slot', {}));
    this.button.append(this.label);
    shadow(this, this.button);
  }

  /** @returns the item for /item/add; its productId may be empty */
  item() {
    const get = (name) => this.getAttribute(name);
    const chosen = get('variant-from') && document.querySelector(get('variant-from'));
    const variantId = chosen ? chosen.value : get('variant-id');
    let json;
    try {
      json = JSON.parse(document.querySelector(get('for')).textContent);
    } catch {}
    const productId = plainId(get('product-id'));
    const productHandle = get('handle') || productId;
    const own = {
      productId,
      variantId: plainId(variantId) || null,
      productHandle,
      productTitle: get('name') || productHandle,
      variantTitle: get('variant-name'),
      image: absolute(get('image')),
      price: decimal(get('price') || 0),
      compareAt: decimal(get('compare-at')),
      inventoryAvailable: get('available') !== 'false',
    };
    const currencyCode = get('currency') || window.Shopify?.currency?.active;
    return {
      ...(json?.variants ? fromShopify(json, variantId) : { ...own, ...json }),
      quantity: Number(get('quantity')) || 1,
      source: get('source') || 'pdp',
      ...(currencyCode && { currencyCode }),
    };
  }

  isAny() {
    return this.getAttribute('match') === 'product';
  }

  /** @returns the ids for /item/check */
  check() {
    const { productId, variantId } = this.item();
    return { productId, variantId: this.isAny() ? null : variantId };
  }

  paint() {
    const item = this.item();
    const saved = savedKey(item, this.isAny());
    const k = keyOf(this.isAny() ? { ...item, variantId: ALL } : item);
    const why = whyOff();
    const isUnknown = !isAnswered(this.check()) && cache.at === undefined;
    const isOff = why || (isUnknown && off);
    const isSaved = Boolean(saved && !why);
    const holds = {
      off: isOff,
      loading: isUnknown && !isOff && !isPending(k),
      saved: isSaved,
      pending: isPending(k),
      error: covers(k, problem) || covers(problem, k),
    };
    const names = Object.keys(holds).filter((name) => holds[name]);
    show(this, names, isOff || (off === 'offline' && off));
    this.label.hidden = !this.textContent.trim();
    this.button.setAttribute('aria-pressed', isSaved);
    this.button.setAttribute('aria-label', text(this, 'label', item.productTitle));
    this.button.setAttribute('aria-disabled', Boolean(why));
  }

  toggle() {
    const item = this.item();
    const saved = savedKey(item, this.isAny());
    if (!saved) addItems([item], 'click', this);
    else removeItems([{ ...item, ...(this.isAny() && { variantId: ALL }) }], this);
  }

  confirmed(isAdded) {
    announce(text(this, isAdded ? 'added' : 'removed'));
  }
}

/** @returns false if there is no wishlist here, or a listener has cancelled the additions */
function addItems(list, reason = 'click', element = document) {
  if (whyOff() || !fire(element, 'add', { item: list[0], items: list, reason }, true)) return false;
  wish(
    list.map((item) => ({ item })),
    reason,
    element,
  );
  return true;
}

/** @param list of products; one without a variantId is all variants of the product. @returns as addItems */
function removeItems(list, element = document, event = undefined) {
  if (whyOff()) return false;
  const gone = list.map(({ productId, variantId = ALL, productHandle }) => ({
    productId,
    variantId,
    productHandle,
    event,
  }));
  const shown = gone.map((one) => ({ ...one, ...productOf(keyOf(one)) }));
  if (!fire(element, 'remove', { item: shown[0], items: shown, event }, true)) return false;
  wish(
    gone.map((one) => ({ gone: one })),
    'click',
    element,
  );
  return true;
}

class Count extends Painted {
  build() {
    this.badge = make('span', { part: 'badge', role: 'img' });
    shadow(this, this.badge);
  }

  paint() {
    const count = whyOff() ? 0 : countNow();
    const max = this.getAttribute('max');
    this.badge.textContent = max && count > max ? `${max}+` : (count ?? '');
    this.badge.setAttribute('aria-label', text(this, 'label', count ?? ''));
    this.toggleAttribute('zero', !count && this.hasAttribute('hide-zero'));
    show(this, count === undefined ? ['loading'] : []);
  }
}
