// Spells the core's keys; an extra spells its own in its keys.ts. Keys that a script uses together share a hash tag.
//
// A profile id is `<bucket>.<hash>`. The bucket is the hash tag, and appears once: there are millions of `v` keys.

/** Stream 0 is in the slot of `meta`, others in that of their node marker. */
export interface StreamKeys {
  events(stream: number): string;
  /** hash: pending rows (`events`) and bytes */
  eventsState(stream: number): string;
  eventsDead(stream: number): string;
}

export type Keys = ReturnType<typeof createKeys>;

/** Counts or link, facts, items, members. lua/includes/retain.lua has the list, too. */
export const PROFILE_KINDS = ['v', 'p', 'i', 'g'] as const;

export function bucketOf(profileId: string): string {
  return profileId.slice(0, profileId.indexOf('.'));
}

export function tagOf(key: string): string {
  return key.slice(key.indexOf('{') + 1, key.indexOf('}'));
}

/** @param prefix without braces */
export function createKeys(prefix: string) {
  const ofProfile = (kind: string) => (profileId: string) => {
    const dot = profileId.indexOf('.');
    return `${prefix}:{${profileId.slice(0, dot)}}:${kind}:${profileId.slice(dot + 1)}`;
  };
  const ofStream = (kind: string) => (stream: number) =>
    `${prefix}:{${stream === 0 ? `${prefix}:meta` : stream}}:${kind}`;
  const streamKeys = (kind: string): StreamKeys => ({
    events: ofStream(kind),
    eventsState: ofStream(`${kind}:state`),
    eventsDead: ofStream(`${kind}:dead`),
  });
  const ofProfiles = [...PROFILE_KINDS, 'j', 'x'].map(ofProfile);
  return {
    /** Begins every key. */
    prefix: `${prefix}:`,
    /** hash: salt, schema version, TTL of guests in seconds, names of node markers */
    meta: `${prefix}:meta`,
    settings: `${prefix}:settings`,
    /** hash: product handle -> count; of a linked session only '' -> its link, see src/profiles/link.ts */
    counts: ofProfile('v'),
    /**
     * hash: facts; `registered` if the profile has nothing else; `name` of a customer, if it is in no other key;
     * `lastLink`, see lua/profiles/addMember.lua. Of a merged session only `target`: `<customer's profile> <link id>`, and
     * in the first minutes `mergedAt` and the frozen facts
     */
    profile: ofProfile('p'),
    /** hash: `<product>:<variant>` -> item */
    items: ofProfile('i'),
    /** hash: session's profile -> note, see lua/profiles/addMember.lua; `share:<code>`, `email:<digest>` -> '' */
    members: ofProfile('g'),
    /** hash: a session's counts while and shortly after they are merged */
    frozenCounts: ofProfile('j'),
    /** hash: members of an erased profile, until nothing leads to it */
    setAside: ofProfile('x'),
    /** string: `<links up to this time are erased> <time of the last erasure>`, ms since 1970 */
    erasedAt: ofProfile('e'),
    /** string: when the whole shop was erased last, ms since 1970 */
    shopErasedAt: `${prefix}:erased`,
    /** In the order of lua/profiles/eraseProfile.lua. */
    allOf: (profileId: string) => ofProfiles.map((keyOf) => keyOf(profileId)),
    /** sorted set per node: merges and erasures to complete -> when they are due, ms since 1970; see pending.ts */
    pending: ofStream('pending'),
    /** string: an operation record, see requests.ts */
    operation: (profileId: string, recordId: string) => `${prefix}:{${bucketOf(profileId)}}:k:${recordId}`,
    /** string: see request-record.ts */
    request: (digest: string) => `${prefix}:{k:${digest}}`,
    /** string: see src/wishlist/order-notes.ts */
    order: (digest: string) => `${prefix}:{order:${digest}}`,
    /** string: `<profile> <milliseconds since 1970>` */
    share: (code: string) => `${prefix}:{share:${code}}`,
    /** sorted set: profiles of an e-mail address -> last time, milliseconds */
    email: (digest: string) => `${prefix}:{email:${digest}}`,
    /** string: see lua/includes/senderChannel.lua */
    senderChannel: (tag: string, id: string) => `${prefix}:{${tag}}:channel:${id}`,
    /** hash: profiles and identities -> rows up to this time are erased, see lua/profiles/queueErasures.lua */
    erasures: `${prefix}:erasures`,
    /** string: expires when the next sweep is due */
    sweep: `${prefix}:{sweep}`,
    nodeMarker: ofStream('marker'),
    ...streamKeys('events'),
    visits: streamKeys('visits'),
  };
}
