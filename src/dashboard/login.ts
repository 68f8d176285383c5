// Who may look: a browser that sends the token gets a cookie, and shows the cookie with later requests. A wrong token is
// counted, and the next one, right or wrong, is looked at a second later: 86,400 guesses a day at most.

import { createHmac } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSameSecret } from '../key-ring.js';

const COOKIE = 'wishmeter_dashboard';
const LASTS_S = 7 * 86_400;
const WRONG_MS = 1_000;
/** Log-ins that wait for their turn. */
const WAITING = 20;

export type Outcome = 'welcome' | 'wrong' | 'crowded';

export class Login {
  readonly #token: string;
  readonly #wrongMs: number;
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #wrong = 0;

  /** @param token visible characters, 16 or more @param wrongMs milliseconds after a wrong one */
  constructor(token: string, wrongMs = WRONG_MS) {
    this.#token = token;
    this.#wrongMs = wrongMs;
  }

  /** Wrong tokens since the start. */
  get wrong(): number {
    return this.#wrong;
  }

  /** Looks at a token when those before it have been answered. */
  async attempt(token: string): Promise<Outcome> {
    if (this.#waiting >= WAITING) return 'crowded';
    this.#waiting++;
    const turn = this.#turn.then(async (): Promise<Outcome> => {
      if (isSameSecret(token, this.#token)) return 'welcome';
      this.#wrong++;
      await sleep(this.#wrongMs);
      return 'wrong';
    });
    this.#turn = turn;
    try {
      return await turn;
    } finally {
      this.#waiting--;
    }
  }

  /** What `Set-Cookie` says to one who may look. @param now milliseconds since 1970 @param secure came over https */
  cookie(now: number, secure: boolean): string {
    const until = String(Math.floor(now / 1_000) + LASTS_S);
    return `${COOKIE}=${until}.${this.#sign(until)}; Path=/; Max-Age=${LASTS_S}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
  }

  /** What `Set-Cookie` says to one who leaves. */
  goodbye(): string {
    return `${COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`;
  }

  /** @param cookies the header `Cookie` @param now milliseconds since 1970 */
  isKnown(cookies: string, now: number): boolean {
    return cookies.split(';').some((pair) => {
      const [, until = '', signature = ''] =
        /^\s*wishmeter_dashboard=(\d{1,12})\.([\w-]{43})\s*$/.exec(pair) ?? [];
      return until !== '' && isSameSecret(signature, this.#sign(until)) && Number(until) * 1_000 > now;
    });
  }

  /** Under the token: another token ends every session. */
  #sign(until: string): string {
    return createHmac('sha256', this.#token).update(`dashboard until ${until}`).digest('base64url');
  }
}
