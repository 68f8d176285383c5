// Requests of the kit, and who they are for. The beacon's visits pass through `fetch` here, too: one that got 503 or 429 is
// sent again. Declared as a function, it stands in for the browser's in all of the closure.
async function fetch(url, init) {
  for (let tries = 0; ; tries++) {
    const answer = await window.fetch(url, init);
    if (tries === 3 || ![429, 503].includes(answer.status)) return answer;
    await new Promise((done) => setTimeout(done, waitOf(answer, tries)));
  }
}

const TIMEOUT = 10000;

/** Milliseconds until another try, with jitter: what the service says, else longer each time. */
function waitOf(answer, tries) {
  const said = answer && Number(answer.headers.get('retry-after'));
  return (said > 0 ? said * 1000 : Math.min(500 * 2 ** tries, 30000)) * (1 + Math.random() / 2);
}

// What localStorage keeps, or this page where it can't.
const kept = {};
function read(name) {
  try {
    return JSON.parse(localStorage[name]);
  } catch (_) {
    return kept[name];
  }
}
function write(name, value) {
  kept[name] = value;
  try {
    localStorage[name] = JSON.stringify(value);
  } catch (_) {}
}

const settings = Object.assign({}, tag ? tag.dataset : {}, window.wishmeterOptions);
const isPrivate = () => Boolean(navigator.globalPrivacyControl);
// Under Global Privacy Control a session that only the wishlist uses, from the first click on.
const PRIVATE = 'wishmeter_wishlist';

/** The session and who is logged in, as any tab knows it now. */
function who() {
  let stored = memory;
  try {
    stored = memory || localStorage.wishmeter_session || '';
  } catch (_) {}
  if (isPrivate()) stored = read(PRIVATE) || '';
  const [id, owner = ''] = stored.split(/ ([\s\S]*)/);
  return { id, owner };
}

/** Why there is no wishlist here: `consent`, `privacy` or `robot`; empty if there is one. */
function whyOff() {
  if (isPrivate()) return settings.gpc === 'off' ? 'privacy' : '';
  if (never()) return 'robot';
  try {
    return given && (!window.Shopify || Shopify.customerPrivacy.analyticsProcessingAllowed())
      ? ''
      : 'consent';
  } catch (_) {
    return 'consent';
  }
}

/** @param isClick a click may open a session under Global Privacy Control @returns its id; empty without one */
async function sessionFor(isClick) {
  if (!isPrivate()) return session();
  const { id, owner } = who();
  const now = (customer || '').trim();
  if (owner && owner !== now) write(PRIVATE, '');
  else if (id) return id;
  if (!isClick) return '';
  const next = crypto.getRandomValues(new Uint32Array(4)).join('-');
  write(PRIVATE, now ? `${next} ${now}` : next);
  return next;
}

// A tab from before a login has learned that someone is logged in.
let isLoggedIn = false;
const viaBackend = () => settings.backend && (who().owner || isLoggedIn || (isPrivate() && customer));

/** The session was another's: begins an empty one. */
async function beginAnew() {
  isLoggedIn = false;
  if (isPrivate()) return write(PRIVATE, '');
  store('');
  present = '';
  await session();
}

/**
 * One request for the wishlist. @param more `key`: its Idempotency-Key, `method`, `body`
 * @returns {status, json, wait}: status 0 without an answer; `wait` in milliseconds for one that may be sent again
 */
async function ask(path, body, { key: idempotencyKey, method = 'POST', isClick = false, tries = 0 } = {}) {
  const isVisit = path === 'product/visit';
  const isOwn = viaBackend() && !isVisit;
  const root = new URL(src, document.baseURI);
  const url = new URL(
    path,
    isOwn ? new URL(`${settings.backend.replace(/\/$/, '')}/`, document.baseURI) : root,
  );
  if (key && !isOwn) url.searchParams.set('key', key);
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), TIMEOUT);
  try {
    const sessionId = await sessionFor(isClick);
    if (!sessionId && !isOwn) return { status: 404, json: {} };
    const headers = { 'content-type': 'application/json' };
    if (idempotencyKey) headers['idempotency-key'] = idempotencyKey;
    const device = /Mobi/.test(userAgent) ? 'mobile' : 'desktop';
    const text = JSON.stringify(Object.assign({ identity: { sessionId: sessionId || null, device } }, body));
    const init = { method, headers, signal: abort.signal, keepalive: text.length < 60000 };
    if (method !== 'GET') init.body = text;
    const answer = await window.fetch(url, init);
    const json = await answer.json().catch(() => ({}));
    const { status } = answer;
    if (isOwn && status === 401) {
      // Nobody is logged in. Another request may have found out before.
      const { id, owner } = who();
      if (id === sessionId || !id) await beginAnew();
      return { status, json, owner };
    }
    const mayRepeat = status === 429 || status >= 500;
    return { status, json, wait: mayRepeat ? waitOf(answer, tries) : undefined };
  } catch (_) {
    return { status: 0, json: {}, wait: waitOf(undefined, tries) };
  } finally {
    clearTimeout(timer);
  }
}
