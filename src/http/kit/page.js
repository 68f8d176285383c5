// <wishlist-page>: the list, or with `code` a friend's. Prices and stock of today come from Shopify's product JSON, else from
// the shop's own `wishmeter.products(items)`, which answers [{productId, variantId, price, available}].
const SORTS = {
  newest: () => 0,
  oldest: (a, b) => (a.addedAt < b.addedAt ? -1 : 1),
  name: (a, b) => a.productTitle.localeCompare(b.productTitle),
  price: (a, b) => a.price - b.price,
};

function money(amount, currency) {
  const language = document.documentElement.lang || undefined;
  try {
    return new Intl.NumberFormat(
      language,
      currency ? { style: 'currency', currency } : { minimumFractionDigits: 2 },
    ).format(amount);
  } catch (_) {
    return `${amount} ${currency || ''}`;
  }
}

const shopRoot = () => Object(Object(window.Shopify).routes).root || '/';

/** Today's price and stock of some items, by key. */
async function today(items) {
  const now = {};
  if (window.wishmeter.products) {
    for (const one of await window.wishmeter.products(items)) now[keyOf(one)] = one;
  } else if (window.Shopify) {
    const handles = [...new Set(items.map(({ productHandle }) => productHandle))];
    await Promise.all(
      handles.map(async (handle) => {
        const answer = await window.fetch(`${shopRoot()}products/${encodeURIComponent(handle)}.js`);
        const product = await answer.json();
        for (const { id, price, available } of product.variants)
          now[`${product.id}:${id}`] = { price: decimal(price / 100), available };
      }),
    ).catch(() => {});
  }
  return now;
}

class Page extends Painted {
  static get observedAttributes() {
    return ['code', 'sort', 'page-size'];
  }

  attributeChangedCallback() {
    if (this.shadowRoot) this.load();
  }

  build() {
    this.items = [];
    this.now = {};
    this.rows = make('ul', { role: 'list' });
    this.note = make('p', { part: 'title' });
    this.bar = make('div', { class: 'b' });
    this.shown = Number(this.getAttribute('page-size')) || 24;
    shadow(this, PAGE_STYLE).append(this.note, this.rows, this.bar);
    this.load();
  }

  code() {
    return this.getAttribute('code') || '';
  }

  async load() {
    await allowed;
    if (whyOff()) return this.paint();
    if (this.code()) {
      const url = new URL(`share/${encodeURIComponent(this.code())}/items`, new URL(src, document.baseURI));
      if (key) url.searchParams.set('key', key);
      const answer = await window.fetch(url).catch(() => undefined);
      this.items = answer && answer.ok ? (await answer.json()).items : undefined;
    } else this.items = await listNow(isReady && 'other-tab').catch(() => undefined);
    this.isLoaded = this.items !== undefined;
    this.items = this.items || [];
    this.paint();
    if (!this.isLoaded && !this.code()) return setTimeout(() => this.load(), 3000);
    this.now = await today(this.items.slice(0, this.shown)).catch(() => ({}));
    this.paint();
  }

  /** Items that are still on the list. */
  list() {
    const there = this.code() ? this.items : this.items.filter((item) => keyOf(item) in keys);
    const sort = SORTS[this.getAttribute('sort')] || SORTS.newest;
    return [...there].sort(sort);
  }

  paint() {
    const why = whyOff();
    show(this, why ? ['off'] : this.isLoaded ? [] : off ? ['error'] : ['loading'], why);
    const items = why ? [] : this.list();
    // What another tab or a heart has added.
    const missing = Object.keys(keys)
      .filter((k) => !this.items.some((item) => keyOf(item) === k))
      .join();
    if (this.isLoaded && !this.code() && !queued.length && missing !== this.missing) {
      this.missing = missing;
      if (missing) setTimeout(() => this.load());
    }
    const shown = items.slice(0, this.shown);
    const there = new Map([...this.rows.children].map((row) => [row.k, row]));
    const version = (item) => JSON.stringify([item, this.now[keyOf(item)]]);
    const rows = shown.map((item) => {
      const old = there.get(keyOf(item));
      return old && old.version === version(item) ? old : this.row(item, version(item));
    });
    // Rows that stay are not touched, so that focus stays in them.
    if (rows.length !== there.size || rows.some((row, i) => this.rows.children[i] !== row))
      this.rows.replaceChildren(...rows);
    this.note.textContent = this.isLoaded && !items.length ? text(this, 'empty') : '';
    this.note.tabIndex = -1;
    const buttons = [];
    if (items.length > shown.length)
      buttons.push(
        button('button', text(this, 'more'), () => {
          this.shown += Number(this.getAttribute('page-size')) || 24;
          this.paint();
          this.rows.children[shown.length].querySelector('a,button').focus();
          today(this.list().slice(shown.length, this.shown)).then((now) => {
            Object.assign(this.now, now);
            this.paint();
          });
        }),
      );
    if (items.length && this.code()) buttons.push(button('button', text(this, 'mine'), () => this.mine()));
    else if (items.length) buttons.push(button('share', text(this, 'share'), () => this.share()));
    if (this.barText !== buttons.map((one) => one.textContent).join()) this.bar.replaceChildren(...buttons);
    this.barText = buttons.map((one) => one.textContent).join();
  }

