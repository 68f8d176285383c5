// Requests of the kit, and whose they are. The beacon's visits pass through `fetch` here, too: a visit that got 503 or 429 is
// sent again. Declared as a function, it stands in for the browser's in the whole script.
async function fetch(url, init) {
  for (let tries = 0; ; tries++) {
    const answer = await window.fetch(url, init);
    if (tries === 3 || ![429, 503].includes(answer.status)) return answer;
    await new Promise((done) => setTimeout(done, waitOf(answer, tries)));
  }
}

const TIMEOUT = 10000;

/** Milliseconds until the next try, with jitter: the service's Retry-After, else longer each time. */
const waitOf = (answer, tries) =>
  1000 * (answer?.headers.get('retry-after') * 1 || Math.min(2 ** tries / 2, 30)) * (1 + Math.random() / 2);

// localStorage, or this page's own if the browser forbids it.
let storage;
try {
  storage = localStorage;
} catch {}
storage ||= {};
const read = (name) => JSON.parse(storage[name] || null);
function write(name, value) {
  try {
    storage[name] = JSON.stringify(value);
  } catch {}
}

const isPrivate = () => navigator.globalPrivacyControl;
// Under Global Privacy Control: a session that only the wishlist uses, from the first click on.
const PRIVATE = 'wishmeter_wishlist';

/** The session and its customer, as the last tab has stored them. */
function who() {
  const [id, owner = ''] = (isPrivate() ? read(PRIVATE) || '' : stored()).split(BLANK);
  return { id, owner };
}

/** Why there is no wishlist here: `consent`, `privacy` or `robot`; empty if there is one. */
function whyOff() {
  if (isPrivate()) return options.gpc === 'off' ? 'privacy' : '';
  if (never()) return 'robot';
  try {
    if (given && !refused()) return '';
  } catch {}
  return 'consent';
}

/** @param isClick a click may open a session under Global Privacy Control @returns its id; empty without one */
async function sessionFor(isClick) {
  if (!isPrivate()) return session();
  const { id, owner } = who();
  const now = (customer || '').trim();
  if (id && (!owner || owner === now)) return id;
  const next = isClick ? randomId() : '';
  write(PRIVATE, next && `${next} ${now}`.trim());
  return next;
}

// A tab from before a login has learned that someone is logged in.
let isLoggedIn = false;
const viaBackend = () => options.backend && (who().owner || isLoggedIn || (isPrivate() && customer));

/**
 * Somebody has logged in or out: the session that was sent is not this visitor's. The kit goes on through the backend, or
 * with an empty session.
 */
async function changeSession(status, sent) {
  const { id, owner } = who();
  // Another request has changed it already.
  if (id && id !== sent) return;
  if (status === 403 && options.backend) isLoggedIn = true;
  else {
    isLoggedIn = false;
    if (isPrivate()) write(PRIVATE, '');
    else {
      store('');
      present = '';
      await session();
    }
  }
  if (status === 401 && owner) logout();
  answered.clear();
  load();
}

/**
 * One request for the wishlist. @param more `id`: its Idempotency-Key
 * @returns {status, json, wait, isForeign}: status 0 without an answer; `wait` in milliseconds if it may be sent again;
 *   `isForeign`: not done, since the session was another's. It has changed.
 */
async function ask(path, body, { id, method = 'POST', isClick, tries = 0 } = {}) {
  const isOwn = viaBackend() && path !== 'product/visit';
  const url = isOwn ? `${options.backend.replace(/\/$/, '')}/${path}` : urlOf(path);
  try {
    const sessionId = (await sessionFor(isClick)) || null;
    if (!sessionId && !isOwn) return { status: 404, json: {} };
    const headers = { 'content-type': 'application/json', ...(id && { 'idempotency-key': id }) };
    const text = JSON.stringify({ identity: { sessionId, device }, ...body });
    const answer = await window.fetch(url, {
      method,
      headers,
      body: text,
      signal: AbortSignal.timeout(TIMEOUT),
      // Browsers take 64 KB of such requests.
      keepalive: text.length < 60000,
    });
    const json = await answer.json().catch((error) => {
      // A proxy's page with status 200, such as a shop's password page, is no answer.
      if (answer.ok) throw error;
      return {};
    });
    const { status } = answer;
    const isForeign = (isOwn && status === 401) || json.code === 'session_belongs_to_customer';
    if (isForeign) await changeSession(status, sessionId);
    const mayRepeat = status === 429 || status > 499;
    return { status, json, isForeign, wait: mayRepeat && waitOf(answer, tries) };
  } catch {
    return { status: 0, json: {}, wait: waitOf(undefined, tries) };
  }
}
