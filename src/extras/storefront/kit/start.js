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

const { consent: setConsent } = api;
Object.assign(api, isCounted && before, {
  has: (product) => Boolean(savedKey(product, product.variantId === undefined)),
  add: (item) => addItem(priced({ quantity: 1, source: 'other', inventoryAvailable: true, ...item })),
  remove: (product, { event } = {}) => removeItem(product, document, event),
  list: () => allowed.then(() => listNow('other-tab')),
  share: (channel) => shareLink(document, channel),
  refresh(reason = 'other-tab') {
    answered.clear();
    return refresh(reason, true);
  },
  async consent(yes) {
    if (isCounted) before.consent(yes);
    await setConsent(yes);
    if (!yes) write(PRIVATE, '');
    lookAgain();
  },
});

customElements.define('wishlist-heart', Heart);
customElements.define('wishlist-count', Count);
customElements.define('wishlist-page', Page);

function lookAgain() {
  const { id } = cache;
  load();
  answered.clear();
  // The session differs after a logout or a withdrawn consent.
  if (id && id !== cache.id) logout();
  else paintAll();
  refresh('other-tab', document.querySelector(`wishlist-count,${OWN_PAGE}`));
  flush();
}
addEventListener('pageshow', (event) => event.persisted && lookAgain());
document.addEventListener('visibilitychange', () => document.hidden || (isReady && lookAgain()));
addEventListener('online', () => {
  for (const entry of queued) put({ ...entry, next: 0 });
  load();
  off = '';
  lookAgain();
});
addEventListener('offline', () => {
  off = 'offline';
  paintAll();
});
addEventListener('storage', ({ key: name }) => {
  // localStorage.clear() gives no name.
  if (name && !name.startsWith('wishmeter_')) return;
  if (name?.startsWith(QUEUE)) clicks++;
  load();
  changed('other-tab');
  if (queued.length) flushIn(1000);
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
  await refresh();
  isReady = true;
  fillCart();
  fire(document, 'ready');
  flush();
  smartSave();
});
