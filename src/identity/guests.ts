// Guests are met: a session at home has a day when it was last seen, at its door, and what is not seen for long goes
// (retention.ts). So before anything else is done for it, it is met: once a day, see seen.ts. A new one may have to pass a gate.

import type { ServiceError } from '../errors.js';
import { isCustomerName } from '../identity-rules.js';
import { bucketOf } from '../redis/keys.js';
import type { VisitBatch } from '../visits/visit-batch.js';
import type { Doors } from './doors.js';
import type { Seen } from './seen.js';

/** Bounds how many new visitors come from one place. */
export interface Gate {
  /** Lets one more come. @returns what `giveBack` is told if it was no new one; undefined where they are too many */
  take(): number | undefined;
  giveBack(taken: number): void;
  /** What one who may not come is told. */
  refusal(): ServiceError;
}

export class Guests {
  readonly #doors: Doors;
  readonly #batch: VisitBatch;
  /** Undefined where none is met: guests stay for ever, and there is no gate. */
  readonly seen: Seen | undefined;

  constructor(doors: Doors, batch: VisitBatch, seen: Seen | undefined) {
    this.#doors = doors;
    this.#batch = batch;
    this.seen = seen;
  }

  /**
   * Notes that an identity is seen, if this process has not done so today: before something is done for it, so that it
   * does not go meanwhile. @param gate where an unknown one, who will be known, has to pass
   * @throws ServiceError `unavailable`, and what the gate's refusal is
   */
  async meet(name: string, gate?: Gate): Promise<void> {
    if (!this.isUnmet(name, gate)) return;
    const isKnown = await this.#touch(name, 'touch');
    if (!isKnown && gate !== undefined && gate.take() === undefined) throw gate.refusal();
  }

  /** `meet` of one for whom nothing is changed: it is not waited for, and may fail. */
  note(name: string): void {
    if (this.isUnmet(name)) this.#touch(name, 'note').catch(() => {});
  }

  isUnmet(name: string, gate?: Gate): boolean {
    if (this.seen === undefined || this.seen.has(this.#doors.ownProfile(name))) return false;
    return gate !== undefined || (this.seen.dayS !== '' && !isCustomerName(name));
  }

  /** @returns whether it is known */
  async #touch(name: string, kind: 'touch' | 'note'): Promise<boolean> {
    const profileId = this.#doors.ownProfile(name);
    const bucket = bucketOf(profileId);
    const seen = this.seen as Seen;
    const dayS = daysOf(seen, name);
    const asked = {
      kind,
      isRoom: false,
      name,
      bucket,
      profileId,
      handle: '',
      device: null,
    } as const;
    const answer = await this.#batch.run({ ...asked, dayS });
    if (answer === 1) seen.add(profileId);
    return answer !== 0;
  }
}

/** Customers have no last day. */
export function daysOf(seen: Seen, name: string): string {
  return isCustomerName(name) ? '' : seen.dayS;
}
