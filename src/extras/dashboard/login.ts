// A browser exchanges a token, the shared one or a person's own, for a session cookie. Sessions are in memory only. The
// answer to a wrong token is delayed to keep the log short; the right token is never delayed.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { KeyRing } from '../../key-ring.js';
import type { NamedToken } from '../../setting-values.js';

const COOKIE = 'wishmeter_dashboard';
const LASTS_S = 7 * 86_400;
const WRONG_MS = 1_000;
/** Maximum of concurrent delayed answers. Further wrong tokens are refused without delay. */
const WAITING = 20;
const MAX_SESSIONS = 1_000;

export interface Person {
  /** Undefined for the shared token. */
  readonly name: string | undefined;
}

interface Session extends Person {
  readonly until: number;
}

const ANYBODY: Person = { name: undefined };

export class Login {
  readonly #tokens: KeyRing;
  readonly #persons: readonly Person[];
  readonly #wrongMs: number;
  readonly #sessions = new LRUCache<string, Session>({ max: MAX_SESSIONS });
  #waiting = 0;
  #wrong = 0;

  constructor(token: string, logins: readonly NamedToken[] = [], wrongMs = WRONG_MS) {
    this.#tokens = new KeyRing([token, ...logins.map((login) => login.token)]);
    this.#persons = [ANYBODY, ...logins];
    this.#wrongMs = wrongMs;
  }

  get wrong(): number {
    return this.#wrong;
  }

  async attempt(token: string): Promise<Person | 'wrong' | 'crowded'> {
    const person = this.#persons[this.#tokens.find(token) ?? -1];
    if (person !== undefined) return person;
    this.#wrong++;
    if (this.#waiting >= WAITING) return 'crowded';
    this.#waiting++;
    await sleep(this.#wrongMs, undefined, { ref: false });
    this.#waiting--;
    return 'wrong';
  }

  begin({ name }: Person, now: number, secure: boolean): string {
    const id = randomBytes(32).toString('base64url');
    this.#sessions.set(id, { name, until: now + LASTS_S * 1_000 });
    return `${COOKIE}=${id}; Path=/; Max-Age=${LASTS_S}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
  }

  end(cookies: string): string {
    for (const id of idsIn(cookies)) this.#sessions.delete(id);
    return `${COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`;
  }

  /** @returns undefined without a valid session */
  personOf(cookies: string, now: number): Person | undefined {
    const sessions = idsIn(cookies).map((id) => this.#sessions.get(id));
    return sessions.find((session) => session !== undefined && session.until > now);
  }
}

function idsIn(cookies: string): string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(`${COOKIE}=`)).map((pair) => pair.slice(COOKIE.length + 1));
}
