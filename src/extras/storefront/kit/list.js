// The list as this browser knows it: a cache of the service's answers, and a queue of clicks that outlives the page. Both are
// in localStorage, whose `storage` events notify other tabs. (A BroadcastChannel would keep pages out of bfcache.)
const CACHE = 'wishmeter_list';
const QUEUE = 'wishmeter_queue';
/** Milliseconds for which the count is taken from the cache. */
const FRESH = 60000;

const plainId = (id) => String(id ?? '').replace(/^gid:\/\/\w+\/\w+\//, '');
const keyOf = ({ productId, variantId }) => `${plainId(productId)}:${plainId(variantId)}`;
const productOf = (k) => {
  const [productId, variantId] = k.split(/:([\s\S]*)/);
  return { productId, variantId: variantId || null };
};

// `id`: the session; `keys`: saved products; `at`: when the whole list was read, 0 if it has changed elsewhere since.
let cache;
let queued;
// Of the cache and the queue together.
let keys;
// The whole list, as it was last read on this page.
let items;
// Products that the service has answered for on this page; `*`: all of them.
const answered = new Set();
const isAnswered = (product) => answered.has('*') || answered.has(keyOf(product));
// Number of answered clicks.
let clicks = 0;
// The product whose click was refused.
let problem;
// Why the last answer is missing: `blocked`, `offline`.
let off;

/** Reads cache and queue, without what belongs to another session. */
function load() {
  const { id } = who();
  cache = read(CACHE);
  if (cache?.id !== id) cache = { id, keys: {} };
  queued = (read(QUEUE) || []).filter((entry) => entry.id === id);
  keys = { ...cache.keys };
  for (const { path, k } of queued) {
    if (path === 'item/add') keys[k] = 1;
    if (path === 'item/remove') delete keys[k];
  }
}

function save() {
  write(CACHE, cache);
  write(QUEUE, queued);
  load();
}

const fire = (target, name, detail, cancelable) =>
  target.dispatchEvent(
    new CustomEvent(`wishlist:${name}`, { detail, bubbles: true, composed: true, cancelable }),
  );

const report = ({ code = 'no_answer' }, wait) => fire(document, 'error', { code, willRetry: Boolean(wait) });

const paintAll = () => {
  for (const element of elements) element.paint();
};

let last;
/** Paints all, and notifies the page if the list differs from the last one. @param reason undefined: the page has just begun */
function changed(reason) {
  paintAll();
  const detail = { items: Object.keys(keys).map(productOf), count: countNow() };
  const now = JSON.stringify(detail);
  if (last !== now && reason) fire(document, 'change', { ...detail, reason });
  last = now;
}

/** Number of items; undefined before the whole list was read. */
const countNow = () => (cache.at === undefined ? undefined : Object.keys(keys).length);

/** The key of a product on the list; with `isAny` of any of its variants. */
function savedKey(product, isAny) {
  const k = keyOf(product);
  const prefix = keyOf({ productId: product.productId });
  return Object.keys(keys).find((one) => (isAny ? one.startsWith(prefix) : one === k));
}

const isPending = (k) => queued.some((entry) => entry.k === k && entry.path !== 'product/visit');

/**
 * Queues a click and paints it. The last click on a product wins: earlier ones that are not under way are dropped.
 * @param path `item/add` or `item/remove` @param body what it takes, with productHandle
 */
async function enqueue(path, body, reason) {
  const k = keyOf(body);
  if (!who().id) {
    // A new visitor's first click is painted before there is a session.
    keys[k] = 1;
    paintAll();
    await sessionFor(true).catch(() => {});
  }
  load();
  const entry = { ...who(), path, k, body, key: randomId(), next: 0, tries: 0 };
  queued = [...queued.filter((one) => one.k !== k || one.isSent), entry];
  const { productHandle } = body;
  // A no holds on every device: the visits that Smart Save counts begin anew.
  if (path === 'item/remove' && productHandle)
    queued.push({ ...entry, path: 'product/visit', body: { productHandle }, key: randomId() });
  problem = '';
  save();
  changed(reason);
  flush();
}

let timer;
function flushIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(flush, ms);
}

let isFlushing;
/** Sends the queue, in order, from one tab at a time. */
async function flush() {
  if (isFlushing) return;
  isFlushing = true;
  await allowed;
  const work = (lock) => (lock ? sendAll() : flushIn(1000));
  // Pages without https have no locks.
  if (!whyOff())
    await (navigator.locks
      ? navigator.locks.request('wishmeter', { ifAvailable: true }, work)
      : sendAll()
    ).catch(() => {});
  isFlushing = false;
}

