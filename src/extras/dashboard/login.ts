// A browser exchanges the token for a session cookie. Sessions are in memory only. The answer to a wrong token is
// delayed to keep the log short; the right token is never delayed.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { isSameSecret } from '../../key-ring.js';

const COOKIE = 'wishmeter_dashboard';
const LASTS_S = 7 * 86_400;
const WRONG_MS = 1_000;
/** Maximum of concurrent delayed answers. Further wrong tokens are refused without delay. */
const WAITING = 20;
const MAX_SESSIONS = 1_000;

export type LoginOutcome = 'welcome' | 'wrong' | 'crowded';

export class Login {
  readonly #token: string;
  readonly #wrongMs: number;
  readonly #sessions = new LRUCache<string, number>({ max: MAX_SESSIONS });
  #waiting = 0;
  #wrong = 0;

  constructor(token: string, wrongMs = WRONG_MS) {
    this.#token = token;
    this.#wrongMs = wrongMs;
  }

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

  begin(now: number, secure: boolean): string {
    const id = randomBytes(32).toString('base64url');
    this.#sessions.set(id, now + LASTS_S * 1_000);
    return `${COOKIE}=${id}; Path=/; Max-Age=${LASTS_S}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
  }

  end(cookies: string): string {
    for (const id of idsIn(cookies)) this.#sessions.delete(id);
    return `${COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`;
  }

  isLoggedIn(cookies: string, now: number): boolean {
    return idsIn(cookies).some((id) => (this.#sessions.get(id) ?? 0) > now);
  }
}

function idsIn(cookies: string): string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(`${COOKIE}=`)).map((pair) => pair.slice(COOKIE.length + 1));
}
