// An extra's index from items to profiles that may have them. A profile enters before its item is written, and leaves
// after the removal.

export interface ItemIndex {
  /** Call before the write. @param field see itemField @throws ServiceError `unavailable` */
  add(field: string, profileId: string): Promise<void>;
  /** @throws as `add` */
  addAll(fields: readonly string[], profileId: string): Promise<void>;
  /** For an erased or merged profile. @throws as `add` */
  remove(fields: readonly string[], profileId: string): Promise<void>;
  /** Call after removals; existing items stay. Never rejects. */
  forget(fields: readonly string[], profileId: string): Promise<void>;
  /**
   * Removes profiles that no longer exist and entered more than `graceMs` ago.
   * @param digest of an item's field @returns their number @throws as `add`
   */
  sweep(digest: string, graceMs: number): Promise<number>;
}
