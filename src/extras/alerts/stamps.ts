// Stores the reported state of a product in items: a tick's items in one call of lua/extras/alerts/stampItems.lua.

import type { OnRecorded } from '../../events/appender.js';
import type { Batched, BatchFormat } from '../../redis/batch-calls.js';
import type { Batcher } from '../../redis/batcher.js';
import { bucketOf } from '../../redis/keys.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';
import { itemAnswers, type PendingEvent } from '../../wishlist/wishlist-batch.js';

/** Undefined if it was stored; else LUA.ITEM_CHANGED or a redirect. */
export type StampAnswer = string | undefined;

interface Stamp extends Batched<StampAnswer> {
  readonly profileId: string;
  readonly field: string;
  /** The item as it was read, for the compare-and-set. */
  readonly item: string;
  readonly secondLine: string;
  readonly alert: PendingEvent | undefined;
}

export type Stamps = Batcher<Stamp, StampAnswer>;

export function stampFormat(
  { keys, streamAt }: Pick<Store, 'keys' | 'streamAt'>,
  highWater: number,
  onRecorded?: OnRecorded,
): BatchFormat<Stamp, StampAnswer> {
  return {
    script: loadScript('extras/alerts/stampItems'),
    tag: ({ profileId }) => bucketOf(profileId),
    mixesTags: true,
    writes: () => true,
    size: ({ item, alert }) => item.length + (alert?.line.length ?? 0),
    encode(stamps, call, address) {
      const stream = streamAt(address);
      for (const arg of [keys.events(stream), keys.eventsState(stream), highWater]) call.arg(arg);
      const lines = stamps.map(({ profileId, field, item, secondLine, alert }) => {
        // A line of encodeEvent ends with a newline.
        const line = alert?.line ?? '\n';
        return `${keys.profile(profileId)}\n${field}\n${item}\n${secondLine}\n${line}`;
      });
      call.arg(lines.join(''));
    },
    decode(stamps, reply) {
      const answers = itemAnswers(stamps.length, reply);
      for (const [i, { alert }] of stamps.entries())
        if (alert !== undefined && answers[i] === undefined) onRecorded?.(alert.type, 1);
      return answers;
    },
  };
}
