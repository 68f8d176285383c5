// <wishlist-page> shows the visitor's list, or a friend's if there is a `code` as attribute or in the page's address.
// Prices and stock come from `wishmeterOptions.products(items)`, or else from Shopify's product JSON.
const SORTS = { oldest: 'addedAt', name: 'productTitle', price: 'price' };

function money(amount, currency) {
  try {
    return Number(amount).toLocaleString(document.documentElement.lang || undefined, {
      style: 'currency',
      currency,
    });
  } catch {
    // There is no currency, or the language is unknown.
    return `${amount} ${currency || ''}`;
  }
}

async function today(some) {
  const now = {};
  if (options.products) for (const one of await options.products(some)) now[keyOf(one)] = one;
  else if (window.Shopify)
    await Promise.all(
      [...new Set(some.map(({ productHandle }) => productHandle))].map(async (handle) => {
        const answer = await window.fetch(`${shopRoot()}products/${encodeURIComponent(handle)}.js`);
        if (!answer.ok) return;
        const { id: productId, variants } = await answer.json();
        for (const { id, price, available } of variants)
          now[keyOf({ productId, variantId: id })] = { price: decimal(price / 100), available };
      }),
    );
  return now;
}

class Page extends Painted {
  static observedAttributes = ['code', 'sort', 'page-size'];

  build() {
    const code = new URLSearchParams(location.search).get('code');
    // Other `code`s in addresses, such as discounts, are shorter.
    if (/^[\w-]{16,19}$/.test(code) && !this.hasAttribute('code')) this.setAttribute('code', code);
    this.now = {};
    this.pages = 1;
    this.note = make('p', { part: 'title', tabindex: -1 });
    this.rows = make('ul', { role: 'list' });
    this.more = button('button', text(this, 'more'), () => this.showMore());
    this.mine = button('button', text(this, 'mine'), () => this.saveToMine());
    this.link = button('share', text(this, 'share'), () => this.share());
    this.field = make('input', { readonly: '', hidden: '', 'aria-label': text(this, 'share') });
    const bar = make('div', { class: 'a' }, this.more, this.mine, this.link, this.field);
    shadow(this, this.note, this.rows, bar);
  }

  list() {
    const code = this.getAttribute('code');
    if (code && code !== this.code) this.loadFriend(code);
    const all = code ? this.friend : items?.filter((item) => keyOf(item) in keys);
    const by = SORTS[this.getAttribute('sort')];
    return by && all
      ? [...all].sort((a, b) => a[by].localeCompare(b[by], undefined, { numeric: true }))
      : all;
  }

  async loadFriend(code) {
    this.code = code;
    await allowed;
    try {
      const answer = await fetch(urlOf(`share/${encodeURIComponent(code)}/items`));
      if (!answer.ok && answer.status !== 404) throw answer;
      this.friend = (await answer.json()).items || [];
      this.paint();
    } catch {
      this.code = '';
      setTimeout(() => this.paint(), 3000);
    }
  }

  paint() {
    const why = whyOff();
    const list = why ? [] : this.list();
    show(this, why ? ['off'] : list ? [] : off ? ['error'] : ['loading'], why);
    if (!list) return;
    const size = (Number(this.getAttribute('page-size')) || 24) * this.pages;
    const shown = list.slice(0, size);
    this.askPrices(shown);
    const old = new Map([...this.rows.children].map((row) => [row.text, row]));
    const rows = shown.map((item) => {
      const now = this.now[keyOf(item)];
      const rowText = JSON.stringify([item, now]);
      return old.get(rowText) || Object.assign(this.row(item, now || {}), { k: keyOf(item), text: rowText });
    });
    // Unchanged rows stay, so that they keep the focus.
    if (rows.length !== old.size || rows.some((row, i) => this.rows.children[i] !== row))
      this.rows.replaceChildren(...rows);
    const isFriend = this.hasAttribute('code');
    this.note.textContent = list[0] ? '' : text(this, 'empty');
    this.more.hidden = list.length <= size;
    this.mine.hidden = !list[0] || !isFriend;
    const hasAll = list.every((item) => keyOf(item) in keys);
    this.mine.textContent = text(this, hasAll ? 'added' : 'mine');
    this.mine.setAttribute('aria-disabled', hasAll);
    this.link.hidden = !list[0] || isFriend;
    this.field.hidden ||= this.link.hidden;
  }

