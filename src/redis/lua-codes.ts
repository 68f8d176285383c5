// Reply codes of scripts: negative integers instead of a result.

export const LUA = {
  /** The batch reached Redis after its deadline: nothing was done. */
  EXPIRED: -1,
  /** A newer batch of the same lane was already applied: nothing was done. */
  SUPERSEDED: -2,
  /** The stream of events is at its high-water mark: nothing was appended. */
  FULL: -3,
  /** The profile has as many products, or items, as it may: nothing was done. */
  TOO_MANY: -6,
  /** The stream is at another node, or its slot is migrating: nothing was done. */
  NO_STREAM: -7,
} as const;
