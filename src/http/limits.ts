// RATE_LIMIT and ANONYMOUS_RATE_LIMIT. Workers divide a limit, so that no request waits for Redis.
// All callers share a window of one second, which begins with the first request after the window before. Around the
// end of a window a caller may send twice its limit.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { ServiceError } from '../errors.js';
import { type AccessGroup, type Caller, isGuarded } from './access.js';
import { callerAddress, isLoopback } from './address.js';

const WINDOW_MS = 1_000;
/** Maximum of remembered callers, at about 100 bytes each. Beyond it, the oldest are dropped. */
const MAX_CALLERS = 100_000;

export class RateLimit {
  readonly #perSecond: number;
  readonly #share: number;
  readonly #now: () => number;
  #ends = 0;
  #counts = new Map<string, number>();
  #hasExcess = false;

  constructor(perSecond: number, workers: number, now: () => number) {
    this.#perSecond = perSecond;
    this.#share = Math.ceil(perSecond / workers);
    this.#now = now;
  }

  count(caller: string): void {
    const count = this.#countOf(caller);
    if (count >= this.#share) throw this.#refusal(count, 1);
    this.#set(caller, count + 1);
  }

  /**
   * Charges a batch for its remaining n − 1 requests. The first batch of a window always passes; its excess counts in
   * the next windows.
   * @throws ServiceError `rate_limited`, or `invalid_request` if the batch exceeds the whole limit
   */
  countWeight(caller: string, requests: number): void {
    if (requests > this.#perSecond)
      throw new ServiceError(
        'invalid_request',
        `This is as ${requests} requests, and RATE_LIMIT is ${this.#perSecond} in a second: send fewer at once.`,
      );
    const count = this.#countOf(caller);
    const more = requests - 1;
    if (count > 1 && count + more > this.#share) throw this.#refusal(count, requests);
    this.#set(caller, count + more);
    this.#hasExcess = true;
  }

  charge(caller: string, requests: number): void {
    this.#set(caller, this.#countOf(caller) + requests);
    this.#hasExcess = true;
  }

  #countOf(caller: string): number {
    const now = this.#now();
    if (now >= this.#ends) this.#begin(now);
    return this.#counts.get(caller) ?? 0;
  }

  #set(caller: string, count: number): void {
    if (this.#counts.size >= MAX_CALLERS && !this.#counts.has(caller))
      this.#counts.delete(this.#counts.keys().next().value as string);
    this.#counts.set(caller, count);
  }

  #refusal(count: number, requests: number): ServiceError {
    const windows = Math.ceil((count + Math.min(requests, this.#share)) / this.#share) - 1;
    return new ServiceError('rate_limited', undefined, undefined, { retryAfterS: Math.max(1, windows) });
  }

  #begin(now: number): void {
    const passed = 1 + Math.floor((now - this.#ends) / WINDOW_MS);
    const before = this.#counts;
    this.#ends = now + WINDOW_MS;
    this.#counts = new Map();
    if (!this.#hasExcess) return;
    this.#hasExcess = false;
    for (const [caller, count] of before) {
      const excess = count - passed * this.#share;
      if (excess <= 0) continue;
      this.#counts.set(caller, excess);
      this.#hasExcess = true;
    }
  }
}

export interface LimitSettings {
  /** Requests per second; 0 means no limit. */
  readonly perCaller: number;
  readonly perAnonymousAddress: number;
  readonly trustedProxies: number;
  readonly workers?: number | undefined;
  readonly now?: (() => number) | undefined;
}

export class RateLimits {
  readonly #callers: RateLimit | undefined;
  readonly #anonymous: RateLimit | undefined;
  readonly #trustedProxies: number;

  constructor({ perCaller, perAnonymousAddress, trustedProxies, workers = 1, now }: LimitSettings) {
    const open = (perSecond: number) =>
      perSecond === 0 ? undefined : new RateLimit(perSecond, workers, now ?? (() => performance.now()));
    this.#callers = open(perCaller);
    this.#anonymous = open(perAnonymousAddress);
    this.#trustedProxies = trustedProxies;
  }

  /** @param caller undefined if its credentials are wrong */
  count(group: AccessGroup, caller: Caller | undefined, res: HttpResponse, req: HttpRequest): string {
    if (!isGuarded(group)) return '';
    const anonymous = group === 'delivery' ? undefined : this.#anonymous;
    if (this.#callers === undefined && anonymous === undefined) return '';
    const key = caller?.account ?? callerAddress(res, req, this.#trustedProxies);
    if (this.#isAnonymous(caller, key)) anonymous?.count(key);
    this.#callers?.count(key);
    return key;
  }

  charge(caller: Caller, key: string, requests: number): void {
    if (key === '') return;
    if (this.#isAnonymous(caller, key)) this.#anonymous?.charge(key, requests);
    this.#callers?.charge(key, requests);
  }

  /** Also false for app-proxy requests: their address is Shopify's, unless trusted proxies name the visitor's. */
  #isAnonymous(caller: Caller | undefined, key: string): boolean {
    if ((caller?.account ?? null) !== null) return false;
    return (caller?.kind !== 'storefront' || this.#trustedProxies > 0) && !isLoopback(key);
  }

  countWeight(key: string, requests: number): void {
    this.#callers?.countWeight(key, requests);
  }
}
