// Starts the kit: methods of window.wishmeter, elements, events.

// Resolves once requests are allowed: the page is parsed and shown, and there is consent.
const allowed = new Promise((go) => {
  waiting.push(go);
  // Under Global Privacy Control, the beacon never calls the functions of `waiting`.
  const look = () => isPrivate() && isShown() && go();
  document.addEventListener('readystatechange', look);
  document.addEventListener('prerenderingchange', look);
  look();
});
const OWN_PAGE = 'wishlist-page:not([code])';

let isReady;
load();

const { consent: setConsent, visit: countVisit, login: setCustomer, forget: forgetSession } = api;
Object.assign(api, isCounted && before, {
  has: (product) => Boolean(savedKey(product, product.variantId === undefined)),
  add: (item) => addItems([priced({ quantity: 1, source: 'other', inventoryAvailable: true, ...item })]),
  remove: (product, { event } = {}) => removeItems([product], document, event),
  list: () => allowed.then(() => listNow('other-tab')),
  share: (channel) => bySecond('shareLink')(document, channel),
  refresh(reason = 'other-tab') {
    forgetAnswers();
    return refresh(reason, true);
  },
  visit(handle) {
    for (const heart of elements) heart.isConsidered = false;
    askSoon();
    return countVisit(handle);
  },
  async login(to) {
    await setCustomer(to);
    lookAgain();
  },
  async consent(yes) {
    if (isCounted) before.consent(yes);
    await setConsent(yes);
    if (!yes) erase(PRIVATE);
    lookAgain();
  },
  async forget() {
    erase(PRIVATE);
    const id = await forgetSession();
    lookAgain();
    return id;
  },
});

const ELEMENTS = { heart: Heart, count: Count, page: class extends Lazy {}, popular: Lazy };
for (const [name, element] of Object.entries(ELEMENTS))
  try {
    customElements.define(`wishlist-${name}`, element);
  } catch (error) {
    // Another script of the page has an element of this name.
    warn(error);
  }

/** Looks for changes from elsewhere: from another tab, a login, or another device. */
function lookAgain() {
  const { id } = cache;
  load();
  if (!(Math.abs(Date.now() - cache.at) < FRESH)) forgetAnswers();
  // The session differs after a logout or a withdrawn consent.
  changed(id && id !== cache.id ? 'login' : isReady && 'other-tab');
  sync();
}
addEventListener('pageshow', (event) => event.persisted && lookAgain());
document.addEventListener('visibilitychange', () => document.hidden || (isReady && lookAgain()));
addEventListener('online', () => hurry());
addEventListener('offline', () => {
  off = 'offline';
  paintAll();
});
addEventListener('storage', ({ key: name }) => {
  // localStorage.clear() gives no name, and ends the session.
  if (name && !name.startsWith('wishmeter_')) return;
  const before = { ...keys };
  if (name?.startsWith(WISH)) {
    wishes.delete(name.slice(WISH.length));
    loadWish(name);
    count();
  } else load();
  for (const k in { ...before, ...keys }) if (k in before !== k in keys) touch(k);
  if (name !== 'wishmeter_linked') additions = ++changes;
  changed('other-tab');
  askSoon();
});
// The visitor may have chosen another variant. The page's own listeners run first.
document.addEventListener('change', () =>
  setTimeout(() => {
    paintAll();
    askSoon();
  }),
);
document.addEventListener('visitorConsentCollected', () => setTimeout(lookAgain));

allowed.then(async () => {
  await sessionFor(false).catch(() => {});
  load();
  sync();
  await refreshing;
  isReady = true;
  fillCart();
  fire(document, 'ready');
  smartSave();
});
