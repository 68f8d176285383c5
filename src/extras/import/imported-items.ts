// Puts imported items on wishlists: a tick's items and their events in one call of lua/extras/import/importItems.lua.

import { eventIdOfName } from '../../events/event-id.js';
import { encodeEvent } from '../../events/row.js';
import { type Identity, namesIn } from '../../identity-rules.js';
import type { ItemContent } from '../../item-fields.js';
import type { ItemIndex } from '../../profiles/item-index.js';
import type { Batched, BatchFormat } from '../../redis/batch-calls.js';
import type { Batcher } from '../../redis/batcher.js';
import { bucketOf } from '../../redis/keys.js';
import { isRedirect, type Location } from '../../redis/location.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';
import { itemField, newItem } from '../../wishlist/item.js';
import { addPayload } from '../../wishlist/items.js';
import { type ItemLimits, itemAnswers } from '../../wishlist/wishlist-batch.js';
import { IMPORT } from './origin.js';

export type ImportOutcome = 'new' | 'there' | 'again' | 'gone';

export interface ImportedItem {
  readonly content: ItemContent;
  readonly at: number;
  readonly isStockKnown: boolean;
  /** Set in a dry run: the number of items that the import would have added to this list so far. */
  readonly tried?: number;
}

interface Entry extends Batched<string> {
  readonly location: Location;
  readonly field: string;
  readonly item: string;
  readonly line: string;
  readonly tried: number | undefined;
}

interface ImportOptions extends ItemLimits {
  readonly highWater: number;
  /** Seconds until a guest expires; 0 means never. */
  readonly guestsS: number;
}

export class ImportedItems {
  readonly #batcher: Batcher<Entry, string>;

  constructor(
    store: Store,
    options: ImportOptions,
    private readonly itemIndexes: readonly ItemIndex[],
  ) {
    this.#batcher = store.batcher(importFormat(store, options));
  }

  /** An existing item keeps its fields and gets the earlier time. @throws ServiceError @returns perhaps a redirect */
  async add(
    location: Location,
    identity: Identity,
    { content, at, isStockKnown, tried }: ImportedItem,
  ): Promise<{ readonly outcome: ImportOutcome } | string> {
    const { profileId } = location;
    const field = itemField(content.productId, content.variantId);
    const name = `${namesIn(identity)[0]} ${field}`;
    const notes = this.itemIndexes.map((index) => index.noteOf(identity)).join('');
    const [, others] = newItem('', JSON.stringify(content), Date.now(), notes);
    const item = `${eventIdOfName(at, `item ${name}`)} ${new Date(at).toISOString()} ${IMPORT}\n${others}`;
    const { inventoryAvailable, ...known } = addPayload(content);
    const payload = isStockKnown ? { ...known, inventoryAvailable } : known;
    const id = eventIdOfName(at, `${IMPORT} ${name}`);
    const event = { type: 'add', origin: IMPORT, profileId, identity, payload, id, at };
    const line = encodeEvent({ ...event, isFromServer: true });
    if (tried === undefined) for (const index of this.itemIndexes) await index.add(field, profileId);
    const answer = await this.#batcher.run({ location, field, item, line, tried });
    return isRedirect(answer) ? answer : { outcome: answer as ImportOutcome };
  }

  async close(): Promise<void> {
    await this.#batcher.close();
  }
}

function importFormat(
  { keys, streamAt }: Pick<Store, 'keys' | 'streamAt'>,
  { highWater, guestsS, maxItems, maxBytes }: ImportOptions,
): BatchFormat<Entry, string> {
  return {
    script: loadScript('extras/import/importItems'),
    tag: ({ location }) => bucketOf(location.profileId),
    mixesTags: true,
    writes: () => true,
    size: ({ item, line }) => item.length + line.length,
    encode(entries, call, address) {
      const stream = streamAt(address);
      for (const arg of [
        keys.events(stream),
        keys.eventsState(stream),
        highWater,
        guestsS,
        maxItems,
        maxBytes,
      ])
        call.arg(arg);
      const lines = entries.map(({ location: { profileId, session, linkId }, field, tried = '' }) =>
        [keys.profile(profileId), session, linkId, field, tried, ''].join('\n'),
      );
      call.arg(lines.join(''));
      for (const { item, line } of entries) {
        call.arg(item);
        call.arg(line);
      }
    },
    decode: (entries, reply) => itemAnswers(entries.length, reply) as (string | Error)[],
  };
}
