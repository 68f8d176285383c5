// The list as this browser knows it: a cache of the service's answers, and a queue of clicks that outlives the page. Both are
// in localStorage, whose `storage` events tell other tabs. (A BroadcastChannel would keep pages out of bfcache.)
const CACHE = 'wishmeter_list';
const QUEUE = 'wishmeter_queue';
/** Milliseconds for which the list's count is taken from the cache. */
const FRESH = 60000;

const plainId = (id) => String(id === undefined || id === null ? '' : id).replace(/^gid:\/\/\w+\/\w+\//, '');
const keyOf = ({ productId, variantId }) => `${plainId(productId)}:${plainId(variantId)}`;

let cache;
let queued;
let keys;
// Products that the service has answered for on this page; `*`: all of them.
const answered = new Set();
let problem = '';

/** Reads cache and queue. What belongs to another session is gone. */
function load() {
  const { id } = who();
  cache = read(CACHE);
  if (!cache || cache.id !== id) cache = { id, keys: {}, at: 0 };
  queued = (read(QUEUE) || []).filter((entry) => entry.id === id);
  keys = Object.assign({}, cache.keys);
  for (const { op, k } of queued) {
    if (op === 'add') keys[k] = 1;
    else if (op === 'remove') delete keys[k];
  }
}

function keep() {
  write(CACHE, cache);
  write(QUEUE, queued);
  load();
}

const fire = (target, name, detail, cancelable = false) =>
  target.dispatchEvent(
    new CustomEvent(`wishlist:${name}`, { detail, bubbles: true, composed: true, cancelable }),
  );

let told;
/** Paints all, and tells listeners of a list that differs from the last one. @param reason undefined: the page has just begun */
function changed(reason) {
  paintAll();
  const items = Object.keys(keys).map((k) => {
    const [productId, variantId] = k.split(/:([\s\S]*)/);
    return { productId, variantId: variantId || null };
  });
  const count = countNow();
  const now = JSON.stringify([items, count]);
  if (told !== now && reason) fire(document, 'change', { items, count, reason });
  told = now;
}

/** Items of the list; undefined before the first answer. */
const countNow = () => cache.count;

/** The key of a product on the list; of any of its variants with `isAny`. */
function savedKey(product, isAny) {
  const k = keyOf(product);
  if (!isAny) return k in keys ? k : undefined;
  const prefix = `${plainId(product.productId)}:`;
  return Object.keys(keys).find((one) => one.startsWith(prefix));
}

const isPending = (k) => queued.some((entry) => entry.k === k && entry.op !== 'reset');

/**
 * Queues a click and paints it. The last click on a product wins: those before it that are not on their way are dropped.
 * @param op `add` or `remove` @param item what /item/add or /item/remove takes, with productHandle
 */
async function enqueue(op, item, reason) {
  const paintOnly = !who().id;
  if (paintOnly) await sessionFor(true).catch(() => '');
  load();
  const k = keyOf(item);
  const was = k in keys;
  const entry = (of, body) => ({
    id: who().id,
    owner: who().owner,
    op: of,
    k,
    body,
    key: crypto.getRandomValues(new Uint32Array(4)).join('-'),
    next: 0,
    tries: 0,
  });
  queued = queued.filter((one) => one.k !== k || one.isSent);
  queued.push(entry(op, item));
  // A no is respected on every device: the visits that Smart Save counts begin anew.
  if (op === 'remove' && item.productHandle)
    queued.push(entry('reset', { productHandle: item.productHandle }));
  if (cache.count !== undefined && was !== (op === 'add')) cache.count += op === 'add' ? 1 : -1;
  problem = '';
  keep();
  changed(reason);
  flush();
}

let timer;
function flushIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(flush, ms);
}

let isFlushing = false;
/** Sends what is queued, in order, by one tab at a time. */
async function flush() {
  if (isFlushing) return;
  isFlushing = true;
  try {
    await allowed;
    if (whyOff()) throw 0;
    const work = (lock) => (lock === null ? flushIn(1000) : sendAll());
    if (navigator.locks) await navigator.locks.request('wishmeter', { ifAvailable: true }, work);
    else await work();
  } catch (_) {}
  isFlushing = false;
}

async function sendAll() {
  for (;;) {
    load();
    const [entry] = queued;
    if (!entry) return;
    if (entry.next > Date.now()) return flushIn(entry.next - Date.now());
    entry.isSent = true;
    keep();
    const { op, body, key: idempotencyKey, tries } = entry;
    const path = op === 'reset' ? 'product/visit' : `item/${op}`;
    const method = op === 'reset' ? 'DELETE' : 'POST';
    const { status, json, wait, owner } = await ask(path, body, {
      key: idempotencyKey,
      method,
      tries,
      isClick: true,
    });
    // Of someone who was logged in. A guest's click goes on to the new session.
    if (status === 401 && (owner || entry.owner)) return logout();
    if (status === 401 && tries < 3) {
      requeue(entry);
      continue;
    }
    if (status === 403 && json.code === 'session_belongs_to_customer' && tries < 2) {
      await carry(entry);
      continue;
    }
    load();
    const at = queued.findIndex((one) => one.key === idempotencyKey);
    if (wait === undefined) {
      if (at >= 0) queued.splice(at, 1);
      if (status === 200 && op !== 'reset') {
        if (op === 'add') cache.keys[entry.k] = 1;
        else delete cache.keys[entry.k];
      } else if (status !== 200) {
        problem = entry.k;
        cache.at = 0;
        answered.clear();
      }
    } else if (at >= 0)
      Object.assign(queued[at], { next: Date.now() + wait, tries: tries + 1, isSent: false });
    keep();
    if (status !== 200)
      fire(document, 'error', { code: json.code || 'no_answer', willRetry: wait !== undefined });
    for (const element of elements) element.paint();
    if (problem === entry.k) refresh('other-tab');
  }
}

