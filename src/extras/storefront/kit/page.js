// <wishlist-page> shows the visitor's list, or a friend's if there is a `code` as attribute or in the page's address.
const SORTS = ['newest', 'oldest', 'name', 'price'];

class ListPage {
  constructor(host) {
    const { make, button, text } = kit;
    this.host = host;
    // The `code` in the page's address, or null.
    this.addressCode = null;
    this.shownCode = null;
    this.now = {};
    this.pages = 1;
    this.rows = new Map();
    // Items that the cart is being asked to take.
    this.moving = new Set();
    const bar = (name, act) => button(`button ${name}`, text(host, name), act);
    this.heading = make('p', { part: 'friend' }, text(host, 'friend'));
    this.select = make('select', { part: 'sort' });
    for (const name of SORTS) this.select.append(make('option', { value: name }, text(host, name)));
    this.select.addEventListener('change', () => host.setAttribute('sort', this.select.value));
    this.sorting = make('label', { class: 'a', part: 'sorting' }, text(host, 'sort'), this.select);
    this.note = make('p', { part: 'empty', tabindex: -1 });
    this.list = make('ul', { role: 'list', part: 'list' });
    this.more = bar('more', () => this.showMore());
    this.mine = bar('mine', () => this.saveToMine());
    this.all = bar('cart-all', () => this.cart(this.known.filter((item) => this.isSold(item))));
    this.link = button('share', text(host, 'share'), () => this.share());
    this.field = make('input', { readonly: '', hidden: '', 'aria-label': text(host, 'share') });
    const root = host.shadowRoot;
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, pageSheet];
    root.append(
      this.heading,
      this.sorting,
      this.note,
      this.list,
      make('div', { class: 'a', part: 'bar' }, this.more, this.mine, this.all, this.link, this.field),
    );
  }

  isFriend() {
    return this.host.hasAttribute('code');
  }

  /** @returns whether the cart may take the item */
  isSold(item) {
    return isAvailable(item, this.now[kit.keyOf(item)]);
  }

  /** A router may change the address and keep the element. A `code` that the shop has set is kept. */
  readAddress() {
    const { host } = this;
    if (host.getAttribute('code') !== this.addressCode) return;
    const inAddress = new URLSearchParams(location.search).get('code');
    // Other `code`s in addresses, such as discounts, are shorter.
    const code = /^[\w-]{16,19}$/.test(inAddress) ? inAddress : null;
    if (code === this.addressCode) return;
    this.addressCode = code;
    // Each change of the attribute paints again.
    if (code) host.setAttribute('code', code);
    else host.removeAttribute('code');
  }

  /** @returns undefined until the service has sent the list */
  items() {
    const code = this.host.getAttribute('code');
    if (code !== this.shownCode) {
      this.shownCode = code;
      this.pages = 1;
      this.paintRows([]);
    }
    if (code && code !== this.code) this.loadFriend(code);
    return code ? this.friend : kit.items();
  }

  /** @param all the newest first; two may have been added in the same millisecond */
  sorted(all) {
    if (this.select.value === 'oldest') return [...all].reverse();
    const currencies = [...new Set(all.map(({ currencyCode }) => currencyCode))];
    const rank = ({ currencyCode }) => currencies.indexOf(currencyCode);
    const by = {
      name: (a, b) => a.productTitle.localeCompare(b.productTitle, undefined, { numeric: true }),
      // Amounts of two currencies can't be compared: the currency of the newest item comes first.
      price: (a, b) => rank(a) - rank(b) || a.price - b.price,
    }[this.select.value];
    return by ? [...all].sort(by) : all;
  }

  async loadFriend(code) {
    this.code = code;
    this.friend = undefined;
    this.isAway = false;
    await kit.allowed();
    for (let tries = 0; this.code === code; tries++) {
      try {
        const answer = await window.fetch(kit.urlOf(`share/${encodeURIComponent(code)}/items`));
        if (answer.ok || answer.status === 404) {
          const { items = [] } = await answer.json();
          if (this.code === code) this.friend = items;
          return this.paint();
        }
      } catch {}
      this.isAway = true;
      this.paint();
      await kit.later(tries);
    }
  }

  paint() {
    const { host } = this;
    this.readAddress();
    const why = kit.whyOff();
    const list = why ? [] : this.items();
    const isFriend = this.isFriend();
    const isAway = isFriend ? this.isAway : kit.whyNoAnswer();
    kit.show(host, why ? ['off'] : list ? [] : isAway ? ['error'] : ['loading'], why);
    this.heading.hidden = !isFriend || !list;
    const sort = host.getAttribute('sort');
    this.select.value = SORTS.includes(sort) ? sort : 'newest';
    this.sorting.hidden = !host.hasAttribute('sortable') || !list?.[1];
    for (const one of [this.more, this.mine, this.all, this.link]) one.hidden = !list?.[0];
    if (!list) {
      this.note.textContent = !why && isAway ? kit.text(host, 'failed') : '';
      return;
    }
    this.known = list;
    const size = (Number(host.getAttribute('page-size')) || 24) * this.pages;
    const shown = this.sorted(list).slice(0, size);
    this.askPrices(shown);
    this.paintRows(shown);
    this.note.textContent = list[0] ? '' : kit.text(host, isFriend ? 'empty-friend' : 'empty');
    this.more.hidden ||= list.length <= size;
    this.mine.hidden ||= !isFriend;
    const hasAll = list.every(kit.isSaved);
    this.mine.textContent = kit.text(host, hasAll ? 'added' : 'mine');
    this.mine.setAttribute('aria-disabled', hasAll);
    this.all.hidden ||= !host.hasAttribute('cart') || !list.some((item) => this.isSold(item));
    this.link.hidden ||= isFriend;
    this.field.hidden ||= this.link.hidden;
  }

  paintRows(shown) {
    const rows = shown.map((item) => {
      const key = kit.keyOf(item);
      const now = this.now[key];
      const row = this.rows.get(key);
      if (row?.text !== JSON.stringify(item)) return new Row(this, item, now);
      if (row.now !== now) row.paint(now);
      return row;
    });
    this.rows = new Map(rows.map((row) => [row.key, row]));
    const { children } = this.list;
    if (rows.length !== children.length || rows.some(({ element }, i) => children[i] !== element))
      this.list.replaceChildren(...rows.map(({ element }) => element));
  }

  async askPrices(shown) {
    const some = shown.filter((item) => !(kit.keyOf(item) in this.now));
    for (const item of some) this.now[kit.keyOf(item)] = undefined;
    if (!some[0]) return;
    Object.assign(this.now, await today(some));
    this.paint();
  }

  /** @returns a friend's item, as the visitor saves it: at today's price, as far as it is known */
  ownItem(item) {
    const { price, compareAt, currency } = this.now[kit.keyOf(item)] || {};
    return { ...item, ...(price && { price, compareAt, currencyCode: currency }), source: 'wishlist' };
  }

  focusRow(row) {
    (row?.querySelector('[part=remove]') || this.note).focus();
  }

  showMore() {
    const before = this.list.children.length;
    this.pages++;
    this.paint();
    this.list.children[before]?.querySelector('a').focus();
  }

  leave(item, event) {
    const at = [...this.list.children].indexOf(this.rows.get(kit.keyOf(item))?.element);
    const hadFocus = this.host.shadowRoot.activeElement;
    const isTaken = kit.removeItems([item], this.host, event);
    if (isTaken && hadFocus) this.focusRow(this.list.children[at] || this.list.lastChild);
    return isTaken;
  }

  remove(item) {
    const undo = () => {
      kit.addItems([item], 'click', this.host);
      this.focusRow(this.rows.get(kit.keyOf(item))?.element);
    };
    if (this.leave(item)) toast(this.host, 'removed', { undo });
  }

  /** Removes items once the cart has them. A listener of `wishlist:cart` may set detail.promise. */
  async cart(list) {
    const isShopify = this.host.getAttribute('cart') === 'shopify';
    const moved = [];
    let hasFailed = false;
    const move = async (items, work) => {
      try {
        await work();
        moved.push(...items);
      } catch {
        hasFailed = true;
      }
    };
    const addToShopify = (items) =>
      kit.toCart('add', {
        items: items.map(({ variantId, quantity }) => ({ id: Number(variantId), quantity })),
      });
    const own = list.filter((item) => !this.moving.has(kit.keyOf(item)));
    const left = [];
    for (const item of own) this.moving.add(kit.keyOf(item));
    for (const item of own) {
      const detail = { item };
      if (!kit.fire(this.host, 'cart', detail, true)) continue;
      if (detail.promise) await move([item], () => detail.promise);
      else if (isShopify) left.push(item);
    }
    if (left[0]) await move(left, () => addToShopify(left));
    // Shopify refuses all items of a request if it can't add one of them.
    if (left[1] && hasFailed && !moved.includes(left[0])) {
      hasFailed = false;
      for (const item of left) await move([item], () => addToShopify([item]));
    }
    for (const item of own) this.moving.delete(kit.keyOf(item));
    if (!this.isFriend()) for (const item of moved) this.leave(item, 'moveToCart');
    if (hasFailed) toast(this.host, 'failed');
    else if (moved[0]) toast(this.host, 'in-cart');
  }

  async share() {
    const { host } = this;
    const url = await shareLink(host);
    if (!url) return toast(host, 'failed');
    try {
      if (navigator.share) return await navigator.share({ url });
    } catch (error) {
      if (error.name === 'AbortError') return;
    }
    try {
      await navigator.clipboard.writeText(url);
      toast(host, 'copied');
    } catch {
      this.field.value = url;
      this.field.hidden = false;
      this.field.select();
    }
  }

  saveToMine() {
    const { host } = this;
    // Sent from the oldest to the newest, so that the visitor's list has the friend's order.
    const missing = this.friend.filter((item) => !kit.isSaved(item)).map((item) => this.ownItem(item));
    if (missing[0] && kit.addItems(missing.reverse(), 'click', host)) toast(host, 'added');
  }
}

/** @returns undefined if there is no link, or a listener has cancelled the sharing */
async function shareLink(element = document, channel = 'Link') {
  if (kit.whyOff() || !kit.fire(element, 'share', {}, true)) return undefined;
  await kit.settled();
  return (await kit.ask('share', { channel }, kit.randomId())).json.shareLink;
}

// `popstate` is silent about pushState; in browsers without the Navigation API wishmeter.login() paints the list.
const { navigation = window } = window;
navigation.addEventListener(navigation === window ? 'popstate' : 'currententrychange', () => {
  for (const host of document.querySelectorAll('wishlist-page')) host.paint();
});
