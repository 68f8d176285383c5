// Log-in: a browser that sends the token gets a session cookie. Sessions are in memory; a restart ends all.
//
// Wrong tokens never delay the right one. Its length, at least 16 characters, keeps guesses out; the second that a wrong token
// waits only keeps the log short.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { isSameSecret } from '../../key-ring.js';

const COOKIE = 'wishmeter_dashboard';
const LASTS_S = 7 * 86_400;
const WRONG_MS = 1_000;
/** Wrong tokens that may wait concurrently; any more are answered without a wait. */
const WAITING = 20;
/** Beyond that the least recently used session ends. */
const MAX_SESSIONS = 1_000;

export type LoginOutcome = 'welcome' | 'wrong' | 'crowded';

export class Login {
  readonly #token: string;
  readonly #wrongMs: number;
  /** Session id -> end, in milliseconds since 1970. */
  readonly #sessions = new LRUCache<string, number>({ max: MAX_SESSIONS });
  #waiting = 0;
  #wrong = 0;

  /** @param token visible characters, 16 or more @param wrongMs milliseconds before a wrong token is answered */
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

  /** Begins a session. @param now milliseconds since 1970 @param secure the request used https @returns `Set-Cookie` */
  begin(now: number, secure: boolean): string {
    const id = randomBytes(32).toString('base64url');
    this.#sessions.set(id, now + LASTS_S * 1_000);
    return `${COOKIE}=${id}; Path=/; Max-Age=${LASTS_S}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
  }

  /** Ends the sessions in the header `Cookie`. @returns `Set-Cookie` */
  end(cookies: string): string {
    for (const id of idsIn(cookies)) this.#sessions.delete(id);
    return `${COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`;
  }

  /** @param cookies the header `Cookie` @param now milliseconds since 1970 */
  isLoggedIn(cookies: string, now: number): boolean {
    return idsIn(cookies).some((id) => (this.#sessions.get(id) ?? 0) > now);
  }
}

function idsIn(cookies: string): string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(`${COOKIE}=`)).map((pair) => pair.slice(COOKIE.length + 1));
}