/** The session is a customer's: learns whether one is logged in, and takes the click to that list. */
async function carry(entry) {
  if (settings.backend && !viaBackend()) isLoggedIn = true;
  else await beginAnew();
  requeue(entry);
  setTimeout(refresh, 0, 'login', true);
}

/** Puts a click first, for the session as it is now, without what was queued for another. */
function requeue(entry) {
  const { id } = who();
  const again = Object.assign({}, entry, { id, tries: entry.tries + 1, isSent: false });
  write(QUEUE, [again, ...queued.filter((one) => one.key !== entry.key && one.id === id)]);
  answered.clear();
  load();
}

/** Who was logged in is not any more: the next guest gets nothing of it. */
function logout() {
  answered.clear();
  write(QUEUE, []);
  write(CACHE, null);
  load();
  cache.count = 0;
  keep();
  changed('login');
}

/** Any write with both ids links a guest to who logged in; a list at the backend merges. */
async function link() {
  const { id, owner } = who();
  const both = `${id} ${owner}`;
  if (!owner || !id || read('wishmeter_linked') === both) return false;
  // Through the app proxy: no product has this id.
  if (!settings.backend && (await ask('item/remove', { productId: 'login' })).status !== 200) return false;
  write('wishmeter_linked', both);
  return true;
}

let refreshing = Promise.resolve();
/** Asks the service again, one request after the other. @param isWhole the list, also without an element that needs it */
function refresh(reason, isWhole) {
  refreshing = refreshing.then(() => refreshNow(reason, isWhole)).catch(() => {});
  return refreshing;
}

async function refreshNow(reason, isWhole) {
  await allowed;
  if (whyOff()) return paintAll();
  const hasLoggedIn = await link();
  load();
  const wantsList =
    isWhole || hasLoggedIn || (document.querySelector('wishlist-count') && Date.now() - cache.at > FRESH);
  if (wantsList) return listNow(hasLoggedIn ? 'login' : reason);
  if (answered.has('*')) return paintAll();
  const products = new Map();
  for (const heart of elements) {
    const product = heart.check && heart.check();
    if (product && product.productId && !answered.has(keyOf(product))) products.set(keyOf(product), product);
  }
  const asked = [...products];
  for (let i = 0; i < asked.length; i += 250) {
    const some = asked.slice(i, i + 250);
    const answer = await ask('item/check', { products: some.map(([, product]) => product) });
    if (!(await taken(answer))) return;
    load();
    for (const [j, { productId, variantId, itemId }] of (answer.json.items || []).entries()) {
      const [k, product] = some[j];
      answered.add(k);
      const isKnown = keyOf({ productId, variantId }) in cache.keys;
      if (itemId) cache.keys[keyOf({ productId, variantId })] = 1;
      else if (product.variantId) delete cache.keys[k];
      else for (const one of Object.keys(cache.keys)) if (one.startsWith(k)) delete cache.keys[one];
      // The list has changed elsewhere.
      if (isKnown !== Boolean(itemId)) cache.at = 0;
    }
    keep();
  }
  changed(reason);
  if (!cache.at && document.querySelector('wishlist-count')) await listNow(reason);
}

/** The whole list. @returns its items; undefined without an answer */
async function listNow(reason) {
  const answer = await ask('item/list', {});
  if (!(await taken(answer))) return undefined;
  const { items = [] } = answer.json;
  load();
  cache.keys = {};
  for (const item of items) cache.keys[keyOf(item)] = 1;
  cache.at = Date.now();
  cache.count = items.length;
  answered.add('*');
  keep();
  // With what is queued.
  cache.count = Object.keys(keys).length;
  write(CACHE, cache);
  changed(reason);
  return items;
}

/** Whether an answer can be used; otherwise asks again later, or for another session. */
async function taken({ status, json, wait, owner }) {
  off = status ? '' : navigator.onLine ? 'blocked' : 'offline';
  if (status === 200) return true;
  if (status === 404 && isPrivate()) {
    // No session yet, so nothing is saved.
    answered.add('*');
    return true;
  }
  if (status === 401 && owner) logout();
  else if (status === 401) {
    answered.clear();
    load();
    if (++carried < 3) setTimeout(refresh, 0, 'login');
  } else if (json.code === 'session_belongs_to_customer') {
    if (settings.backend && !viaBackend()) isLoggedIn = true;
    else await beginAnew();
    load();
    if (++carried < 3) setTimeout(refresh, 0, 'login');
  } else if (wait !== undefined) setTimeout(refresh, wait, 'other-tab');
  if (status !== 200)
    fire(document, 'error', { code: json.code || 'no_answer', willRetry: wait !== undefined });
  paintAll();
  return false;
}
let off = '';
let carried = 0;

const paintAll = () => {
  for (const element of elements) element.paint();
};
