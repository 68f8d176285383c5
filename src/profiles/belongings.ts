// The kinds of a visitor's data, for merges, erasures and exports. An extra may add its index to a kind.

import { readHash } from '../redis/hash.js';
import type { Keys, ProfileKind } from '../redis/keys.js';
import { countsOf, type Location } from '../redis/location.js';
import type { Store } from '../redis/store.js';
import { item } from '../wishlist/item-fields.js';
import { listItems } from '../wishlist/items.js';

/** An index in other slots: field -> profiles that may have it. */
export interface FieldIndex {
  /** Call before a profile gets these fields. */
  addAll(fields: readonly string[], profileId: string): Promise<void>;
  /** Call after a merge or erasure. */
  remove(fields: readonly string[], profileId: string): Promise<void>;
}

type Fields = readonly string[];

export interface Belonging {
  readonly kind: ProfileKind;
  readonly guestKind?: ProfileKind;
  readonly merged: {
    /** `added`: sums numbers. `united`: the target's value wins. */
    readonly how: 'added' | 'united';
    readonly page: number;
    readonly except?: ReadonlySet<string>;
    /** Profile field with the bytes of all values. */
    readonly bytesIn?: string;
    /** Members that these fields add to the target. */
    readonly members?: (fields: Fields) => Fields;
  };
  readonly indexes: readonly FieldIndex[];
  /** `read` returns a redirect as a string. */
  readonly exported?: {
    readonly as: string;
    readonly answer: object;
    read(store: Store, location: Location): Promise<object | string>;
  };
}

const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale', 'createdAt', 'updatedAt'];

export function belongingsOf(itemIndex: FieldIndex | undefined): readonly Belonging[] {
  return [
    {
      kind: 'r',
      guestKind: 'v',
      merged: { how: 'added', page: 128 },
      indexes: [],
      exported: {
        as: 'visits',
        answer: {
          type: 'object',
          description: 'Product handle: count',
          additionalProperties: { type: 'integer' },
        },
        async read(store, location) {
          const counts = await readHash(store, countsOf(store.keys, location));
          return Object.fromEntries([...counts].map(([handle, n]) => [handle, Number(n)]));
        },
      },
    },
    {
      kind: 'p',
      merged: {
        how: 'united',
        page: 50,
        except: new Set(['owner', 'generation', 'itemBytes', 'registered']),
        // The source's share code leads to the target, whose erasure must find it.
        members: (fields) =>
          fields.flatMap((text, i) => (fields[i - 1] === 'share' && i % 2 ? [`#${text}`, ''] : [])),
      },
      indexes: [],
      exported: {
        as: 'profile',
        answer: {
          type: 'object',
          description: 'E-mail address, names, device, locale, where they are known',
        },
        async read(store, { profileId }) {
          const facts = await readHash(store, store.keys.profile(profileId));
          return Object.fromEntries(
            FACTS.filter((fact) => facts.get(fact)).map((fact) => [fact, facts.get(fact)]),
          );
        },
      },
    },
    { kind: 'g', merged: { how: 'united', page: 128 }, indexes: [] },
    {
      kind: 'i',
      merged: { how: 'united', page: 20, bytesIn: 'itemBytes' },
      indexes: itemIndex ? [itemIndex] : [],
      // The export reads items last, because `listItems` verifies the location for everything read before.
      exported: {
        as: 'items',
        answer: { type: 'array', items: item, description: 'Newest first' },
        read: listItems,
      },
    },
  ];
}

export function keyOf(
  keys: Keys,
  { kind, guestKind }: Belonging,
  profileId: string,
  isGuest: boolean,
): string {
  return keys.ofKind((isGuest && guestKind) || kind, profileId);
}

export async function indexedFields(
  store: Store,
  belongings: readonly Belonging[],
  hashOf: (belonging: Belonging) => string,
): Promise<[FieldIndex, Fields][]> {
  const found: [FieldIndex, Fields][] = [];
  for (const belonging of belongings.filter(({ indexes }) => indexes.length > 0)) {
    const fields = [...(await readHash(store, hashOf(belonging))).keys()];
    for (const index of belonging.indexes) found.push([index, fields]);
  }
  return found;
}
