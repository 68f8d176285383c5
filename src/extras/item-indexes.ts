// The extras' indexes of items, for processes other than `serve`: they complete merges and erasures, too.

import type { ItemIndex } from '../profiles/item-index.js';
import { openSubscribers } from './alerts/subscribers.js';

type Opening = Parameters<typeof openSubscribers>[0];

export function openItemIndexes(opening: Opening): readonly ItemIndex[] {
  return [openSubscribers(opening)].filter((index) => index !== undefined);
}
