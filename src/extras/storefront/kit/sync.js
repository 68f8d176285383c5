// Sends wishes, and reads the state of the page's elements. Requests don't wait for one another. Each failed request
// has a back-off of its own; if the service fails twice in a row, all requests wait. A hidden tab retries nothing.
const MAX_SENDING = 4;
/** Milliseconds after which an answer is slow. */
const SLOW = 1000;
/** Milliseconds after which the list may have changed elsewhere. */
const FRESH = 30000;

// Product key, or `reads`, or `service` → `tries`, `until` by performance.now(), which no change of the clock moves.
const rests = {};
// Timers may end a little early.
const isResting = (name) => rests[name]?.until > performance.now() + 100;
const sending = new Set();
// The product whose wish was refused.
let problem = '';
// Why there was no answer: `blocked`, `offline` or empty.
let off;

function rest(name, wait) {
  const tries = (rests[name]?.tries ?? -1) + 1;
  rests[name] = { tries, until: performance.now() + wait(tries) };
}

/** Notes a request's result for the back-off and for `why`. */
function note(name, { status, wait }) {
  off = !status && (navigator.onLine ? 'blocked' : 'offline');
  if (!wait) {
    delete rests[name];
    delete rests.service;
    return;
  }
  rest(name, wait);
  rest('service', rests.service ? backOff : () => 0);
}

let timer;
function sync() {
  send();
  refresh(isReady && 'other-tab').then(syncLater);
}

/** Sets the timer to the end of the next rest. sync() has already tried again if a rest has ended. */
function syncLater() {
  clearTimeout(timer);
  const { service, ...others } = rests;
  const waits = Object.values(others)
    .map(({ until }) => Math.max(until, service?.until || 0) - performance.now())
    .filter((wait) => wait > 0);
  if (waits[0]) timer = setTimeout(() => document.hidden || sync(), Math.min(...waits));
}

/** Retries failed requests now, and resets their back-off. @param names keys of `rests` */
function hurry(names = Object.keys(rests)) {
  for (const name of names) delete rests[name];
  sync();
}

let sentAt;
/** Sends wishes one after the other, so that the list keeps their order; but a slow answer isn't waited for. */
async function send() {
  if (!wishes.size) return;
  await allowed;
  if (whyOff()) return;
  for (const wish of wishes.values()) {
    const { k } = wish;
    const isEarly = sending.size && performance.now() < sentAt + SLOW;
    if (isEarly || sending.size === MAX_SENDING || isResting('service')) break;
    if (isResting(k) || [...sending].some((one) => covers(k, one) || covers(one, k))) continue;
    sending.add(k);
    sentAt = performance.now();
    setTimeout(send, SLOW + 1);
    const work = () =>
      sendOne(wish).catch((error) => {
        warn(error);
        rest(k, backOff);
      });
    alone(k, work).then(() => {
      sending.delete(k);
      syncLater();
      send();
    });
  }
}

/** Runs the work unless another tab does. navigator.locks needs https and cookies; without it both tabs may, safely. */
async function alone(k, work) {
  const run = (lock) => (lock ? work() : rest(k, () => SLOW));
  try {
    await navigator.locks.request(`wishmeter ${k}`, { ifAvailable: true }, run);
  } catch {
    await work();
  }
}

async function sendOne(wish) {
  const { k, item, gone, key, moves = 0 } = wish;
  // Another tab may have sent it.
  if (wish.id && read(WISH + k)?.key !== key) {
    drop(wish);
    load();
    return changed('other-tab');
  }
  if (!wish.id) {
    await sessionFor(true);
    if (wishes.get(k) !== wish) return;
    load();
  }
  const sent = wish.id ? wish : put({ ...wish, ...who() });
  const answer = await (item ? ask('item/add', item, key) : removeNow(gone, key));
  const { status, json, wait, isForeign } = answer;
  if (!isPresent(sent)) return logout();
  if (isForeign && moves < 3) {
    // The present session sends it again.
    if (wishes.get(k)?.key === key) put({ ...wish, ...who(), moves: moves + 1 });
    refresh('login', true);
    return;
  }
  note(k, answer);
  if (status === 200) {
    confirm(wish, json);
    if (!wishes.size) askSoon();
    return;
  }
  report(json, wait);
  if (!wait) refuse(wish, json);
}

