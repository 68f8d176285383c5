// The kit begins: its methods on window.wishmeter, its elements, and when it looks again.
// Resolves once something may be sent: the page is parsed and shown, and there is consent.
const allowed = new Promise((go) => {
  const look = () => isPrivate() && document.readyState !== 'loading' && !document.prerendering && go();
  waiting.push(go);
  document.addEventListener('readystatechange', look);
  document.addEventListener('prerenderingchange', look);
  look();
});

let isReady = false;
load();

const { consent: giveConsent } = api;
Object.assign(api, isCounted && { visit: before.visit, count: before.count, counts: before.counts }, {
  products: before.products,
  has: (product) => Boolean(savedKey(product, product.variantId === undefined)),
  add: (item) =>
    addItem(Object.assign({ quantity: 1, source: 'other', inventoryAvailable: true, compareAt: null }, item)),
  remove: (product) => removeItem(product),
  list: async () => {
    await allowed;
    return listNow('other-tab');
  },
  share: () => shareLink(),
  refresh: () => {
    answered.clear();
    return refresh('other-tab', true);
  },
  consent: async (yes) => {
    if (isCounted) before.consent(yes);
    await giveConsent(yes);
    if (!yes) logout();
    load();
    paintAll();
    refresh('other-tab');
  },
});

customElements.define('wishlist-heart', Heart);
customElements.define('wishlist-count', Count);
customElements.define('wishlist-page', Page);

function lookAgain() {
  const { id } = cache;
  load();
  if (id && id !== cache.id) logout();
  answered.clear();
  cache.at = 0;
  refresh('other-tab');
  flush();
}
addEventListener('pageshow', (event) => event.persisted && lookAgain());
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible' && isReady) lookAgain();
});
addEventListener('online', () => {
  write(
    QUEUE,
    (read(QUEUE) || []).map((entry) => Object.assign(entry, { next: 0 })),
  );
  off = '';
  refresh('other-tab');
  flush();
});
addEventListener('offline', () => {
  off = 'offline';
  paintAll();
});
addEventListener('storage', ({ key: name }) => {
  if (![CACHE, QUEUE, 'wishmeter_session', PRIVATE, null].includes(name)) return;
  const were = JSON.stringify(keys);
  load();
  if (JSON.stringify(keys) !== were) changed('other-tab');
  else paintAll();
  if (queued.length) flushIn(1000);
});
// Another variant was chosen, once the page's own listeners have run.
document.addEventListener('change', () =>
  setTimeout(() => {
    paintAll();
    askSoon();
  }),
);
document.addEventListener('visitorConsentCollected', () =>
  setTimeout(() => {
    load();
    paintAll();
  }),
);

allowed.then(async () => {
  await sessionFor(false).catch(() => '');
  load();
  await refresh();
  isReady = true;
  fillCart();
  fire(document, 'ready', {});
  flush();
  smartSave();
});
