// What a visitor has, one row a kind: merges, erasures and exports go over this list and know no kind by name. An extra adds an
// index of a kind here; the core never asks whether it did.

import { readHash } from '../redis/hash.js';
import type { Keys, ProfileKind } from '../redis/keys.js';
import { countsOf, type Place } from '../redis/place.js';
import type { Store } from '../redis/store.js';
import { listItems } from '../wishlist/items.js';

/** Leads from a field of a belonging to the profiles that may have it, in a slot of its own. */
export interface FieldIndex {
  /** Before a profile has these fields. @throws ServiceError `unavailable` */
  addAll(fields: readonly string[], profileId: string): Promise<void>;
  /** Of a profile that will not have them any more. @throws ServiceError `unavailable` */
  remove(fields: readonly string[], profileId: string): Promise<void>;
}

/** field, value, field, value, … */
type Fields = readonly string[];

/** A hash of each profile. */
export interface Belonging {
  readonly kind: ProfileKind;
  /** If a guest has it under another kind. */
  readonly guestKind?: ProfileKind;
  readonly merged: {
    /** Numbers are added up; of other fields the target's stay. */
    readonly how: 'added' | 'united';
    /** Fields of one step. */
    readonly page: number;
    /** Fields that stay the source's. */
    readonly except?: ReadonlySet<string>;
    /** Field of the profile that says how many bytes the values have. */
    readonly bytesIn?: string;
    /** Members that the target gets with these fields, as fields of its own. */
    readonly members?: (fields: Fields) => Fields;
  };
  readonly indexes: readonly FieldIndex[];
  /** Name and value in an export; the value is a text if the visitor is elsewhere by now. */
  readonly exported?: { readonly as: string; read(store: Store, place: Place): Promise<object | string> };
}

/** What an export says of a profile; other fields are how it is kept. */
const FACTS = ['email', 'firstName', 'lastName', 'device', 'locale', 'createdAt', 'updatedAt'];

/** @param itemIndexes of product alerts, if they are on */
export function belongingsOf(itemIndexes: readonly FieldIndex[]): readonly Belonging[] {
  return [
    {
      kind: 'r',
      guestKind: 'v',
      merged: { how: 'added', page: 128 },
      indexes: [],
      exported: {
        as: 'visits',
        async read(store, place) {
          const counts = await readHash(store, countsOf(store.keys, place));
          return Object.fromEntries([...counts].map(([handle, n]) => [handle, Number(n)]));
        },
      },
    },
    {
      kind: 'p',
      merged: {
        how: 'united',
        page: 50,
        except: new Set(['owner', 'generation', 'itemBytes', 'known']),
        // A share code goes on leading here: an erasure of the target has to find it.
        members: (fields) =>
          fields.flatMap((text, i) => (fields[i - 1] === 'share' && i % 2 ? [`#${text}`, ''] : [])),
      },
      indexes: [],
      exported: {
        as: 'profile',
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
      indexes: itemIndexes,
      // The last of all: it finds out whether what was read is of this place.
      exported: { as: 'items', read: listItems },
    },
  ];
}

/** @param isGuest without a link */
export function keyOf(
  keys: Keys,
  { kind, guestKind }: Belonging,
  profileId: string,
  isGuest: boolean,
): string {
  return keys.ofKind((isGuest && guestKind) || kind, profileId);
}

/** Calls `act` with each index, and with the fields that it has of one hash of each kind. */
export async function eachIndex(
  store: Store,
  belongings: readonly Belonging[],
  hashOf: (belonging: Belonging) => string,
  act: (index: FieldIndex, fields: readonly string[]) => Promise<void>,
): Promise<void> {
  for (const belonging of belongings.filter(({ indexes }) => indexes.length > 0)) {
    const fields = [...(await readHash(store, hashOf(belonging))).keys()];
    for (const index of belonging.indexes) await act(index, fields);
  }
}
