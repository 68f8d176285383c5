// Error codes of scripts: nothing was done.

export const LUA = {
  /** The deadline has passed. */
  EXPIRED: -1,
  /** The channel has a newer batch. */
  SUPERSEDED: -2,
  /** The stream is at its high-water mark. */
  FULL: -3,
  /** The profile has its maximum of products or items. */
  TOO_MANY: -6,
  /** The stream is at another node, or its slot is migrating. */
  NO_STREAM: -7,
} as const;
