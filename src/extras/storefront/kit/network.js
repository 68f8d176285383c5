// Requests and sessions. This `fetch` replaces the browser's in the whole script, so that visits are sent again after
// 503 or 429.
async function fetch(url, init) {
  for (let tries = 0; ; tries++) {
    const answer = await window.fetch(url, init);
    if (tries === 3 || ![429, 503].includes(answer.status)) return answer;
    await new Promise((done) => setTimeout(done, waitOf(answer, tries)));
  }
}

const TIMEOUT = 10000;

/** @returns milliseconds until the next try, by Retry-After or exponential back-off, with jitter */
const waitOf = (answer, tries) =>
  1000 * (answer?.headers.get('retry-after') * 1 || Math.min(2 ** tries / 2, 30)) * (1 + Math.random() / 2);

// localStorage, or an object of this page if the browser forbids it.
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
// The item with the session under Global Privacy Control. It is made at the first click, and only for the wishlist.
const PRIVATE = 'wishmeter_wishlist';

function who() {
  const [id, owner = ''] = (isPrivate() ? read(PRIVATE) || '' : stored()).split(BLANK);
  return { id, owner };
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
  const now = (customer || '').trim();
  if (id && (!owner || owner === now)) return id;
  const next = isClick ? randomId() : '';
  write(PRIVATE, next && `${next} ${now}`.trim());
  return next;
}

// True after a 403, by which a tab learns that the visitor has logged in in another one.
let isLoggedIn = false;
const viaBackend = () => options.backend && (who().owner || isLoggedIn || (isPrivate() && customer));

/** Continues through the backend or with a new session, after a login or logout. */
async function changeSession(status, sent) {
  const { id, owner } = who();
  // Another request has already changed the session.
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
 * @param path `product/visit` deletes: visits are counted by the beacon
 * @param options `key` is the Idempotency-Key
 * @returns `status`, 0 without an answer; `wait`, milliseconds until the request may be sent again, if it may;
 *   `isForeign`, true after a login or logout, to which changeSession has reacted
 */
async function ask(path, body, { key: idempotencyKey, isClick, tries = 0 } = {}) {
  const isVisit = path === 'product/visit';
  const isOwn = !isVisit && viaBackend();
  const url = isOwn ? `${options.backend.replace(/\/$/, '')}/${path}` : urlOf(path);
  try {
    const sessionId = (await sessionFor(isClick)) || null;
    if (!sessionId && !isOwn) return { status: 404, json: {} };
    const headers = {
      'content-type': 'application/json',
      ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    };
    const text = JSON.stringify({ identity: { sessionId, device }, ...body });
    const answer = await window.fetch(url, {
      method: isVisit ? 'DELETE' : 'POST',
      headers,
      body: text,
      signal: AbortSignal.timeout(TIMEOUT),
      // Browsers limit keepalive bodies to 64 KB.
      keepalive: text.length < 60000,
    });
    const json = await answer.json().catch((error) => {
      // Status 200 without JSON, like a shop's password page, doesn't count as an answer.
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
