// The limits of callers, opened from the settings. Workers of one port tell each other of all of them in one way.

import type { Config } from '../config.js';
import { type Accepted, RateLimit } from './rate-limit.js';

export interface RateLimits {
  /** RATE_LIMIT: requests of each caller. */
  readonly callers: RateLimit | undefined;
  /** ANONYMOUS_RATE_LIMIT: requests of each address, of callers without a secret key. */
  readonly anonymous: RateLimit | undefined;
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

type Settings = Pick<Config, 'RATE_LIMIT' | 'ANONYMOUS_RATE_LIMIT'>;

/** @param peers absent where this process is alone @param now its clock then */
export function openRateLimits(settings: Settings, peers?: LimitPeers, now?: () => number): RateLimits {
  const tell = peers?.exchange<Told>(({ limit, accepted }) => limits[limit]?.told(accepted));
  const open = (limit: keyof RateLimits, most: number) => {
    if (most === 0) return undefined;
    if (peers === undefined || tell === undefined) return new RateLimit(most, undefined, now);
    const { workers } = peers;
    const told = (accepted: Accepted) => tell({ limit, accepted });
    return new RateLimit(most, { workers, now: () => peers.now(), tell: told });
  };
  const limits: RateLimits = {
    callers: open('callers', settings.RATE_LIMIT),
    anonymous: open('anonymous', settings.ANONYMOUS_RATE_LIMIT),
  };
  return limits;
}
