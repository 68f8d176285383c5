// Records openings of shared wishlists: the owner's profile and the code, and nothing about the reader. Anyone with a
// link can cause rows, so they may fill only half of a stream.

import type { Append } from '../events/appender.js';
import { encodeShareOpen, SHARE_OPEN } from '../events/row.js';
import type { Batcher } from '../redis/batcher.js';

export const OPENS_SHARE = 0.5;

export class ShareOpens {
  constructor(
    private readonly appends: Batcher<Append, unknown>,
    private readonly onRecorded: (type: string, rows: number) => void,
    private readonly onLost: () => void,
  ) {}

  /** Never rejects. */
  async record(profileId: string, shareCode: string): Promise<void> {
    try {
      await this.appends.run({ profileId, line: encodeShareOpen(profileId, shareCode) });
      this.onRecorded(SHARE_OPEN, 1);
    } catch {
      this.onLost();
    }
  }
}
