// An index from items to the profiles that may have them, kept by an extra. The wishlist is the truth: a profile enters the index
// before its item is written, and leaves it after the item is removed.

export interface ItemIndex {
  /** Call before the item is written. @param field of the item, see itemField @throws ServiceError `unavailable` */
  add(field: string, profileId: string): Promise<void>;
  /** @throws as `add` */
  addAll(fields: readonly string[], profileId: string): Promise<void>;
  /** Call for a profile that was erased or merged. @throws as `add` */
  remove(fields: readonly string[], profileId: string): Promise<void>;
  /** Call after items were removed. Entries of items that exist stay. Never rejects. */
  forget(fields: readonly string[], profileId: string): Promise<void>;
  /**
   * Removes profiles that no longer exist and entered more than `graceMs` ago.
   * @param digest of an item's field @returns their number @throws as `add`
   */
  sweep(digest: string, graceMs: number): Promise<number>;
}
