// Spells all keys. Keys that a script uses together share a hash tag.
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

/** Identity, counts, profile, items, members. */
export const PROFILE_KINDS = ['v', 'r', 'p', 'i', 'g'] as const;
export type ProfileKind = (typeof PROFILE_KINDS)[number];
/** A guest has its counts in `v`. The list is also in lua/includes/retain.lua. */
export const GUEST_KINDS = PROFILE_KINDS.filter((kind) => kind !== 'r');

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
  const applied = ofProfile('x');
  const leftovers = ofProfile('zg');
  const journals = PROFILE_KINDS.filter((kind) => kind !== 'v').map((kind) => `j${kind}`);
  const ofProfiles = [...PROFILE_KINDS, ...journals].map(ofProfile);
  return {
    /** hash: salt, schema version, TTL of guests in seconds, names of node markers */
    meta: `${prefix}:meta`,
    settings: `${prefix}:settings`,
    /** hash: a guest's product handle -> count, or a link, see links.ts */
    identity: ofProfile('v'),
    /** hash: product handle -> count, if linked */
    counts: ofProfile('r'),
    /**
     * hash: facts; owner and generation if linked; `registered` if nothing else exists. After a merge it has only
     * `target`, which begins with `!` while the merge is pending
     */
    profile: ofProfile('p'),
    /** hash: `<product>:<variant>` -> item */
    items: ofProfile('i'),
    /**
     * hash: identity or `#<share code>` -> ''; `@<e-mail digest>` -> identity that gave it, or '' if this isn't its
     * default profile; merged profile -> mergeId, until applied '', or `+<generation>` if it was linked
     */
    members: ofProfile('g'),
    /** hash: see lua/profiles/applyMergePage.lua */
    applied: (profileId: string, generation: string, from: string) =>
      `${applied(profileId)}:${generation}:${from}`,
    /** hash: members of an erased generation, until nothing leads to it */
    leftovers: (profileId: string, generation: string) => `${leftovers(profileId)}:${generation}`,
    erased: (profileId: string, generation: string) => `${prefix}:{${bucketOf(profileId)}}:e:${generation}`,
    ofKind: (kind: ProfileKind, profileId: string) => ofProfile(kind)(profileId),
    journal: (kind: ProfileKind, profileId: string) => ofProfile(`j${kind}`)(profileId),
    allOf: (profileId: string) => ofProfiles.map((keyOf) => keyOf(profileId)),
    /** sorted set per node: pending multi-step operations -> start, milliseconds */
    pending: ofStream('pending'),
    /** string: an operation record, see requests.ts */
    operation: (profileId: string, recordId: string) => `${prefix}:{${bucketOf(profileId)}}:k:${recordId}`,
    /** hash: see requests.ts */
    request: (digest: string) => `${prefix}:{request:${digest}}`,
    /** string: see src/profiles/erasure-times.ts */
    erasureTime: (digest: string) => `${prefix}:{erasure:${digest}}`,
    /** string: see src/wishlist/order-notes.ts */
    order: (digest: string) => `${prefix}:{order:${digest}}`,
    /** string: `<profile> <milliseconds since 1970>` */
    share: (code: string) => `${prefix}:{share:${code}}`,
    /** sorted set: profiles of an e-mail address -> last time, milliseconds */
    email: (digest: string) => `${prefix}:{email:${digest}}`,
    /** hash: profiles that may have saved a variant -> when they were added, milliseconds since 1970 */
    subscribers: (digest: string) => `${prefix}:{wish:${digest}}`,
    /** string: see lua/includes/senderChannel.lua */
    senderChannel: (tag: string, id: string) => `${prefix}:{${tag}}:channel:${id}`,
    /** hash: profiles and identities -> rows up to this time are erased, see lua/profiles/queueErasures.lua */
    erasures: `${prefix}:erasures`,
    /** hash: `#` -> last number; number -> request, JSON */
    compliance: `${prefix}:{compliance}:open`,
    /** sorted set: digests of compliance webhooks' ids -> expiry, seconds since 1970 */
    complianceTaken: `${prefix}:{compliance}:taken`,
    /** string: the process with the lease */
    complianceOwner: `${prefix}:{compliance}:owner`,
    /** string: expires when the next sweep is due */
    sweep: `${prefix}:{sweep}`,
    /** hash: see lua/extras/alerts/journalProduct.lua */
    products: `${prefix}:{products}:open`,
    /** sorted set: products -> last version, milliseconds since 1970 */
    productVersions: `${prefix}:{products}:versions`,
    nodeMarker: ofStream('marker'),
    ...streamKeys('events'),
    visits: streamKeys('visits'),
    /** hash: id -> receiver, JSON */
    receivers: `${prefix}:receivers`,
    /** `queue`: stream; `due`: see lua/extras/receivers/addDeliveries.lua; `state`: hash of pending bytes, stats */
    deliveries: (receiver: string) => {
      const keyOf = (kind: string) => `${prefix}:{receiver:${receiver}}:${kind}`;
      return { queue: keyOf('queue'), due: keyOf('due'), state: keyOf('state') };
    },
  };
}
