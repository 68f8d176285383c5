// What an export has from Redis, with its JSON Schema.

import { item } from '../../item-fields.js';
import { readHash } from '../../redis/hash.js';
import { ownLocation } from '../../redis/location.js';
import type { Store } from '../../redis/store.js';
import { listItems } from '../../wishlist/items.js';

const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale', 'createdAt', 'updatedAt'];

export const EXPORTED_ANSWERS = {
  visits: {
    type: 'object',
    description: 'Product handle: count',
    additionalProperties: { type: 'integer' },
  },
  profile: {
    type: 'object',
    description: 'E-mail address, names, device, locale, if known',
  },
  items: { type: 'array', items: item, description: 'Newest first' },
};

/** @returns undefined if the profile is a session's that has a link now */
export async function readExported(store: Store, profileId: string): Promise<object | undefined> {
  const counts = await readHash(store, store.keys.counts(profileId));
  const facts = await readHash(store, store.keys.profile(profileId));
  // Items come last, because reading them verifies that the session had no link.
  const items = await listItems(store, ownLocation(profileId));
  if (typeof items === 'string') return undefined;
  return {
    visits: Object.fromEntries([...counts].map(([handle, n]) => [handle, Number(n)])),
    profile: Object.fromEntries(FACTS.flatMap((fact) => (facts.get(fact) ? [[fact, facts.get(fact)]] : []))),
    items,
  };
}
