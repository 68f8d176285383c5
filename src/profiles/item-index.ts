// An extra's index from items to profiles that may have them. Any number of extras have one.

import type { Identity } from '../identity-rules.js';

export interface ItemIndex {
  /** Its keys are `{<tag>:<digest of a field>}`. */
  readonly tag: string;
  /** The index's note in an item, after the time on the second line. It begins with a space. */
  noteOf(identity: Identity): string;
  /** Call before the item is written. */
  add(field: string, profileId: string): Promise<void>;
  addAll(fields: readonly string[], profileId: string): Promise<void>;
  /** Removes an erased or merged profile. */
  remove(fields: readonly string[], profileId: string): Promise<void>;
  /** Call after items were removed. Keeps entries of existing items. Never rejects. */
  forget(fields: readonly string[], profileId: string): Promise<void>;
  /**
   * Removes entries older than `graceMs` whose profile doesn't exist any more.
   * @param digest of a field @returns their number
   */
  sweep(digest: string, graceMs: number): Promise<number>;
}
