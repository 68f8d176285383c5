// Records openings of shared wishlists: the code, nothing about the reader. Rows belong to the owner's profile and are
// erased with it. Anyone with a link causes rows, so they may fill the stream only to half of its high-water mark; more
// are counted as lost.

import type { Append } from '../events/appender.js';
import { encodeShareOpen, SHARE_OPEN } from '../events/row.js';
import type { Batcher } from '../redis/batcher.js';

/** Share of STREAM_HIGH_WATER. */
export const OPENS_SHARE = 0.5;

export class ShareOpens {
  readonly #appends: Batcher<Append, unknown>;
  readonly #onRecorded: (type: string, rows: number) => void;
  readonly #onLost: () => void;

  /** @param appends with OPENS_SHARE of the high-water mark @param onLost called for each unrecorded opening */
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
