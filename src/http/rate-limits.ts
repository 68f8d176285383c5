// The limits of callers, opened from the settings. Workers of one port tell each other of all of them in one way.

import type { Config } from '../config.js';
import { type Accepted, RateLimit, type RateLimitOptions } from './rate-limit.js';

export interface RateLimits {
  /** RATE_LIMIT: requests of each caller. */
  readonly callers: RateLimit | undefined;
  /** STRANGER_RATE_LIMIT: requests of each address, of callers without a secret key. */
  readonly strangers: RateLimit | undefined;
  /** STRANGER_NEW_VISITORS: new visitors of each address and minute. */
  readonly newVisitors: RateLimit | undefined;
}

/** The other workers on the port. */
export interface LimitPeers {
  readonly workers: number;
  now(): number;
  exchange<T>(onShared: (value: T) => void): (value: T) => void;
}

interface Told {
  readonly limit: keyof RateLimits;
  readonly accepted: Accepted;
}

const MINUTE: RateLimitOptions = {
  windowMs: 60_000,
  sentence: 'Too many new visitors from this address; those who are known go on.',
};

type Settings = Pick<Config, 'RATE_LIMIT' | 'STRANGER_RATE_LIMIT' | 'STRANGER_NEW_VISITORS'>;

/** @param peers absent where this process is alone */
export function openRateLimits(settings: Settings, peers?: LimitPeers): RateLimits {
  const tell = peers?.exchange<Told>(({ limit, accepted }) => limits[limit]?.told(accepted));
  const open = (limit: keyof RateLimits, most: number, options?: RateLimitOptions) => {
    if (most === 0) return undefined;
    if (peers === undefined || tell === undefined) return new RateLimit(most, undefined, options);
    const { workers } = peers;
    const told = (accepted: Accepted) => tell({ limit, accepted });
    return new RateLimit(most, { workers, now: () => peers.now(), tell: told }, options);
  };
  const limits: RateLimits = {
    callers: open('callers', settings.RATE_LIMIT),
    strangers: open('strangers', settings.STRANGER_RATE_LIMIT),
    newVisitors: open('newVisitors', settings.STRANGER_NEW_VISITORS, MINUTE),
  };
  return limits;
}
