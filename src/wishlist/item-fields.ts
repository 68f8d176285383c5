// The fields of an item, in the order of answers. The schema of /item/add, answers, storage, export and event payloads follow from
// this list. For speed two functions copy field by field: `readItem` of src/validation/requests.ts, and `Items.add`. They do
// not compile if they miss a field.

import {
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
  objectOrNull,
  oneOf,
  plainText,
  price,
  priceOrNull,
  productHandle,
  productId,
  quantity,
  text,
  textOrNull,
  title,
  titleOrNull,
  type ValueOf,
  variantId,
  word,
} from '../field-schemas.js';
import { SOURCES } from '../known-words.js';

/** The events that an item causes. */
export type ItemEvent = 'add' | 'remove' | 'moveToCart';

interface FieldSpec {
  /** Schema in /item/add. */
  readonly given: FieldSchema;
  /** Schema in answers, storage and exports. */
  readonly listed: FieldSchema;
  readonly isRequired?: true;
  /** Not stored if it is null. */
  readonly isSparse?: true;
  /** The events that have it in their payload. For their columns see src/clickhouse/columns.ts. */
  readonly events: readonly ItemEvent[];
}

const ALL = ['add', 'remove', 'moveToCart'] as const;

const FIELDS = {
  productId: { given: productId, listed: id, isRequired: true, events: ALL },
  variantId: { given: variantId, listed: idOrNull, events: ALL },
  productHandle: { given: productHandle, listed: text, isRequired: true, events: ALL },
  productTitle: { given: title, listed: text, isRequired: true, events: ALL },
  variantTitle: { given: titleOrNull, listed: textOrNull, events: ALL },
  image: { given: plainText(2_048), listed: textOrNull, events: ['moveToCart'] },
  price: { given: price, listed: decimalText, isRequired: true, events: ALL },
  compareAt: { given: priceOrNull, listed: decimalTextOrNull, isRequired: true, events: ALL },
  inventoryAvailable: { given: boolean, listed: boolean, isRequired: true, events: ALL },
  quantity: { given: quantity, listed: count, isRequired: true, events: ALL },
  source: { given: oneOf(SOURCES, 'pdp'), listed: word(SOURCES), events: ['add'] },
  currencyCode: { given: currencyCode, listed: textOrNull, isSparse: true, events: ALL },
  countryCode: { given: countryCode, listed: textOrNull, isSparse: true, events: [] },
  // Must be last, here and in `readItem`: lua/wishlist/changeItems.lua parses an item up to it.
  properties: { given: freeForm, listed: objectOrNull, isSparse: true, events: [] },
} as const satisfies Readonly<Record<string, FieldSpec>>;

type Fields = typeof FIELDS;
type ItemField = keyof Fields;

/** An item in a validated request. */
export type GivenItem = {
  readonly [F in ItemField]?: ValueOf<Fields[F]['given']>;
} & {
  readonly [F in ItemField as Fields[F] extends { isRequired: true } ? F : never]: ValueOf<
    Fields[F]['given']
  >;
};

/** An item in an answer. */
export type ListedItem = { readonly [F in ItemField]: ValueOf<Fields[F]['listed']> };

/** A stored item; ids are normalised, prices are decimal text with two decimals. */
export type ItemContent = {
  readonly [F in ItemField]: Fields[F] extends { isSparse: true }
    ? Exclude<ListedItem[F], null> | undefined
    : ListedItem[F];
};

/** The fields of an item in an event's payload. */
export type ItemPayload<Event extends ItemEvent> = {
  readonly [F in ItemField as Event extends Fields[F]['events'][number] ? F : never]: ItemContent[F];
};

const SPECS: readonly (readonly [name: string, spec: FieldSpec])[] = Object.entries(FIELDS);

export function fieldSchemas(which: 'given' | 'listed'): Readonly<Record<string, FieldSchema>> {
  return Object.fromEntries(SPECS.map(([name, spec]) => [name, spec[which]]));
}

export const REQUIRED_FIELDS = SPECS.filter(([, spec]) => spec.isRequired).map(([name]) => name);

/** Names of the fields in an event's payload. */
export function payloadFields(event: ItemEvent): readonly string[] {
  return SPECS.filter(([, { events }]) => events.includes(event)).map(([name]) => name);
}

/** All fields, null. */
export const NO_FIELDS = Object.fromEntries(SPECS.map(([name]) => [name, null]));
