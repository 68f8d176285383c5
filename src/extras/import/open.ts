// Opens the item services for the command line.

import type { Logger } from 'pino';
import { type Closeable, openIdentityOnly, openKnownStore, withClosers } from '../../app/opening.js';
import type { Visitors } from '../../profiles/visitors.js';
import type { Store } from '../../redis/store.js';
import { openItemIndexes } from '../item-indexes.js';
import type { ImportConfig } from '../settings.js';
import { ImportedItems } from './imported-items.js';

export interface Importing extends Closeable {
  readonly store: Store;
  readonly visitors: Visitors;
  readonly items: ImportedItems;
}

export function openImport(config: ImportConfig, log: Logger, urls: readonly string[]): Promise<Importing> {
  return withClosers(async (onClose) => {
    const store = await openKnownStore(config, 'wishmeter import', log, { urls });
    onClose(() => store.close());
    const itemIndexes = openItemIndexes({ store, config, onClose });
    const { visitors } = openIdentityOnly(store, config, onClose, itemIndexes);
    const options = {
      highWater: config.STREAM_HIGH_WATER,
      guestsS: await store.guestRetentionS(),
      maxItems: config.MAX_ITEMS,
      maxBytes: config.MAX_ITEMS_BYTES,
    };
    const items = new ImportedItems(store, options, itemIndexes);
    onClose(() => items.close());
    return { store, visitors, items };
  });
}
