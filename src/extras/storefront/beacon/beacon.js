// What a shop's page loads to count its visits. It is served without comments and indentation (../beacon.ts),
// so comments have lines of their own here. ES2017: an older browser may not trip over it.
//
//   <script defer src="https://…/beacon.js" data-key="pk_…" data-product-handle="red-shoe"></script>
//
//   data-key             publishable key. Not needed behind a Shopify app proxy, or where the service takes anyone
//   data-product-handle  the product that the page shows: each view of the page is a visit
//   data-customer        who is logged in: any text that differs by customer, empty for a guest. It is never sent.
//                        After a logout, and for another customer, a new session begins. A login keeps the guest's
//   data-consent         the page asks for consent: nothing is stored or sent before wishmeter.consent(true)
//
// Tag managers drop data attributes; where the script is inlined or imported it has no tag at all. The page then says
// the same in a global, with src where there is no tag:
//
//   window.wishmeterOptions = { src: 'https://…/beacon.js', key: 'pk_…', productHandle: 'red-shoe', customer: '', consent: '' }
//
//   wishmeter.visit(handle)    counts a visit; the visitor's visits of this product so far
//   wishmeter.count(handle)    the same without counting, after visits of this product that are under way
//   wishmeter.counts(handles)  of up to 100 products: { handle: count }
//   wishmeter.session()        the session id that the page's wishlist requests must send
//   wishmeter.forget()         begins a new session; its id
//   wishmeter.consent(given)   what the visitor has decided. A refusal removes the stored id
//
// Each answers a promise that never rejects, and that is undefined where the answer is not known in 5 s.
// Nothing here may disturb the page: no error, and nothing that waits for the service. The console says once why nothing is
// counted.
//
// The visitor is a random id in localStorage, followed by a space and data-customer where one is logged in. The two are
// one item, so that they change together. Nothing is stored or sent under Global Privacy Control, for automated browsers
// and robots (src/http/robots.ts knows more of them), in Shopify's theme editor, and on Shopify's pages unless its
// customer-privacy API allows analytics (https://shopify.dev/docs/api/customer-privacy). A visit waits for consent and
// is sent once that is given.
(() => {
  // @include first
  // Calls that came before this script wait in the page's stub. (window.wishmeter may also be an element.)
  const { queue, visit } = Object(window.wishmeter);
  // A second copy of the tag would count twice.
  if (visit && !queue) return;

  // A module does not know its own element. Other services have a beacon.js, too: only ours has these attributes.
  const named = 'script[src*="/beacon.js"]';
  const tag = [
    document.currentScript,
    document.querySelector(`${named}[data-key],${named}[data-product-handle],${named}[type=module]`),
  ].find((script) => script && /\/beacon\.js($|\?)/.test(script.src));
  const options = Object.assign(
    {},
    tag ? tag.dataset : {},
    tag ? { src: tag.src } : {},
    window.wishmeterOptions,
  );
  const { src, key, productHandle, customer, consent, test } = options;
  if (!src) {
    console.warn('wishmeter: no tag with /beacon.js; set wishmeterOptions.src');
    return;
  }

  const { userAgent } = navigator;
  const device = /Mobi/.test(userAgent) ? 'mobile' : 'desktop';
  // Between the session and its owner, which may have blanks.
  const BLANK = / ([\s\S]*)/;
  // Not crypto.randomUUID: pages without https have none.
  const randomId = () => crypto.getRandomValues(new Uint32Array(4)).join('-');
  // The service is where the script came from.
  const urlOf = (path) => {
    const url = new URL(path, new URL(src, document.baseURI));
    if (key) url.searchParams.set('key', key);
    return url;
  };
  let said = '';
  const say = (why) => {
    if (why !== said) console.info(`wishmeter: ${why}`);
    said = why;
  };
  const never = () =>
    (navigator.globalPrivacyControl && 'Global Privacy Control') ||
    (test === undefined && navigator.webdriver && 'automated browser') ||
    (Object(window.Shopify).designMode && 'theme editor') ||
    // Cubot makes phones.
    (/[^u]bot|crawl|spider|headless|lighthouse|synthetic|pingdom|gtmetrix|preview|ptst|-user\/|partners-|google[-o]/i.test(
      userAgent,
    ) &&
      test === undefined &&
      'robot');
  // undefined: the page does not say, or has compared it with the stored session
  let present = customer;
  // The session where localStorage does not keep it: this page's.
  let memory = '';
  let given = consent === undefined;
  const waiting = [];
  const underway = new Map();

  // Read anew each time: another tab may have begun a new session.
  const stored = () => {
    try {
      return memory || localStorage.wishmeter_session || '';
    } catch (_) {
      return memory;
    }
  };

  const store = (value) => {
    memory = value;
    try {
      delete localStorage.wishmeter_session;
      if (value) localStorage.wishmeter_session = value;
      memory = '';
    } catch (_) {}
  };

  // It throws if Shopify's API has not been loaded: nothing is decided.
  const refused = () =>
    never() || (window.Shopify && !Shopify.customerPrivacy.analyticsProcessingAllowed() && 'no consent');

  // Before the page is parsed, Shopify may still come. A page that is prepared in advance is viewed when it is shown, if ever.
  const isShown = () => document.readyState !== 'loading' && !document.prerendering;

  const decide = () => {
    try {
      const refusal = refused();
      if (refusal) store('');
      const why = refusal || (!given && 'wishmeter.consent(true) is awaited');
      if (why) say(`nothing is sent: ${why}`);
      else if (isShown()) for (const go of waiting.splice(0)) go();
    } catch (_) {}
  };

  const begin = () => {
    try {
      // Shopify's pages have a queue of that name until its own script is there.
      Shopify.loadFeatures([{ name: 'consent-tracking-api', version: '0.1' }], decide);
    } catch (_) {}
    decide();
  };

  const identify = () => {
    const before = stored();
    const [id, owner = ''] = before.split(BLANK);
    // A page compares once: later it may be older than what is stored, as in a tab from before a logout.
    const now = present === undefined ? owner : present.trim();
    present = undefined;
    const next = ((!owner || owner === now) && id) || randomId();
    const value = now ? `${next} ${now}` : next;
    if (value !== before) store(value);
    return next;
  };

  // In the same turn as the consent, which may be withdrawn in the next.
  const session = async () => {
    if (never()) throw 0;
    return new Promise((go) => {
      waiting.push(() => go(identify()));
      decide();
    });
  };

  const post = async (path, name, value, headers) => {
    const url = urlOf(`product/visit${path}`);
    const sessionId = await session();
    const body = JSON.stringify({ identity: { sessionId, device }, [name]: value });
    // Without a header it goes as text/plain, which needs no preflight.
    const answer = await fetch(url, { method: 'POST', body, headers, keepalive: true }).catch((error) => {
      say(`no answer from ${url.origin}: blocked, or ALLOWED_ORIGINS lacks ${origin}`);
      throw error;
    });
    const json = await answer.json();
    if (!answer.ok) say(`${answer.status} ${json.error}`);
    return json;
  };

  const counts = async (handles) => {
    await Promise.all(handles.map((handle) => underway.get(handle)));
    return (await post('/list', 'productHandles', handles, { 'content-type': 'application/json' })).counts;
  };

  const soon = (work) => (arg) =>
    Promise.race([work(arg).catch(() => {}), new Promise((done) => setTimeout(done, 5000))]);

  const send = soon(async (handle) => {
    if (!handle) return say('no product handle, no visit');
    const { count } = await post('?count=true', 'productHandle', handle);
    // Every visit is counted, but a robot's, and the service knows more of them.
    if (count === 0) say('not counted: robot');
    return count;
  });

  const api = {
    visit(handle) {
      const counted = send(handle);
      underway.set(handle, Promise.all([underway.get(handle), counted]));
      return counted;
    },
    count: soon(async (handle) => (await counts([handle]))[handle]),
    counts: soon(counts),
    session: soon(session),
    forget() {
      store('');
      present = customer;
      return api.session();
    },
    async consent(yes) {
      given = yes;
      if (!yes) store('');
      decide();
    },
  };
  window.wishmeter = api;

  // @include kit

  document.addEventListener('readystatechange', begin);
  document.addEventListener('prerenderingchange', begin);
  document.addEventListener('visitorConsentCollected', begin);
  begin();
  // Back and forward may bring the page as it was, without loading it: a view like any other.
  addEventListener('pageshow', (event) => event.persisted && api.visit(productHandle));
  api.visit(productHandle);
  // A logout is seen on every page that says who is logged in.
  if (customer !== undefined) api.session();

  if (queue) {
    queue.push = ([name, arg, done]) => api[name](arg).then(done);
    for (const call of queue.splice(0)) queue.push(call);
  }
})();
