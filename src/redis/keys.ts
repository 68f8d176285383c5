// The one place that knows how keys are spelled. Every key has one hash tag, so that all of it runs
// unchanged on Redis Cluster; scripts get finished keys and never build one.
//
// A profile id is `<bucket>.<hash>`: its keys carry the bucket as the hash tag and only the hash
// after it, in short words. There are millions of `v` keys, and 16 bytes of each were spelling.

export interface Keys {
  /** hash: bucket count, profile salt, schema version */
  readonly meta: string;
  /** hash: app settings */
  readonly settings: string;
  /** hash: `s:<session>` / `c:<customer>` -> profile id, for the identities of one bucket whose visits do not tell; see lua/visits.lua */
  ids(bucket: string): string;
  /** hash: owner, e-mail, names, device, locale, timestamps */
  profile(profileId: string): string;
  /** hash: product handle -> count; a string, naming the new profile, once the profile was merged away */
  visits(profileId: string): string;
  /** hash: identity -> profile, for the sessions that left this profile for another one */
  moved(profileId: string): string;
  /** hash: where another profile would be named for an identity that is believed to have this one, its own or not */
  names(profileId: string, own: boolean): string;
  /** hash: `<product>:<variant>` -> item */
  items(profileId: string): string;
  /** hash: events of item operations that are not known to be in the stream yet */
  outbox(profileId: string): string;
  /** hash: profiles whose belongings were added to this one */
  merged(profileId: string): string;
  /** string: the answer of an operation with an idempotency key, at the profile that it changed */
  operation(profileId: string, operationId: string): string;
  /** string: the first request under an idempotency key, and its answer */
  once(digest: string): string;
  /** string: the profile that a share code was made for */
  share(code: string): string;
  /** What a merge moved aside and has not handed over yet: visits, items, outbox, profile, merged, in this order. */
  journal(profileId: string): string[];
  /** string: the last batch that one lane of one process applied in one slot; see lua/ */
  lane(tag: string, lane: string): string;
  /** stream: shard k of the events */
  events(shard: number): string;
  /** hash: epoch, owner, manifest of the batch in flight, pending events and bytes of shard k */
  eventsState(shard: number): string;
  /** stream: dead letters of shard k */
  eventsDead(shard: number): string;
}

/** The bucket (also the hash tag) of a profile: what stands before its first dot. */
export function bucketOf(profileId: string): string {
  return profileId.slice(0, profileId.indexOf('.'));
}

export function createKeys(prefix: string): Keys {
  const ofProfile = (kind: string) => (profileId: string) => {
    const dot = profileId.indexOf('.');
    return `${prefix}:{${profileId.slice(0, dot)}}:${kind}:${profileId.slice(dot + 1)}`;
  };
  const ids = (bucket: string) => `${prefix}:{${bucket}}:ids`;
  const moved = ofProfile('m');
  const journalKinds = ['jv', 'ji', 'jo', 'jp', 'jg'].map(ofProfile);
  return {
    meta: `${prefix}:meta`,
    settings: `${prefix}:settings`,
    ids,
    profile: ofProfile('p'),
    visits: ofProfile('v'),
    moved,
    names: (profileId, own) => (own ? ids(bucketOf(profileId)) : moved(profileId)),
    items: ofProfile('i'),
    outbox: ofProfile('o'),
    merged: ofProfile('g'),
    operation: (profileId, operationId) => `${prefix}:{${bucketOf(profileId)}}:k:${operationId}`,
    share: (code) => `${prefix}:{share:${code}}`,
    once: (digest) => `${prefix}:{once:${digest}}`,
    journal: (profileId) => journalKinds.map((keyOf) => keyOf(profileId)),
    lane: (tag, lane) => `${prefix}:{${tag}}:lane:${lane}`,
    events: (shard) => `${prefix}:{e${shard}}:events`,
    eventsState: (shard) => `${prefix}:{e${shard}}:events:state`,
    eventsDead: (shard) => `${prefix}:{e${shard}}:events:dead`,
  };
}
