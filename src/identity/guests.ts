// Guests are met: a session at home has a day when it was last seen, at its door, and what is not seen for long goes
// (retention.ts). So before anything else is done for it, or in the same step, it is met: once a day, see seen.ts.

import { isCustomerName } from '../identity-rules.js';
import type { Door, Doors } from './doors.js';
import type { MeetBatch } from './meet-batch.js';
import type { Seen } from './seen.js';

export class Guests {
  readonly #doors: Doors;
  readonly #batch: MeetBatch;
  /** Undefined where no guest expires. */
  readonly seen: Seen | undefined;
  /** Own profiles whose note is under way: a page reads many counts at once. */
  readonly #noting = new Set<string>();

  constructor(batch: MeetBatch, doors: Doors, seen: Seen | undefined) {
    this.#batch = batch;
    this.#doors = doors;
    this.seen = seen;
  }

  /**
   * Notes that an identity is seen, if this process has not done so today: before something is done for it, so that it
   * does not expire meanwhile.
   * @throws ServiceError `unavailable`
   */
  async meet(name: string): Promise<void> {
    const own = this.#doors.ownProfile(name);
    if (this.isUnmet(name, own)) await this.#touch(name, own, false);
  }

  /**
   * Makes an identity known, and notes in the same step that it is seen, if it is at home.
   * @throws ServiceError `unavailable`
   */
  async resolve(name: string): Promise<Door> {
    const own = this.#doors.ownProfile(name);
    const seen = this.isUnmet(name, own) ? (this.seen as Seen) : undefined;
    const door = await this.#doors.where(name, 'resolve', seen?.dayS);
    if (door.room === undefined) seen?.add(own);
    return door;
  }

  /** `meet` for a read, which does not wait for it; it may fail. @param own the identity's own profile */
  note(name: string, own: string): void {
    if (!this.isUnmet(name, own) || this.#noting.has(own)) return;
    this.#noting.add(own);
    this.#touch(name, own, true)
      .catch(() => {})
      .finally(() => this.#noting.delete(own));
  }

  /** Customers have no last day. @param own the identity's own profile, which costs a digest to find */
  isUnmet(name: string, own: string): boolean {
    return this.seen !== undefined && !isCustomerName(name) && !this.seen.has(own);
  }

  /** Not in a batch with reads, which would be writes then. */
  async #touch(name: string, own: string, mayBeLost: boolean): Promise<void> {
    const seen = this.seen as Seen;
    const reply = await this.#batch.run({ name, own, dayS: seen.dayS, mayBeLost });
    if (reply > 0) seen.add(own);
  }
}
