// What a shop's page loads to count its visits. It is served without comments and indentation (../beacon.ts),
// so comments have lines of their own here. ES2017: an older browser may not trip over it.
//
//   <script defer src="https://…/beacon.js" data-key="pk_…" data-product-handle="red-shoe"></script>
//
//   data-key                 publishable key; without it the service takes the visitor as anyone
//   data-product-handle      the product that the page shows: each view of the page is a visit
//   wishmeter.visit(handle)  one more visit, for pages that show another product without being loaded again
//   wishmeter.count(handle)  a promise of this visitor's visits so far; 0 where that can't be known
//
// Nothing here may disturb the page: no error, no rejected promise, nothing that waits for the service.
// A visitor is a random id in localStorage. Under Global Privacy Control there is none, and nothing is sent.
(() => {
  const script = document.currentScript;
  // A second copy of the tag would count twice. (window.wishmeter may also be an element with that id.)
  if (!script || 'visit' in Object(window.wishmeter)) return;

  const { key, productHandle } = script.dataset;
  const NAME = 'wishmeter_session';
  let memory;

  const session = () => {
    const refused = navigator.globalPrivacyControl;
    try {
      // Read anew each time: two tabs that opened at once each made an id, and the later one stays.
      if (refused) localStorage.removeItem(NAME);
      else memory = localStorage.getItem(NAME) || memory;
    } catch (_) {}
    if (refused) return;
    // Not crypto.randomUUID: pages without https have none.
    memory = memory || crypto.getRandomValues(new Uint32Array(4)).join('-');
    try {
      localStorage.setItem(NAME, memory);
    } catch (_) {}
    return memory;
  };

  // The service is where the script came from.
  const url = (query) => {
    const found = new URL('product/visit', script.src);
    found.search = new URLSearchParams(key ? Object.assign({ key }, query) : query);
    return found.href;
  };

  const visit = async (handle) => {
    try {
      // A page that is prepared in advance is viewed when it is shown, if ever.
      if (document.prerendering) {
        document.addEventListener('prerenderingchange', () => visit(handle), { once: true });
        return;
      }
      const sessionId = handle && session();
      if (!sessionId) return;
      const device = /Mobi/.test(navigator.userAgent) ? 'mobile' : 'desktop';
      // A text goes as text/plain, which needs no preflight.
      const body = JSON.stringify({ identity: { sessionId, device }, productHandle: handle });
      // biome-ignore lint/complexity/useOptionalChain: is not ES2017
      if (navigator.sendBeacon && navigator.sendBeacon(url(), body)) return;
      await fetch(url(), { method: 'POST', body, keepalive: true, credentials: 'omit' });
    } catch (_) {}
  };

  const count = async (handle) => {
    try {
      const sessionId = session();
      if (!sessionId) return 0;
      const answer = await fetch(url({ sessionId, productHandle: handle }), { credentials: 'omit' });
      return (await answer.json()).count || 0;
    } catch (_) {
      return 0;
    }
  };

  window.wishmeter = { visit, count };
  visit(productHandle);
  // Back and forward may bring the page as it was, without loading it: a view like any other.
  addEventListener('pageshow', (event) => event.persisted && visit(productHandle));
})();
