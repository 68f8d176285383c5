// Who may look: a browser that sends the token gets a session, as a cookie. Sessions are in memory, so a log-out ends one
// here, and a restart ends all.
//
// The right token is never kept waiting by wrong ones. What keeps guesses out is its length, 16 characters at least; the
// second that a wrong one waits only keeps them slow and the log short.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { isSameSecret } from '../key-ring.js';

const COOKIE = 'wishmeter_dashboard';
const LASTS_S = 7 * 86_400;
const WRONG_MS = 1_000;
/** Wrong tokens whose answers wait at once; one more is answered without a wait. */
const WAITING = 20;
/** The one that was not used for the longest goes first. */
const MAX_SESSIONS = 1_000;

export type LoginOutcome = 'welcome' | 'wrong' | 'crowded';

export class Login {
  readonly #token: string;
  readonly #wrongMs: number;
  /** Session id -> when it ends, in milliseconds since 1970. */
  readonly #sessions = new LRUCache<string, number>({ max: MAX_SESSIONS });
  #waiting = 0;
  #wrong = 0;

  /** @param token visible characters, 16 or more @param wrongMs milliseconds that a wrong one waits for its answer */
  constructor(token: string, wrongMs = WRONG_MS) {
    this.#token = token;
    this.#wrongMs = wrongMs;
  }

  /** Wrong tokens since the start. */
  get wrong(): number {
    return this.#wrong;
  }

  async attempt(token: string): Promise<LoginOutcome> {
    if (isSameSecret(token, this.#token)) return 'welcome';
    this.#wrong++;
    if (this.#waiting >= WAITING) return 'crowded';
    this.#waiting++;
    await sleep(this.#wrongMs, undefined, { ref: false });
    this.#waiting--;
    return 'wrong';
  }

  /** Begins a session: what `Set-Cookie` says. @param now milliseconds since 1970 @param secure came over https */
  begin(now: number, secure: boolean): string {
    const id = randomBytes(32).toString('base64url');
    this.#sessions.set(id, now + LASTS_S * 1_000);
    return `${COOKIE}=${id}; Path=/; Max-Age=${LASTS_S}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
  }

  /** Ends the sessions that the header `Cookie` names: what `Set-Cookie` says. */
  end(cookies: string): string {
    for (const id of idsIn(cookies)) this.#sessions.delete(id);
    return `${COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`;
  }

  /** @param cookies the header `Cookie` @param now milliseconds since 1970 */
  isKnown(cookies: string, now: number): boolean {
    return idsIn(cookies).some((id) => (this.#sessions.get(id) ?? 0) > now);
  }
}

function idsIn(cookies: string): string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(`${COOKIE}=`)).map((pair) => pair.slice(COOKIE.length + 1));
}
