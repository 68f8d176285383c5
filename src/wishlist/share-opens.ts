// Records openings of shared wishlists for analysts. A row has the share code and nothing about the person who opened it; it belongs
// to the owner's profile and is erased with it.
//
// Anyone with a link can cause rows, so they may fill the stream of events only to half of its high-water mark. Beyond that,
// openings are counted as lost, and the page is shown all the same.

import type { Append } from '../events/appender.js';
import { encodeShareOpen, SHARE_OPEN } from '../events/row.js';
import type { Batcher } from '../redis/batcher.js';

/** Share of STREAM_HIGH_WATER. */
export const OPENS_SHARE = 0.5;

export class ShareOpens {
  readonly #appends: Batcher<Append, unknown>;
  readonly #onRecorded: (type: string, rows: number) => void;
  readonly #onLost: () => void;

  /** @param appends with OPENS_SHARE of the high-water mark @param onLost called for each opening that was not recorded */
  constructor(
    appends: Batcher<Append, unknown>,
    onRecorded: (type: string, rows: number) => void,
    onLost: () => void,
  ) {
    this.#appends = appends;
    this.#onRecorded = onRecorded;
    this.#onLost = onLost;
  }

  /** Never rejects. @param profileId the owner's */
  async record(profileId: string, shareCode: string): Promise<void> {
    try {
      await this.#appends.run({ profileId, line: encodeShareOpen(profileId, shareCode) });
      this.#onRecorded(SHARE_OPEN, 1);
    } catch {
      this.#onLost();
    }
  }
}