  async askPrices(shown) {
    const some = shown.filter((item) => !(keyOf(item) in this.now));
    for (const item of some) this.now[keyOf(item)] = undefined;
    if (!some[0]) return;
    Object.assign(this.now, await today(some).catch(() => {}));
    this.paint();
  }

  row(item, now) {
    const { productTitle, productHandle, variantId, variantTitle, image, currencyCode } = item;
    const usual = `${shopRoot()}products/{handle}${variantId ? '?variant={variant}' : ''}`;
    const href = (this.getAttribute('product-url') || usual)
      .replace('{handle}', encodeURIComponent(productHandle))
      .replace('{variant}', encodeURIComponent(variantId || ''));
    const picture = make(image ? 'img' : 'span', { class: 'i', src: image, alt: '', loading: 'lazy' });
    const about = make('div', {}, make('a', { href, part: 'title' }, productTitle));
    if (variantTitle && variantTitle !== 'Default Title') about.append(make('div', {}, variantTitle));
    const notes = [money(now.price || item.price, currencyCode)];
    if (now.price < item.price * 1) notes.push(`${text(this, 'was')} ${money(item.price, currencyCode)}`);
    const isAvailable = now.available ?? item.inventoryAvailable;
    if (!isAvailable) notes.push(text(this, 'sold-out'));
    const price = make('div', { part: 'price' }, notes.join(' · '));
    const actions = make('div', { class: 'a' });
    const add = (name, act) => {
      const one = button(name, text(this, name), act);
      one.setAttribute('aria-label', `${text(this, name)}: ${productTitle}`);
      actions.append(one);
    };
    if (this.hasAttribute('cart') && isAvailable) add('cart', () => this.cart(item));
    if (!this.hasAttribute('code')) add('remove', () => this.remove(item));
    return make('li', { part: 'row' }, picture, about, price, actions);
  }

  focusRow(row) {
    (row?.querySelector('[part=remove]') || this.note).focus();
  }

  showMore() {
    const before = this.rows.children.length;
    this.pages++;
    this.paint();
    this.rows.children[before]?.querySelector('a').focus();
  }

  leave(item, event) {
    const at = [...this.rows.children].findIndex((row) => row.k === keyOf(item));
    const hadFocus = this.shadowRoot.activeElement;
    const isTaken = removeItems([item], this, event);
    if (isTaken && hadFocus) this.focusRow(this.rows.children[at] || this.rows.lastChild);
    return isTaken;
  }

  remove(item) {
    const undo = () => {
      addItems([item], 'click', this);
      this.focusRow([...this.rows.children].find((row) => row.k === keyOf(item)));
    };
    if (this.leave(item)) toast(this, text(this, 'removed'), { undo });
  }

  /** Removes the item once the cart has it. A listener of `wishlist:cart` may set detail.promise. */
  async cart(item) {
    const detail = { item };
    if (!fire(this, 'cart', detail, true)) return;
    const isShopify = this.getAttribute('cart') === 'shopify';
    if (!detail.promise && !isShopify) return;
    const { variantId, quantity } = item;
    try {
      await (detail.promise || toCart('add', { items: [{ id: Number(variantId), quantity }] }));
    } catch {
      return toast(this, text(this, 'failed'));
    }
    if (!this.hasAttribute('code')) this.leave(item, 'moveToCart');
    toast(this, text(this, 'in-cart'));
  }

  async share() {
    const url = await shareLink(this);
    if (!url) return toast(this, text(this, 'failed'));
    try {
      if (navigator.share) return await navigator.share({ url });
    } catch (error) {
      if (error.name === 'AbortError') return;
    }
    try {
      await navigator.clipboard.writeText(url);
      toast(this, text(this, 'copied'));
    } catch {
      this.field.value = url;
      this.field.hidden = false;
      this.field.select();
    }
  }

  saveToMine() {
    // The friend's list begins with the newest item, which is added last, so that it is the newest here, too.
    const others = this.friend.filter((item) => !(keyOf(item) in keys));
    addItems(
      others.reverse().map((item) => ({ ...item, source: 'wishlist' })),
      'click',
      this,
    );
    toast(this, text(this, 'added'));
  }
}

/** @returns undefined if there is no link, or a listener has cancelled the sharing */
async function shareLink(element = document) {
  if (whyOff() || !fire(element, 'share', {}, true)) return undefined;
  await settled();
  return (await ask('share', { channel: 'Link' }, randomId())).json.shareLink;
}
