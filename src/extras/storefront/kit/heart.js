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
    refresh(isReady && 'other-tab');
  }, 20);
}

/** @returns why a heart can't save: as whyOff, or `price` if the price can't be read */
const whyNot = ({ price }) => whyOff() || (price === null ? 'price' : '');

class Heart extends Painted {
  static observedAttributes = ['product-id', 'variant-id', 'name', 'for', 'match', 'variant-from'];

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

  check() {
    const { productId, variantId } = this.item();
    return { productId, variantId: this.isAny() ? null : variantId };
  }

  paint() {
    const item = this.item();
    const saved = savedKey(item, this.isAny());
    const k = saved || keyOf(item);
    const why = whyNot(item);
    const isUnknown = !isAnswered(this.check()) && cache.at === undefined;
    const isOff = why || (isUnknown && off);
    const isSaved = Boolean(saved && !why);
    const holds = {
      off: isOff,
      loading: isUnknown && !isOff && !isPending(k),
      saved: isSaved,
      pending: isPending(k),
      error: problem === k,
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
    if (whyNot(item)) return;
    if (saved) removeItem({ ...item, ...productOf(saved) }, this);
    else addItem(item, 'click', this);
  }
}

/** @returns false if there is no wishlist here, or a listener has cancelled the addition */
function addItem(item, reason = 'click', element = document) {
  if (whyNot(item) || !fire(element, 'add', { item, reason }, true)) return false;
  enqueue('item/add', item, reason);
  if (element !== document) announce(text(element, 'added'));
  return true;
}

/** Adds a friend's items, newest first, with one event. */
function addItems(list, element = document) {
  if (whyOff() || !fire(element, 'add', { item: list[0], items: list, reason: 'click' }, true)) return false;
  // What is added last is the newest.
  for (const item of [...list].reverse()) enqueue('item/add', item, 'click');
  return true;
}

function removeItem({ productId, variantId, productHandle }, element = document, event = undefined) {
  const item = { productId, variantId, productHandle, event };
  if (whyOff() || !fire(element, 'remove', { item, event }, true)) return false;
  enqueue('item/remove', item, 'click');
  if (element !== document && !event) announce(text(element, 'removed'));
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
