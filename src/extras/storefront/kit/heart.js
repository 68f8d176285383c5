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

/** An element that fails doesn't stop the others. */
function paintAll(some = elements) {
  for (const element of some)
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
    paintAll([this]);
    askSoon();
  }

  disconnectedCallback() {
    elements.delete(this);
  }

  attributeChangedCallback() {
    if (this.shadowRoot && this.isConnected) this.connectedCallback();
  }
}

let isSoon;
/** Waits a moment, so that elements that are added together need only one request. */
function askSoon() {
  if (isSoon) return;
  isSoon = setTimeout(() => {
    isSoon = 0;
    sync();
    if (isReady) smartSave();
  }, 20);
}

class Heart extends Painted {
  static observedAttributes = ['product-id', 'variant-id', 'name', 'for', 'match', 'variant-from', 'popular'];

  build() {
    this.button = button('button', make('slot', { name: 'icon' }, icon()), () => this.toggle());
    this.label = make('span', { part: 'label' }, make('slot', {}));
    this.button.append(this.label);
    shadow(this, this.button);
  }

  item() {
    return itemOf(this);
  }

  isAny() {
    return this.getAttribute('match') === 'product';
  }

  /** @returns the ids for /item/check */
  check({ productId, variantId } = this.item()) {
    return { productId, variantId: this.isAny() ? null : variantId };
  }

  paint() {
    const item = this.item();
    const saved = savedKey(item, this.isAny());
    const k = keyOf(this.isAny() ? { ...item, variantId: ALL } : item);
    const why = whyOff() || (!saved && item.price === null && 'price');
    const isUnknown = !isAnswered(this.check(item)) && cache.at === undefined;
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
    if (this.hasAttribute('popular')) secondScript().then(({ popular }) => popular(this, item));
  }

  toggle() {
    const item = this.item();
    const saved = savedKey(item, this.isAny());
    if (saved) removeItems([{ ...item, ...(this.isAny() && { variantId: ALL }) }], this);
    else addItems([item], 'click', this);
  }
}

/** @returns false if there is no wishlist here, a price can't be read, or a listener has cancelled the additions */
function addItems(list, reason = 'click', element = document) {
  if (whyOff() || list.some(({ price }) => price === null)) return false;
  if (!fire(element, 'add', { item: list[0], items: list, reason }, true)) return false;
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
