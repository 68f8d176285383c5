// The one place that knows how keys are spelled. What scripts use together has one hash tag, so that all of it runs
// unchanged on Redis Cluster. Scripts get finished keys; lua/includes/retain.lua alone makes some: a guest's other keys,
// from its identity's, in the same slot.
//
// A profile id is `<bucket>.<hash>`: its keys carry the bucket as the hash tag and only the hash
// after it, in short words. There are millions of `v` keys, and 16 bytes of each were spelling.

/**
 * Keys of streams that are flushed to ClickHouse, by number: 0 is in the slot of `meta`, and so at its node, any other beside
 * the mark of that number (see marks.ts).
 */
export interface StreamKeys {
  /** stream: entries of rows */
  events(stream: number): string;
  /** hash: pending rows (`events`) and bytes */
  eventsState(stream: number): string;
  /** stream: dead letters */
  eventsDead(stream: number): string;
}

export interface Keys extends StreamKeys {
  /** hash: profile salt, schema version, seconds for which guests stay, names of marks (see marks.ts) */
  readonly meta: string;
  /** hash: app settings */
  readonly settings: string;
  /**
   * hash: product handle -> count, of a guest who has this profile; else only empty -> the link of the identity whose default
   * profile this is, `<profile> <generation>`; see src/profiles/links.ts
   */
  identity(profileId: string): string;
  /** hash: product handle -> count, of a linked profile */
  counts(profileId: string): string;
  /**
   * hash: owner and generation of a linked profile; e-mail, names, device, locale, timestamps, share code; `known` of one who
   * has nothing else; or only `target` once it was merged, `!` before it until the merge is finished
   */
  profile(profileId: string): string;
  /** hash: `<product>:<variant>` -> item */
  items(profileId: string): string;
  /**
   * hash: what may lead to this profile, beside its owner. Identities and `#<share code>` -> empty; `@<digest>` of e-mail
   * addresses -> the identity whose default profile this was, or empty; merged profiles -> nonce of that merge, and until it is applied `+<generation> <owner>` of a linked one, else empty
   */
  members(profileId: string): string;
  /** hash: what was added to a profile from one that was merged into it, for some hours; see lua/profiles/applyMergePage.lua */
  applied(profileId: string, generation: string, from: string): string;
  /** hash: members of an erased generation, until nothing leads to it any more */
  leftovers(profileId: string, generation: string): string;
  /** string, for some weeks: this generation of a profile in the same bucket was erased */
  erased(profileId: string, generation: string): string;
  /** sorted set, at each node: operations of several steps that are under way -> when they began, milliseconds */
  pending(stream: number): string;
  /** string: the answer of an operation with an idempotency key, at the profile that it changed */
  operation(profileId: string, operationId: string): string;
  /** hash: the first request under an idempotency key, and its answer */
  request(digest: string): string;
  /** string: when an order came first, whose it was, and whether it was acted on, by its digest; see src/wishlist/order-notes.ts */
  order(digest: string): string;
  /** string: `<profile that a share code was made for> <when, milliseconds since 1970>` */
  share(code: string): string;
  /** Of a profile, by the kind's letter. */
  ofKind(kind: ProfileKind, profileId: string): string;
  /** What a merge moved aside of a kind. */
  journal(kind: ProfileKind, profileId: string): string;
  /** Every key of a profile, in one slot; without what belongs to a generation. */
  allOf(profileId: string): string[];
  /** string: the last batch that one lane of one process applied in one slot; see lua/ */
  lane(tag: string, lane: string): string;
  /**
   * hash: profiles that were erased, and whose rows in streams and ClickHouse are still to be -> up to when; see
   * EVERY_PROFILE
   */
  readonly erasures: string;
  /**
   * hash: `#` -> the last number, number -> a visitor's or a shop's request that is open, as JSON; see
   * src/extras/privacy/compliance.ts
   */
  readonly compliance: string;
  /** sorted set: digests of deliveries that brought these requests -> second in which they are forgotten */
  readonly complianceTaken: string;
  /** string, for some seconds: the process that works at these requests */
  readonly complianceOwner: string;
  /** string, until the next sweep is due: a process has begun one; see src/profiles/sweeper.ts */
  readonly sweep: string;
  /** sorted set: profiles that an e-mail address leads to, by its keyed digest -> when it was given last, milliseconds */
  email(digest: string): string;
  /** hash: profiles that may have a variant of a product on their wishlist -> when they were noted, see src/extras/alerts/wishers.ts */
  wishers(digest: string): string;
  /** hash: products whose wishers are being told -> version, and what they are like; see src/extras/alerts/products.ts */
  readonly products: string;
  /** sorted set: the last version of products of the last days, milliseconds since 1970 */
  readonly productVersions: string;
  /** hash: shows that a node of a cluster has its data, see src/redis/marks.ts */
  mark(stream: number): string;
  readonly visits: StreamKeys;
  /** hash: id -> a receiver of events, as JSON; see src/extras/receivers/receivers.ts */
  readonly receivers: string;
  /** What waits for a receiver beside a stream of events. */
  deliveries(stream: number, receiver: string): DeliveryKeys;
}

/** Kinds of a profile's hashes: identity, counts, profile, items, members. */
export const PROFILE_KINDS = ['v', 'r', 'p', 'i', 'g'] as const;
export type ProfileKind = (typeof PROFILE_KINDS)[number];

/** In one slot. */
export interface DeliveryKeys {
  /** stream: an entry for each delivery, with its line */
  readonly queue: string;
  /** sorted set: those that are in flight or have failed -> when they are due again, and attempts; see lua/includes/deliveries.lua */
  readonly taken: string;
  /** hash: bytes that wait, the last one that was taken, figures, the last success and failure */
  readonly state: string;
  /** stream: dead letters */
  readonly dead: string;
}

/** The bucket (also the hash tag) of a profile: what stands before its first dot. */
export function bucketOf(profileId: string): string {
  return profileId.slice(0, profileId.indexOf('.'));
}

/** The hash tag of a key that has one. */
export function tagOf(key: string): string {
  return key.slice(key.indexOf('{') + 1, key.indexOf('}'));
}

/** @param prefix see KEY_PREFIX: ASCII, and no braces, which would make a hash tag */
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
    lane: (tag, lane) => `${prefix}:{${tag}}:lane:${lane}`,
    // In the slot of `meta`.
    erasures: `${prefix}:erasures`,
    compliance: `${prefix}:{compliance}:open`,
    complianceTaken: `${prefix}:{compliance}:taken`,
    complianceOwner: `${prefix}:{compliance}:owner`,
    sweep: `${prefix}:{sweep}`,
    email: (digest) => `${prefix}:{email:${digest}}`,
    wishers: (digest) => `${prefix}:{wish:${digest}}`,
    products: `${prefix}:{products}:open`,
    productVersions: `${prefix}:{products}:versions`,
    mark: (stream) => `${prefix}:{${streamTag(stream)}}:mark`,
    ...streamKeys('events'),
    visits: streamKeys('visits'),
    receivers: `${prefix}:receivers`,
    deliveries: (stream, receiver) => {
      const keyOf = (kind: string) => `${prefix}:{${streamTag(stream)}}:${kind}:${receiver}`;
      return { queue: keyOf('dq'), taken: keyOf('dt'), state: keyOf('ds'), dead: keyOf('dd') };
    },
  };
}