async function sendAll() {
  for (load(); queued.length; load()) {
    const [entry] = queued;
    const { path, body, k, key, tries, next, owner } = entry;
    if (next > Date.now()) return flushIn(next - Date.now());
    entry.isSent = true;
    save();
    const method = path === 'product/visit' ? 'DELETE' : 'POST';
    const { status, json, wait, isForeign } = await ask(path, body, {
      id: key,
      method,
      tries,
      isClick: true,
    });
    if (isForeign && owner) return logout();
    if (isForeign && tries < 3) {
      requeue(entry);
      continue;
    }
    load();
    const again = wait && { ...entry, next: Date.now() + wait, tries: tries + 1, isSent: false };
    queued = queued.flatMap((one) => (one.key !== key ? one : again || []));
    clicks++;
    if (status === 200) {
      if (path === 'item/add') cache.keys[k] = 1;
      if (path === 'item/remove') delete cache.keys[k];
    } else {
      report(json, wait);
      if (!wait) {
        problem = k;
        answered.clear();
        refresh('other-tab');
      }
    }
    save();
    paintAll();
  }
}

/** Puts a guest's click first, for the session as it is now, without what was queued for another. */
function requeue(entry) {
  const { id } = who();
  const others = queued.filter((one) => one.key !== entry.key && one.id === id);
  write(QUEUE, [{ ...entry, id, tries: entry.tries + 1, isSent: false }, ...others]);
  refresh('login', true);
}

/** Empties everything: the next guest gets nothing of the customer's. */
function logout() {
  answered.clear();
  write(CACHE, { id: who().id, keys: {}, at: 0 });
  write(QUEUE, []);
  load();
  changed('login');
}

/** Any write with both ids links a guest to the customer; a list at the backend merges. */
async function link() {
  const { id, owner } = who();
  const both = `${id} ${owner}`;
  if (!owner || !id || read('wishmeter_linked') === both) return false;
  // Through the app proxy: no product has this id.
  if (!options.backend && (await ask('item/remove', { productId: 'login' })).status !== 200) return false;
  write('wishmeter_linked', both);
  return true;
}

/** Asks what is saved; again if a click was answered in the meantime, since the answer may be older than the click. */
async function askSaved(path, body) {
  const before = clicks;
  const answer = await ask(path, body);
  return before === clicks ? answer : askSaved(path, body);
}

let refreshing = Promise.resolve();
/** Asks the service again, one request after the other. @param isWhole the list, also if no element needs it */
function refresh(reason, isWhole) {
  refreshing = refreshing.then(() => refreshNow(reason, isWhole)).catch(() => {});
  return refreshing;
}

/** Whether an element shows more than is known. */
const needsList = () =>
  (document.querySelector('wishlist-count') && !(Date.now() - cache.at < FRESH)) ||
  (document.querySelector(OWN_PAGE) &&
    !(items && Object.keys(keys).every((k) => items.some((item) => keyOf(item) === k))));

async function refreshNow(reason, isWhole) {
  await allowed;
  if (whyOff()) return paintAll();
  const hasLoggedIn = await link();
  load();
  if (isWhole || hasLoggedIn || needsList()) return listNow(hasLoggedIn ? 'login' : reason);
  const products = new Map();
  for (const heart of elements) {
    const product = heart.check?.();
    if (product?.productId && !isAnswered(product)) products.set(keyOf(product), product);
  }
  const asked = [...products];
  for (let i = 0; i < asked.length; i += 250) {
    const some = asked.slice(i, i + 250);
    const answer = await askSaved('item/check', { products: some.map(([, product]) => product) });
    if (!isUsable(answer)) return;
    load();
    for (const [j, { productId, variantId, itemId }] of (answer.json.items || []).entries()) {
      const [k, product] = some[j];
      const saved = keyOf({ productId, variantId });
      // The list has changed elsewhere.
      if (saved in cache.keys !== Boolean(itemId) && cache.at) cache.at = 0;
      for (const one of Object.keys(cache.keys))
        if (product.variantId ? one === k : one.startsWith(k)) delete cache.keys[one];
      if (itemId) cache.keys[saved] = 1;
      answered.add(k);
    }
    save();
  }
  changed(reason);
  if (needsList()) await listNow(reason);
}

/** The whole list. @returns its items; undefined without an answer */
async function listNow(reason) {
  const answer = await askSaved('item/list');
  if (!isUsable(answer)) return undefined;
  load();
  items = answer.json.items || [];
  cache.keys = Object.fromEntries(items.map((item) => [keyOf(item), 1]));
  cache.at = Date.now();
  answered.add('*');
  save();
  changed(reason);
  return items;
}

let retries = 0;
/** Whether an answer can be used; otherwise the list is asked for later. */
function isUsable({ status, json, wait, isForeign }) {
  off = status ? '' : navigator.onLine ? 'blocked' : 'offline';
  // Under Global Privacy Control without a session nothing is saved.
  if (status === 404 && isPrivate()) answered.add('*');
  if (status === 200 || answered.has('*')) return true;
  if (wait) setTimeout(refresh, wait, 'other-tab');
  else if (isForeign && ++retries < 3) setTimeout(refresh, 0, 'login');
  report(json, wait);
  paintAll();
  return false;
}
