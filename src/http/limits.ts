// RATE_LIMIT and ANONYMOUS_RATE_LIMIT: how many requests one caller may send per second.
//
// The workers of one `start` divide a limit among them, so nothing waits for Redis or for another process. Connections are
// spread over the workers; a caller on a single connection gets the share of the worker that it reaches.
//
// A window is a second that begins with the first request after the last one, for all callers at once: what was counted is
// forgotten without a timer for each. A caller may send twice as much in the moment around the end of a window.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { ServiceError } from '../errors.js';
import { type AccessGroup, type Caller, isGuarded } from './access.js';
import { callerAddress, isLoopback } from './address.js';

const WINDOW_MS = 1_000;
/** Callers of one window that are told apart, about 100 bytes each; with more the oldest are forgotten. */
const MAX_CALLERS = 100_000;

/** One limit, in one worker. */
export class RateLimit {
  readonly perSecond: number;
  readonly #share: number;
  readonly #now: () => number;
  #ends = 0;
  /** By caller, of this window: MAX_CALLERS at most. */
  #counts = new Map<string, number>();
  /** Whether a caller may have more than its share of this window. */
  #hasExcess = false;

  /** @param perSecond at least 1 @param workers among which it is divided @param now milliseconds */
  constructor(perSecond: number, workers: number, now: () => number) {
    this.perSecond = perSecond;
    this.#share = Math.ceil(perSecond / workers);
    this.#now = now;
  }

  /** Counts a request. @throws ServiceError `rate_limited` where it is one too many; it counts for nothing then */
  count(caller: string): void {
    const count = this.#countOf(caller);
    if (count >= this.#share) throw this.#refusal(count, 1);
    this.#set(caller, count + 1);
  }

  /**
   * Counts what a request weighs beyond the one that it was counted as. One that is more than a worker's share passes where
   * it is the first of its window; the excess is subtracted from the next windows.
   * @throws ServiceError `rate_limited`, or `invalid_request` where it weighs more than may ever pass
   */
  countWeight(caller: string, requests: number): void {
    if (requests > this.perSecond)
      throw new ServiceError(
        'invalid_request',
        `This is as ${requests} requests, and RATE_LIMIT is ${this.perSecond} in a second: send fewer at once.`,
      );
    const count = this.#countOf(caller);
    const more = requests - 1;
    if (count > 1 && count + more > this.#share) throw this.#refusal(count, requests);
    this.#set(caller, count + more);
    this.#hasExcess = true;
  }

  /** Counts what a request turned out to weigh beyond one; the excess is subtracted from the next windows. */
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
  /** Requests of each caller, its secret key, else its address; 0 is no limit. */
  readonly perCaller: number;
  /** Requests of each address, of callers without a secret key; 0 is no limit. */
  readonly perAnonymousAddress: number;
  /** See callerAddress. */
  readonly trustedProxies: number;
  /** Workers that share the port; 1 by default. */
  readonly workers?: number | undefined;
  /** Milliseconds; `performance.now()` by default. */
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

  /**
   * Counts a request.
   * @param caller undefined where its credential is wrong: that counts for its address
   * @returns the caller's rate-limit key, for `countWeight`
   * @throws ServiceError `rate_limited`
   */
  count(group: AccessGroup, caller: Caller | undefined, res: HttpResponse, req: HttpRequest): string {
    // Health, metrics and public routes have no limit.
    if (!isGuarded(group)) return '';
    // A delivery is known by its signature alone, once its body is there: its sender is not anonymous.
    const anonymous = group === 'delivery' ? undefined : this.#anonymous;
    if (this.#callers === undefined && anonymous === undefined) return '';
    const key = caller?.account ?? callerAddress(res, req, this.#trustedProxies);
    if (this.#isAnonymous(caller, key)) anonymous?.count(key);
    this.#callers?.count(key);
    return key;
  }

  /** Of a counted request whose answer is large: as how many more requests it counts. @param key from `count` */
  charge(caller: Caller, key: string, requests: number): void {
    if (key === '') return;
    if (this.#isAnonymous(caller, key)) this.#anonymous?.charge(key, requests);
    this.#callers?.charge(key, requests);
  }

  /** A shop's visitors all come from Shopify's addresses, unless proxies are trusted to tell theirs. */
  #isAnonymous(caller: Caller | undefined, key: string): boolean {
    if ((caller?.account ?? null) !== null) return false;
    return (caller?.kind !== 'storefront' || this.#trustedProxies > 0) && !isLoopback(key);
  }

  /** See RateLimit.countWeight; it counts for RATE_LIMIT alone. */
  countWeight(key: string, requests: number): void {
    this.#callers?.countWeight(key, requests);
  }
}
