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

export interface Keys extends StreamKeys {
  /** hash: salt, schema version, TTL of guests in seconds, names of node markers */
  readonly meta: string;
  readonly settings: string;
  /** hash: a guest's product handle -> count, or a link, see links.ts */
  identity(profileId: string): string;
  /** hash: product handle -> count, if linked */
  counts(profileId: string): string;
  /**
   * hash: facts; owner and generation if linked; `registered` if nothing else exists. After a merge only `target`, with
   * `!` before it while pending
   */
  profile(profileId: string): string;
  /** hash: `<product>:<variant>` -> item */
  items(profileId: string): string;
  /**
   * hash: identity or `#<share code>` -> ''; `@<e-mail digest>` -> identity with this default profile, or ''; merged
   * profile -> mergeId; until applied '', or `+<generation> <owner>` of a linked one
   */
  members(profileId: string): string;
  /** hash: see lua/profiles/applyMergePage.lua */
  applied(profileId: string, generation: string, from: string): string;
  /** hash: members of an erased generation, until nothing leads to it */
  leftovers(profileId: string, generation: string): string;
  erased(profileId: string, generation: string): string;
  /** sorted set per node: pending multi-step operations -> start, milliseconds */
  pending(stream: number): string;
  /** string: an operation record, see requests.ts */
  operation(profileId: string, operationId: string): string;
  /** hash: see requests.ts */
  request(digest: string): string;
  /** string: see src/wishlist/order-notes.ts */
  order(digest: string): string;
  /** string: `<profile> <milliseconds since 1970>` */
  share(code: string): string;
  ofKind(kind: ProfileKind, profileId: string): string;
  journal(kind: ProfileKind, profileId: string): string;
  allOf(profileId: string): string[];
  /** string: see lua/includes/senderChannel.lua */
  senderChannel(tag: string, id: string): string;
  /** hash: profiles -> up to when; see EVERY_PROFILE */
  readonly erasures: string;
  /** hash: `#` -> last number; number -> request, JSON */
  readonly compliance: string;
  /** sorted set: digests of their webhooks -> expiry, seconds */
  readonly complianceTaken: string;
  /** string: the process with the lease */
  readonly complianceOwner: string;
  /** string: expires when the next sweep is due */
  readonly sweep: string;
  /** sorted set: profiles of an e-mail address -> last time, milliseconds */
  email(digest: string): string;
  /** hash: profiles that may have saved a variant -> time */
  subscribers(digest: string): string;
  /** hash: see lua/extras/alerts/journalProduct.lua */
  readonly products: string;
  /** sorted set: products -> last version, milliseconds since 1970 */
  readonly productVersions: string;
  nodeMarker(stream: number): string;
  readonly visits: StreamKeys;
  /** hash: id -> receiver, JSON */
  readonly receivers: string;
  deliveries(stream: number, receiver: string): DeliveryKeys;
}

/** Identity, counts, profile, items, members. */
export const PROFILE_KINDS = ['v', 'r', 'p', 'i', 'g'] as const;
export type ProfileKind = (typeof PROFILE_KINDS)[number];
/** A guest's counts are in its identity. As in lua/includes/retain.lua. */
export const GUEST_KINDS = PROFILE_KINDS.filter((kind) => kind !== 'r');

export interface DeliveryKeys {
  readonly queue: string;
  /** sorted set: see lua/includes/deliveries.lua */
  readonly taken: string;
  /** hash: pending bytes, cursor, stats */
  readonly state: string;
  /** stream */
  readonly dead: string;
}

export function bucketOf(profileId: string): string {
  return profileId.slice(0, profileId.indexOf('.'));
}

export function tagOf(key: string): string {
  return key.slice(key.indexOf('{') + 1, key.indexOf('}'));
}

/** @param prefix without braces */
export function createKeys(prefix: string): Keys {
  const ofProfile = (kind: string) => (profileId: string) => {
    const dot = profileId.indexOf('.');
    return `${prefix}:{${profileId.slice(0, dot)}}:${kind}:${profileId.slice(dot + 1)}`;
  };
  const streamTag = (stream: number) => (stream === 0 ? `${prefix}:meta` : String(stream));
  const streamKeys = (kind: string): StreamKeys => ({
    events: (stream) => `${prefix}:{${streamTag(stream)}}:${kind}`,
    eventsState: (stream) => `${prefix}:{${streamTag(stream)}}:${kind}:state`,
    eventsDead: (stream) => `${prefix}:{${streamTag(stream)}}:${kind}:dead`,
  });
  const applied = ofProfile('x');
  const leftovers = ofProfile('zg');
  const journals = PROFILE_KINDS.filter((kind) => kind !== 'v').map((kind) => `j${kind}`);
  const ofProfiles = [...PROFILE_KINDS, ...journals].map(ofProfile);
  return {
    meta: `${prefix}:meta`,
    settings: `${prefix}:settings`,
    profile: ofProfile('p'),
    identity: ofProfile('v'),
    counts: ofProfile('r'),
    items: ofProfile('i'),
    members: ofProfile('g'),
    applied: (profileId, generation, from) => `${applied(profileId)}:${generation}:${from}`,
    leftovers: (profileId, generation) => `${leftovers(profileId)}:${generation}`,
    erased: (profileId, generation) => `${prefix}:{${bucketOf(profileId)}}:e:${generation}`,
    pending: (stream) => `${prefix}:{${streamTag(stream)}}:pending`,
    operation: (profileId, operationId) => `${prefix}:{${bucketOf(profileId)}}:k:${operationId}`,
    share: (code) => `${prefix}:{share:${code}}`,
    request: (digest) => `${prefix}:{request:${digest}}`,
    order: (digest) => `${prefix}:{order:${digest}}`,
    ofKind: (kind, profileId) => ofProfile(kind)(profileId),
    journal: (kind, profileId) => ofProfile(`j${kind}`)(profileId),
    allOf: (profileId) => ofProfiles.map((keyOf) => keyOf(profileId)),
    senderChannel: (tag, id) => `${prefix}:{${tag}}:channel:${id}`,
    erasures: `${prefix}:erasures`,
    compliance: `${prefix}:{compliance}:open`,
    complianceTaken: `${prefix}:{compliance}:taken`,
    complianceOwner: `${prefix}:{compliance}:owner`,
    sweep: `${prefix}:{sweep}`,
    email: (digest) => `${prefix}:{email:${digest}}`,
    subscribers: (digest) => `${prefix}:{wish:${digest}}`,
    products: `${prefix}:{products}:open`,
    productVersions: `${prefix}:{products}:versions`,
    nodeMarker: (stream) => `${prefix}:{${streamTag(stream)}}:marker`,
    ...streamKeys('events'),
    visits: streamKeys('visits'),
    receivers: `${prefix}:receivers`,
    deliveries: (stream, receiver) => {
      const keyOf = (kind: string) => `${prefix}:{${streamTag(stream)}}:${kind}:${receiver}`;
      return { queue: keyOf('dq'), taken: keyOf('dt'), state: keyOf('ds'), dead: keyOf('dd') };
    },
  };
}