/** @returns the first answer that isn't 200, or the last one */
async function removeNow({ productId, variantId, productHandle, event }, key) {
  let answer;
  do {
    let found = { variantId };
    if (variantId === ALL) {
      answer = await ask('item/check', { products: [{ productId }] });
      [found] = answer.json.items || [{}];
      if (!found.itemId) break;
    }
    answer = await ask(
      'item/remove',
      { productId, variantId: found.variantId, event },
      variantId === ALL ? randomId() : key,
    );
  } while (variantId === ALL && answer.json.removed);
  if (answer.status !== 200 || !productHandle) return answer;
  // Smart Save counts the product's visits from 0, on all devices.
  const reset = await ask('product/visit', { productHandle }, randomId());
  return reset.wait ? reset : answer;
}

function refuse(wish, { error }) {
  const element = clicked.get(wish.key) || [...elements][0];
  drop(wish);
  touch(wish.k);
  forgetAnswers();
  problem = wish.k;
  count();
  changed('click');
  if (element) say(element, 'failed', error);
  askSoon();
}

const report = ({ code = 'no_answer', error }, wait) =>
  fire(document, 'error', { code, error, willRetry: Boolean(wait) });

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

let refreshing = Promise.resolve();
/** Asks for what is needed, one request at a time. @param isWhole reads the whole list, even if no element needs it */
function refresh(reason, isWhole) {
  refreshing = refreshing.then(() => refreshNow(reason, isWhole)).catch(warn);
  return refreshing;
}

const isWanted = (selector) => document.querySelector(selector);
const hasList = () => items && listedAt >= additions;
const needsList = () => isWanted(OWN_PAGE) && !hasList();
const needsCount = () =>
  isWanted('wishlist-count') && !hasList() && !(Math.abs(Date.now() - cache.at) < FRESH);

async function refreshNow(reason, isWhole) {
  await allowed;
  if (whyOff()) return paintAll();
  if (!isWhole && (isResting('service') || isResting('reads'))) return paintAll();
  const hasLoggedIn = await link();
  load();
  if (isWhole || hasLoggedIn || needsList()) return listNow(hasLoggedIn ? 'login' : reason);
  const products = new Map();
  for (const heart of elements) {
    const product = heart.check?.();
    if (product?.productId && !isAnswered(product)) products.set(keyOf(product), product);
  }
  const asked = [...products];
  for (let i = 0; i < asked.length; i += 250) if (!(await check(asked.slice(i, i + 250)))) return;
  if (needsCount()) {
    const since = changes;
    const answer = await ask('item/count');
    if (!isUsable(answer)) return;
    load();
    if (since === changes) Object.assign(cache, { count: answer.json.count || 0, at: Date.now() });
    saveCache();
  }
  changed(reason);
}

/** @param some pairs of a product's key and its ids */
async function check(some) {
  const since = changes;
  const answer = await ask('item/check', { products: some.map(([, product]) => product) });
  if (!isUsable(answer)) return false;
  load();
  for (const [j, { productId, variantId, itemId }] of (answer.json.items || []).entries()) {
    const [k, product] = some[j];
    if (itemId) learn(keyOf({ productId, variantId }), true, since);
    else
      for (const one of Object.keys(cache.keys))
        if (covers(product.variantId ? k : allOf(k), one)) learn(one, false, since);
    answered.add(k);
  }
  saveCache();
  return true;
}

let listedAt = 0;
async function listNow(reason) {
  const since = changes;
  const answer = await ask('item/list');
  if (!isUsable(answer)) return undefined;
  load();
  items = answer.json.items || [];
  listedAt = since;
  const now = new Set(items.map(keyOf));
  for (const k of [...Object.keys(cache.keys), ...now]) learn(k, now.has(k), since);
  cache.count = Object.keys(cache.keys).length;
  cache.at = Date.now();
  answered.add('*');
  saveCache();
  changed(reason);
  return items;
}

function isUsable(answer) {
  const { status, json, isForeign, isNone } = answer;
  // Under Global Privacy Control there is no session before the first click.
  if (isNone) answered.add('*');
  const isAnswer = status === 200;
  // A refusal, like that of a wrong key, may end, too.
  note('reads', { status, wait: !isAnswer && (answer.wait || backOff) });
  if (isAnswer) return true;
  if (!isForeign) report(json, answer.wait);
  paintAll();
  return false;
}

/** Waits until the wishes are sent, so that a shared list has them, but for at most five seconds. */
async function settled() {
  hurry();
  for (let i = 0; i < 50 && sending.size; i++) await new Promise((done) => setTimeout(done, 100));
}
