// Requests, sessions and the back-off. Visits are sent again, too, after 503 or 429.
net.fetch = async (url, init) => {
  for (let tries = 0; ; tries++) {
    // Consent may have been withdrawn during the wait.
    if (whyOff()) throw 0;
    const answer = await fetch(url, init);
    if (tries === 3 || ![429, 503].includes(answer.status)) return answer;
    await new Promise((done) => setTimeout(done, waitOf(answer, tries)));
  }
};

const TIMEOUT = 10000;
const LONGEST_WAIT_S = 300;

/** @returns milliseconds until the next try, by Retry-After or exponential back-off, with jitter */
const waitOf = (answer, tries) =>
  1000 *
  Math.min(Math.max(answer?.headers.get('retry-after') * 1 || 0, 2 ** tries / 2), LONGEST_WAIT_S) *
  (1 + Math.random() / 2);

const backOff = (tries) => waitOf(undefined, tries);

let storage;
try {
  storage = localStorage;
} catch {}
storage ||= {};
// Values that localStorage has refused, because it is forbidden or full.
const unstored = {};

/** @returns undefined if there is none, or its text is damaged */
function read(name) {
  try {
    return JSON.parse(unstored[name] ?? storage[name]);
  } catch {}
}

function write(name, value) {
  const json = JSON.stringify(value);
  try {
    storage[name] = json;
    delete unstored[name];
  } catch {
    unstored[name] = json;
  }
}

function erase(name) {
  delete storage[name];
  delete unstored[name];
}

const isPrivate = () => navigator.globalPrivacyControl;
// The item with the session under Global Privacy Control. It is made at the first click, and only for the wishlist.
const PRIVATE = 'wishmeter_wishlist';

/** @returns the session and its customer; nothing if the page names another customer, and the session must end */
function who() {
  const [id, owner = ''] = String(isPrivate() ? read(PRIVATE) || '' : stored()).split(BLANK);
  const isOver = owner && owner !== (present ?? owner);
  return isOver ? { id: '', owner: '' } : { id, owner };
}

/** @returns why there is no wishlist: `consent`, `privacy` or `robot`; empty if there is one */
function whyOff() {
  if (isPrivate()) return options.gpc === 'off' ? 'privacy' : '';
  if (never()) return 'robot';
  try {
    if (given && !refused()) return '';
  } catch {}
  return 'consent';
}

/** @param isClick true for a click, which may begin a session under Global Privacy Control */
async function sessionFor(isClick) {
  if (!isPrivate()) return session();
  const { id, owner } = who();
  const next = id && id !== replaced ? id : isClick ? randomId() : '';
  write(PRIVATE, next && `${next} ${present || owner}`.trim());
  // As in the beacon's identify().
  if (next) present = undefined;
  return next;
}

// The session that the service has refused because the visitor has logged in in another tab.
let linked;
function viaBackend() {
  const { id, owner } = who();
  return options.backend && (owner || id === linked || (!id && present));
}

/** Continues through the backend or with a new session, after a login, a logout or an erasure. */
async function changeSession(code, sent) {
  const { id, owner } = who();
  // Another request has already changed the session.
  if (id && id !== sent) return;
  linked = code === 'session_belongs_to_customer' && options.backend && id;
  if (!linked) {
    // A refused guest's wishes go on in the next session, but never a customer's.
    if (!owner) replaced = sent;
    present = '';
    await sessionFor();
  }
  logout();
  forgetAnswers();
}

/**
 * @param path `product/visit` deletes: visits are counted by the beacon
 * @param key the Idempotency-Key of a click; undefined for a read
 * @returns `status`, 0 without an answer; `wait`, if it may be sent again: milliseconds until then, by earlier tries;
 *   `isForeign`, true after a login, logout or erasure, to which changeSession has reacted; `isNone`, true if there is
 *   no session yet, so nothing can be saved
 */
async function ask(path, body, key) {
  const isVisit = path === 'product/visit';
  const isOwn = !isVisit && viaBackend();
  const url = isOwn ? `${options.backend.replace(/\/$/, '')}/${path}` : urlOf(path);
  const stop = new AbortController();
  let timer = setTimeout(() => stop.abort(), TIMEOUT);
  try {
    // A session would wait for consent.
    if (whyOff()) throw 0;
    const sessionId = (await sessionFor(key)) || null;
    if (!sessionId && !isOwn) return { status: 200, json: {}, isNone: true };
    const text = JSON.stringify({ identity: { sessionId, device }, ...body });
    if (isVisit) {
      // Some proxies drop the body of a DELETE.
      url.searchParams.set('sessionId', sessionId);
      url.searchParams.set('productHandle', body.productHandle);
    }
    const answer = await fetch(url, {
      method: isVisit ? 'DELETE' : 'POST',
      headers: { 'content-type': 'application/json', ...(key && { 'idempotency-key': key }) },
      body: text,
      signal: stop.signal,
      // Browsers limit the keepalive bodies of all pending requests to 64 KiB.
      keepalive: key && text.length < 5000,
    });
    // A long list may take longer over a slow connection.
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), 12 * TIMEOUT);
    const { ok, status } = answer;
    const json = await answer.json().catch(() => ({}));
    // A 200 without our JSON, like a shop's password page, is no answer.
    if (ok && !(json.profileId || json.shareLink)) throw 0;
    const { code } = json;
    // The session has changed during the request, so the answer may be another visitor's.
    if (who().id !== (sessionId || '')) return { status: 403, json: {}, isForeign: true };
    const isForeign =
      (isOwn && status === 401) || code === 'session_belongs_to_customer' || code === 'session_retired';
    if (isForeign) await changeSession(code, sessionId);
    const mayRepeat = [408, 429].includes(status) || status > 499;
    return { status, json, isForeign, wait: mayRepeat && ((tries) => waitOf(answer, tries)) };
  } catch {
    return { status: 0, json: {}, wait: backOff };
  } finally {
    clearTimeout(timer);
  }
}
