// Parses the key names that src/redis/keys.ts makes.

import { PROFILE_KINDS } from '../../redis/keys.js';

export interface KeyKind {
  readonly kind: string;
  readonly profileId: string | undefined;
}

const OF_PROFILE = new RegExp(`^\\{([0-9a-z]+)\\}:([${PROFILE_KINDS.join('')}jxe]):([^:]+)`);
const TAGGED = /^\{(\w+)(?::[^}]*)?\}(?::([a-z]+(?::(?:state|dead))?))?/;
/** Replies to running processes. A backup leaves them out, because after a restore no process waits for them. */
const SENDER_CHANNEL = /^\{[^}]+\}:channel:/;

/** @param name without `<prefix>:` @returns undefined if a backup leaves the key out */
export function kindOf(name: string): KeyKind | undefined {
  if (SENDER_CHANNEL.test(name)) return undefined;
  const [, bucket, ofProfile, hash] = OF_PROFILE.exec(name) ?? [];
  if (ofProfile !== undefined) return { kind: ofProfile, profileId: `${bucket}.${hash}` };
  const [, tag, kind] = TAGGED.exec(name) ?? [];
  return { kind: kind ?? tag ?? name.replace(/\{.*/s, ''), profileId: undefined };
}
