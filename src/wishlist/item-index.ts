// An extra's index from items to profiles that may have them.

export interface ItemIndex {
  /** Call before the item is written. */
  add(field: string, profileId: string): Promise<void>;
  addAll(fields: readonly string[], profileId: string): Promise<void>;
  /** For an erased or merged profile. */
  remove(fields: readonly string[], profileId: string): Promise<void>;
  /** Call after removals; existing items stay. Never rejects. */
  forget(fields: readonly string[], profileId: string): Promise<void>;
  /**
   * Removes profiles that no longer exist and entered more than `graceMs` ago.
   * @param digest of a field @returns their number
   */
  sweep(digest: string, graceMs: number): Promise<number>;
}
