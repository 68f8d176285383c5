// The codes with which scripts answer. Lua has them by `-- @include codes`, see scripts.ts.

export const LUA = {
  // Numbers: nothing was done.
  /** The deadline has passed. */
  EXPIRED: -1,
  /** The channel has a newer batch. */
  SUPERSEDED: -2,
  /** The stream is at its high-water mark. */
  FULL: -3,
  /** The customer was erased after the session got its link. */
  ERASED: -4,
  /** An earlier erasure of this profile has members set aside. */
  SET_ASIDE: -5,
  /** The profile has its maximum of products or items, the customer of sessions, the hash of fields. */
  TOO_MANY: -6,
  /** The stream is at another node, or its slot is migrating. */
  NO_STREAM: -7,

  // Signs: the answer of one operation of a batch, before its value if it has one.
  /** A key isn't at this node, or its slot is migrating. */
  NOT_HERE: '~',
  /** The session has the link that is the value. */
  LINKED: '@',
  /** The customer has no such session under this link id. */
  NOT_MEMBER: '!',
  /** The session has no link, but its rows are a customer's. */
  RETIRED: '^',
  /** The profile exists, and has no link. */
  GUEST: '.',
  /** The operation was not done at this location, and never will be. A record with this text fences it. */
  FENCED: '-',
  /** The operation is done, now or by an earlier try, with this value. */
  DONE: '=',
  /** The item has changed, or was removed. */
  ITEM_CHANGED: '%',
  /** The profile has the share code that is the value; none if it is empty. */
  HAS_CODE: '?',
} as const;
