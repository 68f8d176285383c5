// Records each guest's last active day, so that retention (retention.ts) can delete inactive guests: before a write of the
// guest or in the same step, once a day (seen.ts). Reading does not count.

import { isCustomerName } from '../identity-rules.js';
import type { Door, Doors } from './doors.js';
import type { MeetBatch } from './meet-batch.js';
import type { Seen } from './seen.js';

export class Guests {
  readonly #doors: Doors;
  readonly #batch: MeetBatch;
  /** Undefined where no guest expires. */
  readonly seen: Seen | undefined;

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
    if (!this.isUnmet(name, own)) return;
    const seen = this.seen as Seen;
    if ((await this.#batch.run({ name, own, dayS: seen.dayS })) > 0) seen.add(own);
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

  /** Customers have no last day. @param own the identity's own profile, which costs a digest to find */
  isUnmet(name: string, own: string): boolean {
    return this.seen !== undefined && !isCustomerName(name) && !this.seen.has(own);
  }
}