  row(item, version) {
    const now = this.now[keyOf(item)] || {};
    const name = item.productTitle;
    const href = `${shopRoot()}products/${encodeURIComponent(item.productHandle)}${item.variantId ? `?variant=${encodeURIComponent(item.variantId)}` : ''}`;
    const template = this.getAttribute('product-url');
    const link = template
      ? template
          .replace('{handle}', encodeURIComponent(item.productHandle))
          .replace('{variant}', item.variantId || '')
      : href;
    const isSafe = /^https?:/.test(item.image || '');
    const picture = isSafe
      ? make('img', { src: item.image, alt: '', loading: 'lazy', width: 80, height: 80 })
      : make('span', { class: 'i' });
    const about = make('div', {}, make('a', { href: link, part: 'title' }, name));
    if (item.variantTitle && item.variantTitle !== 'Default Title')
      about.append(make('div', {}, item.variantTitle));
    const price = make('div', { part: 'price' }, money(now.price || item.price, item.currencyCode));
    if (now.price && Number(now.price) < Number(item.price))
      price.append(
        make(
          's',
          {},
          make('span', { class: 'v' }, text(this, 'was'), ' '),
          money(item.price, item.currencyCode),
        ),
      );
    const isAvailable = now.available === undefined ? item.inventoryAvailable : now.available;
    if (!isAvailable) price.append(` · ${text(this, 'sold-out')}`);
    const actions = make('div', { class: 'a' });
    const named = (one, label) => {
      one.setAttribute('aria-label', `${label}: ${name}`);
      actions.append(one);
    };
    if (this.hasAttribute('cart') && isAvailable)
      named(
        button('cart', text(this, 'cart'), () => this.cart(item)),
        text(this, 'cart'),
      );
    if (!this.code())
      named(
        button('remove', text(this, 'remove'), () => this.remove(item)),
        text(this, 'remove'),
      );
    const row = make('li', { part: 'row' }, picture, about, price, actions);
    return Object.assign(row, { k: keyOf(item), version });
  }

  /** Takes a row away; focus goes to the next one. */
  leave(item, event) {
    const at = [...this.rows.children].findIndex((row) => row.k === keyOf(item));
    const hadFocus = this.shadowRoot.activeElement;
    const part = hadFocus && hadFocus.getAttribute('part');
    if (!removeItem(item, this, event)) return false;
    const removal = queued.length;
    this.paint();
    const next = this.rows.children[Math.min(at, this.rows.children.length - 1)];
    if (hadFocus)
      (next ? next.querySelector(`[part=${part}]`) || next.querySelector('button') : this.note).focus();
    return removal;
  }

  remove(item) {
    if (!this.leave(item)) return;
    toast(this, text(this, 'removed'), [
      [
        text(this, 'undo'),
        () => {
          addItem(Object.assign({}, item, { source: item.source }), 'click', this);
          this.paint();
          const row = [...this.rows.children].find(({ k }) => k === keyOf(item));
          if (row) row.querySelector('[part=remove]').focus();
        },
      ],
    ]);
  }

  /** It leaves the list only once the cart has it. A listener of `wishlist:cart` may bring its own promise: detail.promise. */
  async cart(item) {
    const detail = { item };
    if (!fire(this, 'cart', detail, true)) return;
    try {
      if (detail.promise) await detail.promise;
      else {
        if (this.getAttribute('cart') !== 'shopify') return;
        const answer = await window.fetch(`${shopRoot()}cart/add.js`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ items: [{ id: Number(item.variantId), quantity: item.quantity }] }),
        });
        if (!answer.ok) throw 0;
      }
    } catch (_) {
      toast(this, text(this, 'failed'), []);
      return;
    }
    if (!this.code()) this.leave(item, 'moveToCart');
    announce(text(this, 'in-cart'));
  }

  async share() {
    const link = await shareLink(this);
    if (!link) return toast(this, text(this, 'failed'), []);
    try {
      if (navigator.share) return await navigator.share({ url: link });
    } catch (error) {
      if (error.name === 'AbortError') return;
    }
    try {
      await navigator.clipboard.writeText(link);
      toast(this, text(this, 'copied'), []);
    } catch (_) {
      const field = make('input', { value: link, readonly: '', 'aria-label': text(this, 'share') });
      this.bar.append(field);
      field.select();
    }
  }

  mine() {
    for (const item of this.list()) addItem(Object.assign({}, item, { source: 'wishlist' }), 'click');
    announce(text(this, 'added'));
  }
}

/** @returns the list's link; undefined if there is none, or a listener of `wishlist:share` has cancelled it */
async function shareLink(element = document) {
  if (whyOff() || !fire(element, 'share', {}, true)) return undefined;
  await flush();
  return (
    await ask('share', { channel: 'Link' }, { key: crypto.getRandomValues(new Uint32Array(4)).join('-') })
  ).json.shareLink;
}
