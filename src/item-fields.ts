// The fields of an item, in the order of answers, for schemas, storage, exports and payloads. For speed, `readItem`
// (src/validation/requests.ts) and `addPayload` copy field by field; the compiler checks that they have all.

import {
  answerOf,
  boolean,
  count,
  countryCode,
  currencyCode,
  decimalText,
  decimalTextOrNull,
  type FieldSchema,
  freeForm,
  id,
  idOrNull,
  image,
  objectOrNull,
  oneOf,
  price,
  priceOrNull,
  productHandle,
  productId,
  quantity,
  text,
  textOrNull,
  time,
  title,
  titleOrNull,
  type ValueOf,
  variantId,
  word,
} from './field-schemas.js';
import { SOURCES } from './known-words.js';

export type ItemEvent = 'add' | 'remove' | 'moveToCart';
export type RemovalEvent = Exclude<ItemEvent, 'add'>;

interface FieldSpec {
  /** The field in /item/add. */
  readonly given: FieldSchema;
  /** The field in answers, storage and exports. */
  readonly listed: FieldSchema;
  readonly isRequired?: true;
  /** If true, null isn't stored. */
  readonly isSparse?: true;
  readonly events: readonly ItemEvent[];
}

const ALL = ['add', 'remove', 'moveToCart'] as const;

const FIELDS = {
  productId: { given: productId, listed: id, isRequired: true, events: ALL },
  variantId: { given: variantId, listed: idOrNull, events: ALL },
  productHandle: { given: productHandle, listed: text, isRequired: true, events: ALL },
  productTitle: { given: title, listed: text, isRequired: true, events: ALL },
  variantTitle: { given: titleOrNull, listed: textOrNull, events: ALL },
  image: { given: image, listed: textOrNull, events: ['moveToCart'] },
  price: { given: price, listed: decimalText, isRequired: true, events: ALL },
  compareAt: { given: priceOrNull, listed: decimalTextOrNull, events: ALL },
  inventoryAvailable: { given: boolean, listed: boolean, isRequired: true, events: ALL },
  quantity: { given: quantity, listed: count, isRequired: true, events: ALL },
  source: { given: oneOf(SOURCES, 'pdp'), listed: word(SOURCES), events: ['add'] },
  currencyCode: { given: currencyCode, listed: textOrNull, isSparse: true, events: ALL },
  countryCode: { given: countryCode, listed: textOrNull, isSparse: true, events: [] },
  // It must be last, here and in `readItem`, because lua/wishlist/changeItems.lua parses an item up to it.
  properties: { given: freeForm, listed: objectOrNull, isSparse: true, events: [] },
} as const satisfies Readonly<Record<string, FieldSpec>>;

type Fields = typeof FIELDS;
type ItemField = keyof Fields;

export type GivenItem = {
  readonly [F in ItemField]?: ValueOf<Fields[F]['given']>;
} & {
  readonly [F in ItemField as Fields[F] extends { isRequired: true } ? F : never]: ValueOf<
    Fields[F]['given']
  >;
};

export type ListedItem = { readonly [F in ItemField]: ValueOf<Fields[F]['listed']> };

/** An item's stored content: ids are normalised, prices are texts with two decimals. */
export type ItemContent = {
  readonly [F in ItemField]: Fields[F] extends { isSparse: true }
    ? Exclude<ListedItem[F], null> | undefined
    : ListedItem[F];
};

export type ItemPayload<Event extends ItemEvent> = {
  readonly [F in ItemField as Event extends Fields[F]['events'][number] ? F : never]: ItemContent[F];
};

const SPECS: readonly (readonly [name: string, spec: FieldSpec])[] = Object.entries(FIELDS);

export function fieldSchemas(which: 'given' | 'listed'): Readonly<Record<string, FieldSchema>> {
  return Object.fromEntries(SPECS.map(([name, spec]) => [name, spec[which]]));
}

export const item = answerOf({ itemId: text, ...fieldSchemas('listed'), addedAt: time, updatedAt: time });

export const REQUIRED_FIELDS = SPECS.filter(([, spec]) => spec.isRequired).map(([name]) => name);

export function payloadFields(event: ItemEvent): readonly string[] {
  return SPECS.filter(([, { events }]) => events.includes(event)).map(([name]) => name);
}

export const NO_FIELDS = Object.fromEntries(SPECS.map(([name]) => [name, null]));
