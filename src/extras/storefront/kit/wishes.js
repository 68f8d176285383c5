// The wishes of this browser, and the products that it knows to be saved. A wish adds or removes a product, and lasts
// until the service has confirmed it; a product's last wish wins. Maps in memory are authoritative. localStorage has a
// copy, unless it is forbidden or full, for the next page and, by its `storage` events, for other tabs. (A
// BroadcastChannel would keep pages out of bfcache.)
const CACHE = 'wishmeter_list';
const WISH = 'wishmeter_wish_';
/** In place of a variant's id: all variants of the product. Nothing is added under it. */
const ALL = '*';

const plainId = (id) =>
  String(id ?? '')
    .replace(/^gid:\/\/\w+\/\w+\//, '')
    .trim();
// Ids have no control characters.
const keyOf = ({ productId, variantId }) => `${plainId(productId)}\n${plainId(variantId)}`;
const productOf = (k) => {
  const [productId, variantId] = k.split('\n');
  return { productId, variantId: variantId === ALL ? null : variantId || null };
};
const allOf = (k) => `${k.split('\n')[0]}\n${ALL}`;
/** True if a wish for `k` is one for `other`, too. */
const covers = (k, other) => k === other || k === allOf(other);
const isAll = (k) => k === allOf(k);

// By product key: `k`, `id` (the session; empty before there is one), `owner` (the customer), `item` for /item/add, or
// `gone` for /item/remove, `key` (the Idempotency-Key).
const wishes = new Map();
/** The element of a click, by the wish's `key`: it shows the click's result. */
const clicked = new Map();
// `id` is the session, `keys` the saved products that are known, `count` the number of items at the service, if it is
// known, since `at`.
let cache;
// The saved products, by cache and wishes.
let keys;
// The whole list, if this page has read it.
let items;
// Products of this page for which the service has answered; `*` if it has for all.
const answered = new Set();
const isAnswered = (product) => answered.has('*') || answered.has(keyOf(product));

// Wishes, confirmations and other tabs' changes have numbers, so that an answer that is older than the last change of a
// product doesn't undo that.
let changes = 0;
const changedAt = {};
const touch = (k) => {
  changedAt[k] = ++changes;
};
// The last change that the read list may lack.
let additions = 0;

/** Makes the next sync() ask the service again. */
function forgetAnswers() {
  answered.clear();
  additions = ++changes;
  if (cache) cache.at = 0;
}

const isPresent = ({ id }) => !id || id === who().id || id === replaced;

function put(wish) {
  wishes.set(wish.k, wish);
  if (wish.id) write(WISH + wish.k, wish);
  return wish;
}

function drop({ k, key }) {
  if (wishes.get(k)?.key === key) wishes.delete(k);
  if (read(WISH + k)?.key === key) erase(WISH + k);
  clicked.delete(key);
}

/** Loads the cache and the wishes that an earlier page or another tab has stored. */
function load() {
  const { id } = who();
  if (cache?.id !== id) {
    cache = { id, keys: {} };
    items = undefined;
    answered.clear();
  }
  const stored = read(CACHE);
  if (stored?.id === id && Object(stored.keys) === stored.keys) cache = stored;
  for (const name of Object.keys(storage)) if (name.startsWith(WISH)) loadWish(name);
  for (const wish of [...wishes.values()]) if (!isPresent(wish)) drop(wish);
  count();
}

function loadWish(name) {
  const wish = read(name);
  if (wish?.key && WISH + wish.k === name && isPresent(wish)) wishes.set(wish.k, wish);
  else erase(name);
}

function count() {
  keys = { ...cache.keys };
  for (const { k, item } of wishes.values())
    if (item) keys[k] = 1;
    else removeFrom(keys, k);
}

function removeFrom(saved, k) {
  for (const one in isAll(k) ? saved : { [k]: 1 }) if (covers(k, one)) delete saved[one];
}

function saveCache() {
  write(CACHE, cache);
  count();
}

/** Number of saved items, or undefined before the service has answered. */
const countNow = () =>
  cache.count === undefined
    ? undefined
    : Math.max(0, cache.count + Object.keys(keys).length - Object.keys(cache.keys).length);

/** Notes an answer, unless the product has changed since the request. @param since `changes` before the request */
function learn(k, isSaved, since) {
  if (changedAt[k] > since || changedAt[allOf(k)] > since || k in cache.keys === isSaved) return;
  if (isSaved) cache.keys[k] = 1;
  else delete cache.keys[k];
  // The number has changed, too.
  cache.at = 0;
}

/** @returns the key of the product, if it is saved; by `isAny` of any variant */
function savedKey(product, isAny) {
  const k = keyOf(isAny ? { ...product, variantId: ALL } : product);
  return isAny ? Object.keys(keys).find((one) => covers(k, one)) : keys[k] && k;
}

/** @returns the wishes for a variant or all, or for all of a product's; this is quick for a variant */
const wishesFor = (k) =>
  isAll(k)
    ? [...wishes.values()].filter((one) => covers(k, one.k))
    : [wishes.get(k), wishes.get(allOf(k))].filter(Boolean);
const isPending = (k) => wishesFor(k)[0];

const fire = (target, name, detail, cancelable) =>
  target.dispatchEvent(
    new CustomEvent(`wishlist:${name}`, { detail, bubbles: true, composed: true, cancelable }),
  );

let last;
/** Fires `wishlist:change` if the list has changed. @param reason undefined while the page starts: then no event */
function changed(reason) {
  paintAll();
  const detail = { items: Object.keys(keys).map(productOf), count: countNow() };
  const now = JSON.stringify(detail);
  if (last !== now && reason) fire(document, 'change', { ...detail, reason });
  last = now;
}

/** @param list of `item`, or `gone` with the ids of a product, whose `variantId` may be ALL */
function wish(list, reason, element) {
  const { id, owner } = who();
  for (const one of list) {
    const k = keyOf(one.item || one.gone);
    wishesFor(k).map(drop);
    delete rests[k];
    const key = randomId();
    if (element !== document) clicked.set(key, element);
    put({ k, id, owner, ...one, key });
    touch(k);
  }
  problem = '';
  count();
  changed(reason);
  hurry(['service']);
}

/** Notes that the service has confirmed a wish, which another one may have followed. */
function confirm(wish, { productId, variantId }) {
  const { k, item } = wish;
  // The service trims ids.
  const saved = item && productId ? keyOf({ productId, variantId }) : k;
  const element = clicked.get(wish.key);
  const before = Object.keys(cache.keys).length;
  if (item) {
    cache.keys[saved] = 1;
    if (!items?.some((one) => keyOf(one) === saved)) additions = ++changes;
  } else removeFrom(cache.keys, k);
  if (cache.count !== undefined) cache.count += Object.keys(cache.keys).length - before;
  if (isAll(k)) cache.at = 0;
  touch(k);
  // Other tabs must see it saved before they see no wish for it.
  saveCache();
  drop(wish);
  count();
  paintAll();
  if (element?.item) say(element, item ? 'added' : 'removed');
}

/** Keeps nothing of the last session: the next guest must get nothing of the customer's. */
function logout() {
  load();
  changed('login');
}
