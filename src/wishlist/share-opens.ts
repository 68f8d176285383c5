// Openings of shared wishlists, one row each, so that analysts can say whether sharing pays. A row has the share code, and
// nothing of the person who opened it; it is kept under the profile of the wishlist's owner, and is erased with that one.
//
// Rows go to the stream of events, up to half of its high-water mark: anyone with a link can make them, and must not be able
// to keep events out. What does not fit is counted and not recorded, and the page is shown all the same.

import type { Append } from '../events/appender.js';
import { encodeShareOpen, SHARE_OPEN } from '../events/row.js';
import type { Batcher } from '../redis/batcher.js';

/** Of STREAM_HIGH_WATER. */
export const OPENS_SHARE = 0.5;

export class ShareOpens {
  readonly #appends: Batcher<Append, unknown>;
  readonly #onRecorded: (type: string, rows: number) => void;
  readonly #onLost: () => void;

  /** @param appends up to OPENS_SHARE of the mark @param onLost told of each that was not recorded */
  constructor(
    appends: Batcher<Append, unknown>,
    onRecorded: (type: string, rows: number) => void,
    onLost: () => void,
  ) {
    this.#appends = appends;
    this.#onRecorded = onRecorded;
    this.#onLost = onLost;
  }

  /** Resolves when it is recorded, or can't be. @param profileId that has the code */
  async record(profileId: string, shareCode: string): Promise<void> {
    try {
      await this.#appends.run({ profileId, line: encodeShareOpen(profileId, shareCode) });
      this.#onRecorded(SHARE_OPEN, 1);
    } catch {
      this.#onLost();
    }
  }
}
