// A row of <wishlist-page> or <wishlist-popular>. Once it is there only its price, its state and its buttons change, so
// that it keeps the focus.

const isAvailable = ({ inventoryAvailable }, now = {}) =>
  now.available ?? (now.available !== null && inventoryAvailable !== false);

class Row {
  /** @param now what today() returned for the item, if anything */
  constructor(page, item, now) {
    const { host } = page;
    const { productTitle, variantTitle, image, quantity } = item;
    const { make } = kit;
    this.page = page;
    this.item = item;
    this.key = kit.keyOf(item);
    this.text = JSON.stringify(item);
    this.title = make('a', { part: 'title' }, make('bdi', {}, productTitle));
    const about = make('div', {}, make('b', {}, this.title));
    if (variantTitle && variantTitle !== 'Default Title')
      about.append(make('div', { part: 'variant' }, make('bdi', {}, variantTitle)));
    if (quantity > 1) about.append(make('div', { part: 'quantity' }, kit.text(host, 'quantity', quantity)));
    this.prices = make('div', { class: 'p', part: 'prices' });
    this.actions = make('div', { class: 'a', part: 'actions' });
    if (host.hasAttribute('cart')) this.cart = this.add('cart', () => page.cart([item]));
    if (page.isFriend()) this.addHeart();
    else this.add('remove', () => page.remove(item));
    const looks = { class: 'i', part: 'picture', src: image, alt: image && '', loading: image && 'lazy' };
    const picture = make(image ? 'img' : 'span', looks);
    // A plain area in place of the browser's sign for a broken picture.
    picture.addEventListener('error', () =>
      picture.replaceWith(make('span', { class: 'i', part: 'picture' })),
    );
    this.element = make('li', {}, picture, about, this.prices, this.actions);
    this.paint(now);
  }

  add(name, act) {
    const { host } = this.page;
    const one = kit.button(name, kit.text(host, name), act);
    one.setAttribute('aria-label', `${kit.text(host, name)}: ${isolated(this.item.productTitle)}`);
    this.actions.append(one);
    return one;
  }

  addHeart() {
    const heart = kit.make('wishlist-heart', { part: 'heart', exportparts: 'button,icon,toast' });
    heart.item = () => this.page.ownItem(this.item);
    this.actions.append(heart);
  }

  href() {
    const { productHandle, variantId } = this.item;
    const usual = `${kit.shopRoot()}products/{handle}${variantId ? '?variant={variant}' : ''}`;
    return (this.page.host.getAttribute('product-url') || usual)
      .replace('{handle}', encodeURIComponent(productHandle))
      .replace('{variant}', encodeURIComponent(variantId || ''));
  }

  paint(now) {
    const { make, text } = kit;
    const { host } = this.page;
    this.now = now;
    const isGone = now?.available === null;
    const isSold = isAvailable(this.item, now);
    const { price, was, currency } = priceOf(this.item, now);
    const holds = { 'sold-out': !isSold && !isGone, reduced: was && !isGone, unavailable: isGone };
    const states = Object.keys(holds).filter((name) => holds[name]);
    this.element.setAttribute('state', states.join(' '));
    this.element.setAttribute('part', ['row', ...states].join(' '));
    if (isGone) this.title.removeAttribute('href');
    else this.title.href = this.href();
    if (this.cart) this.cart.hidden = !isSold;
    const shown = [];
    if (!isGone && price > 0) shown.push(make('span', { part: 'price' }, money(price, currency, host)));
    if (holds.reduced)
      shown.push(
        make('span', { class: 'h' }, text(host, 'was')),
        make('s', { part: 'was' }, money(was, currency, host)),
      );
    if (!isSold) shown.push(make('span', { part: 'note' }, text(host, isGone ? 'unavailable' : 'sold-out')));
    this.prices.replaceChildren(...shown.flatMap((one) => [one, ' ']));
  }
}
