// This browser's copy of the list: a cache of answers, and a queue of clicks that outlives the page. Both are in
// localStorage, whose `storage` events notify other tabs. (A BroadcastChannel would keep pages out of bfcache.) Each
// click has its own item there: two tabs that write the same item at the same time would lose a click.
const CACHE = 'wishmeter_list';
const QUEUE = 'wishmeter_queue_';
/** Milliseconds until <wishlist-count> reads the list again. */
const FRESH = 60000;

const plainId = (id) => String(id ?? '').replace(/^gid:\/\/\w+\/\w+\//, '');
const keyOf = ({ productId, variantId }) => `${plainId(productId)}:${plainId(variantId)}`;
const productOf = (k) => {
  const [productId, variantId] = k.split(/:([\s\S]*)/);
  return { productId, variantId: variantId || null };
};

// `id` is the session, `keys` the saved products, `at` when the whole list was read, or 0 after a change elsewhere.
let cache;
let queued;
// The saved products, by cache and queue.
let keys;
// The whole list, if this page has read it.
let items;
// Products of this page for which the service has answered; `*` if it has for all.
const answered = new Set();
const isAnswered = (product) => answered.has('*') || answered.has(keyOf(product));
// Number of answered clicks, and of other tabs' changes of the queue; see askSaved.
let clicks = 0;
let problem;
// Why there was no answer: `blocked`, `offline` or empty.
let off;

const put = (entry) => write(QUEUE + entry.key, entry);
const drop = ({ key }) => delete storage[QUEUE + key];

/** @returns all tabs' clicks, in their order, also those of earlier sessions */
const clicksOfAll = () =>
  Object.keys(storage)
    .filter((name) => name.startsWith(QUEUE))
    .map(read)
    .filter(Boolean)
    .sort((one, other) => one.at - other.at);

function load() {
  const { id } = who();
  cache = read(CACHE);
  if (cache?.id !== id) cache = { id, keys: {} };
  queued = clicksOfAll().filter((entry) => entry.id === id);
  keys = { ...cache.keys };
  for (const { path, k } of queued) {
    if (path === 'item/add') keys[k] = 1;
    if (path === 'item/remove') delete keys[k];
  }
}

function saveCache() {
  write(CACHE, cache);
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
/** Fires `wishlist:change` if the list has changed. @param reason undefined while the page starts: then no event */
function changed(reason) {
  paintAll();
  const detail = { items: Object.keys(keys).map(productOf), count: countNow() };
  const now = JSON.stringify(detail);
  if (last !== now && reason) fire(document, 'change', { ...detail, reason });
  last = now;
}

const countNow = () => (cache.at === undefined ? undefined : Object.keys(keys).length);

function savedKey(product, isAny) {
  const k = keyOf(product);
  const prefix = `${plainId(product.productId)}:`;
  return Object.keys(keys).find((one) => (isAny ? one.startsWith(prefix) : one === k));
}

const isPending = (k) => queued.some((entry) => entry.k === k && entry.path !== 'product/visit');

/** Queues a click. Earlier sessions' are dropped, and earlier ones on the same product. */
async function enqueue(path, body, reason) {
  const k = keyOf(body);
  if (!who().id) {
    // A new visitor's first click is painted before there is a session.
    keys[k] = 1;
    paintAll();
    await sessionFor(true).catch(() => {});
  }
  load();
  const { id, owner } = who();
  const at = Math.max(Date.now(), ...queued.map((one) => one.at + 1));
  const entry = { id, owner, path, k, body, at, key: randomId(), tries: 0 };
  for (const one of clicksOfAll()) if (one.id !== id || one.k === k) drop(one);
  put(entry);
  const { productHandle } = body;
  // After a removal, Smart Save counts the product's visits from 0, on all devices.
  if (path === 'item/remove' && productHandle)
    put({ ...entry, path: 'product/visit', body: { productHandle }, at: at + 0.5, key: randomId() });
  problem = '';
  load();
  changed(reason);
  flush();
}

let timer;
function flushIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(flush, ms);
}

let isFlushing;
let isAsked;
/** Sends queued clicks in order, one tab at a time. */
async function flush() {
  isAsked = isFlushing;
  if (isFlushing) return;
  isFlushing = true;
  await allowed;
  const work = (lock) => (lock ? sendAll() : flushIn(1000));
  // navigator.locks needs https.
  if (!whyOff())
    await (navigator.locks
      ? navigator.locks.request('wishmeter', { ifAvailable: true }, work)
      : sendAll()
    ).catch(() => {});
  isFlushing = false;
  if (isAsked) flush();
}

async function sendAll() {
  for (load(); queued.length; load()) {
    const [entry] = queued;
    const { path, body, k, key, tries, next, owner } = entry;
    if (next > Date.now()) return flushIn(next - Date.now());
    const { status, json, wait, isForeign } = await ask(path, body, { key, tries, isClick: true });
    if (isForeign && owner) return logout();
    if (isForeign && tries < 3) {
      // The present session sends it again.
      put({ ...entry, id: who().id, tries: tries + 1 });
      refresh('login', true);
      continue;
    }
    load();
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
    write(CACHE, cache);
    if (!wait) drop(entry);
    else if (read(QUEUE + key)) put({ ...entry, next: Date.now() + wait, tries: tries + 1 });
    load();
    paintAll();
  }
}

/** Empties cache and queue: the next guest must get nothing of the customer's. */
function logout() {
  answered.clear();
  write(CACHE, { id: who().id, keys: {}, at: 0 });
  clicksOfAll().map(drop);
  load();
  changed('login');
}

/** Links the guest to the customer, by a write with both ids. A backend links them itself before it lists. */
async function link() {
  const { id, owner } = who();
  const both = `${id} ${owner}`;
  if (!owner || !id || read('wishmeter_linked') === both) return false;
  // This write through the app proxy has no other effect, because no product has this id.
  if (!options.backend && (await ask('item/remove', { productId: 'login' })).status !== 200) return false;
  write('wishmeter_linked', both);
  return true;
}

/** Asks again if a click was answered meanwhile, because the answer may be older than the click. */
async function askSaved(path, body) {
  const before = clicks;
  const answer = await ask(path, body);
  return before === clicks ? answer : askSaved(path, body);
}

let refreshing = Promise.resolve();
/** Asks for saved products, one request at a time. @param isWhole reads the whole list, even if no element needs it */
function refresh(reason, isWhole) {
  refreshing = refreshing.then(() => refreshNow(reason, isWhole)).catch(() => {});
  return refreshing;
}

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
      if (saved in cache.keys !== Boolean(itemId) && cache.at) cache.at = 0;
      for (const one of Object.keys(cache.keys))
        if (product.variantId ? one === k : one.startsWith(k)) delete cache.keys[one];
      if (itemId) cache.keys[saved] = 1;
      answered.add(k);
    }
    saveCache();
  }
  changed(reason);
  if (needsList()) await listNow(reason);
}

async function listNow(reason) {
  const answer = await askSaved('item/list');
  if (!isUsable(answer)) return undefined;
  load();
  items = answer.json.items || [];
  cache.keys = Object.fromEntries(items.map((item) => [keyOf(item), 1]));
  cache.at = Date.now();
  answered.add('*');
  saveCache();
  changed(reason);
  return items;
}

let retries = 0;
function isUsable({ status, json, wait, isForeign }) {
  off = status ? '' : navigator.onLine ? 'blocked' : 'offline';
  // Under Global Privacy Control there is no session before the first click.
  if (status === 404 && isPrivate()) answered.add('*');
  if (status === 200 || answered.has('*')) return true;
  if (wait) setTimeout(refresh, wait, 'other-tab');
  else if (isForeign && ++retries < 3) setTimeout(refresh, 0, 'login');
  report(json, wait);
  paintAll();
  return false;
}
