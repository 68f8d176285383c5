// What a backup has to know of a key's name: whose it is. src/redis/keys.ts spells them.

import { PROFILE_KINDS } from '../../redis/keys.js';

export interface KeyKind {
  /** Its short name in src/redis/keys.ts, for counts. */
  readonly kind: string;
  /** Of a key that is one of a profile's. */
  readonly profileId: string | undefined;
}

const OF_PROFILE = new RegExp(`^\\{([0-9a-z]+)\\}:(j?[${PROFILE_KINDS.join('')}]|x|zg):([^:]+)`);
const TAGGED = /^\{(\w+)(?::[^}]*)?\}(?::([a-z]+(?::(?:state|dead))?))?/;
/** Answers that a process waits for: nobody does after a restore. */
const LANE = /^\{[^}]+\}:lane:/;

/** @param name of a key without `<prefix>:`; undefined if it is left out of a backup */
export function kindOf(name: string): KeyKind | undefined {
  if (LANE.test(name)) return undefined;
  const [, bucket, ofProfile, hash] = OF_PROFILE.exec(name) ?? [];
  if (ofProfile !== undefined) return { kind: ofProfile, profileId: `${bucket}.${hash}` };
  const [, tag, kind] = TAGGED.exec(name) ?? [];
  return { kind: kind ?? tag ?? name.replace(/\{.*/s, ''), profileId: undefined };
}
