// Counts a shop page's visits. It is ES2017, so that older browsers can parse it. docs/shopify/README.md describes
// options and methods.
//
// localStorage has a random session id, followed by a space and data-customer if a customer is logged in. They are one
// item, so that they change together.
(() => {
  // A module has no currentScript, so its tag is found by attributes that the beacon.js of other services lacks.
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
  // @include first
  // Turbo and htmx may show a cached copy of the page. Its tag has this mark, and perhaps a former customer.
  if (tag) tag.dataset.seen = '';
  // The page's stub has queued earlier calls. (window.wishmeter may also be an element.)
  const { queue, visit, update } = Object(window.wishmeter);
  if (visit && !queue) {
    if (update) update(options);
    return;
  }
  const { src, key, consent, test } = options;
  if (!src) {
    console.warn('wishmeter: no tag with /beacon.js; set wishmeterOptions.src');
    return;
  }

  // The page may give a number, or null for a guest.
  const plain = (customer) => String(customer || '').trim();
  if (options.customer !== undefined) options.customer = plain(options.customer);
  const { userAgent } = navigator;
  const device = /Mobi/.test(userAgent) ? 'mobile' : 'desktop';
  // Separates the session id from data-customer, which may contain blanks.
  const BLANK = / ([\s\S]*)/;
  // crypto.randomUUID needs https.
  const randomId = () => crypto.getRandomValues(new Uint32Array(4)).join('-');
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
    // Cubot is a brand of phones.
    (/[^u]bot|crawl|spider|headless|lighthouse|synthetic|pingdom|gtmetrix|preview|ptst|-user\/|partners-|google[-o]/i.test(
      userAgent,
    ) &&
      test === undefined &&
      'robot');
  // data-customer until it is compared with the stored session; then undefined.
  let present = options.customer;
  // True once forget() is called: the stored session is replaced.
  let renewed = false;
  // The stored session if localStorage is forbidden or full.
  let memory = '';
  // The session that this page has replaced, once, because the service refused it.
  let replaced;
  const isRetired = ({ code }, sessionId) => {
    if (code !== 'session_retired') return false;
    replaced = replaced || sessionId;
    return sessionId === replaced;
  };
  let given = consent === undefined;
  const waiting = [];
  const underway = new Map();
  // The kit sends visits again.
  const net = { fetch: (url, init) => fetch(url, init) };

  // Reads localStorage each time, because another tab may have begun a session.
  const stored = () => {
    try {
      return memory || localStorage.wishmeter_session || '';
    } catch (_) {
      return memory;
    }
  };

  const remove = () => {
    memory = '';
    try {
      delete localStorage.wishmeter_session;
    } catch (_) {}
  };

  // Overwrites the session in one write: between a removal and a write, another tab would begin a session, too.
  const store = (value) => {
    try {
      localStorage.wishmeter_session = value;
      memory = '';
    } catch (_) {
      remove();
      memory = value;
    }
  };

  // Throws if Shopify's API isn't loaded yet: then nothing is decided.
  const refused = () =>
    never() || (window.Shopify && !Shopify.customerPrivacy.analyticsProcessingAllowed() && 'no consent');

  // Shopify's script may still come until the page is parsed. A prerendered page is viewed once it is shown.
  const isShown = () => document.readyState !== 'loading' && !document.prerendering;

  const decide = () => {
    try {
      const refusal = refused();
      if (refusal) remove();
      const why = refusal || (!given && 'wishmeter.consent(true) is awaited');
      if (why) say(`nothing is sent: ${why}`);
      else if (isShown()) for (const go of waiting.splice(0)) go();
    } catch (_) {}
  };

  const begin = () => {
    try {
      Shopify.loadFeatures([{ name: 'consent-tracking-api', version: '0.1' }], decide);
    } catch (_) {}
    decide();
  };

  const identify = () => {
    const before = renewed ? '' : stored();
    const [id, owner = ''] = before.split(BLANK);
    // data-customer is compared only once per page, because another tab may have logged out since.
    const now = present === undefined ? owner : present;
    present = undefined;
    renewed = false;
    const next = (id !== replaced && (!owner || owner === now) && id) || randomId();
    const value = now ? `${next} ${now}` : next;
    if (value !== before) store(value);
    return next;
  };

  // Calls `identify` in the same tick as the consent is given, because it may be withdrawn in the next.
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
    // Without a header the type is text/plain, which needs no preflight.
    const answer = await net.fetch(url, { method: 'POST', body, headers, keepalive: true }).catch((error) => {
      say(`no answer from ${url.origin}: blocked, or ALLOWED_ORIGINS lacks ${origin}`);
      throw error;
    });
    const json = await answer.json();
    if (isRetired(json, sessionId)) return post(path, name, value, headers);
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
    if (count === 0) say('not counted: robot');
    return count;
  });

  // The page of the last visit. `navigation` tells two views of one address apart; older browsers lack it.
  let viewed;
  const view = () => location.href + Object(Object(window.navigation).currentEntry).id;

  const api = {
    visit(handle) {
      viewed = view();
      options.productHandle = handle;
      const counted = send(handle);
      underway.set(handle, Promise.all([underway.get(handle), counted]));
      return counted;
    },
    async login({ customer, backend = options.backend }) {
      options.customer = present = plain(customer);
      options.backend = backend;
      await api.session();
    },
    /** A page that changes without a load runs its tag again. A second tag of the same page changes nothing. */
    update(tag) {
      const { productHandle, customer, seen } = tag;
      const isSame = viewed === view() && productHandle === options.productHandle;
      options.productHandle = productHandle;
      if (customer !== undefined && seen === undefined) api.login(tag);
      if (productHandle && !isSame) api.visit(productHandle);
    },
    count: soon(async (handle) => (await counts([handle]))[handle]),
    counts: soon(counts),
    session: soon(session),
    forget() {
      renewed = true;
      present = options.customer;
      const sessionId = api.session();
      if (renewed) remove();
      renewed = false;
      return sessionId;
    },
    async consent(yes) {
      given = yes;
      if (!yes) remove();
      decide();
    },
  };
  window.wishmeter = api;

  document.addEventListener('readystatechange', begin);
  document.addEventListener('prerenderingchange', begin);
  document.addEventListener('visitorConsentCollected', begin);
  begin();
  // Back and forward may restore a page without loading it.
  addEventListener('pageshow', (event) => event.persisted && api.visit(options.productHandle));
  api.visit(options.productHandle);
  // Notices a logout also on pages without a visit.
  if (options.customer !== undefined) api.session();

  // Visits are counted even if the kit fails.
  const startKit = () => {
    // @include kit
  };
  try {
    startKit();
  } catch (error) {
    console.warn('wishmeter:', error);
  }

  if (queue) {
    queue.push = ([name, arg, done]) => api[name](arg).then(done);
    for (const call of queue.splice(0)) queue.push(call);
  }
})();
