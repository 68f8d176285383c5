// JSON Schemas of answers. They allow other fields, because fields may be added at any time.

import { ERRORS, ISSUE_PLACES } from '../errors.js';
import { answerOf, boolean, count, id, idOrNull, text, textOrNull, word } from '../field-schemas.js';
import { item } from '../item-fields.js';
import { LEFT_OUT } from './left-out.js';

const errorCode = word(Object.keys(ERRORS));
const issue = answerOf({
  in: word(ISSUE_PLACES),
  path: { ...text, description: 'A JSON pointer, or the name of the header' },
  message: text,
});

export const profileAnswer = answerOf({ profileId: text });

export const visitAnswer = {
  type: 'object',
  required: ['profileId', 'productHandle'],
  properties: {
    profileId: text,
    productHandle: text,
    count: { type: 'integer', minimum: 0, description: 'After this visit; only with ?count=true' },
  },
} as const;

export const visitBatchAnswer = answerOf({
  results: {
    type: 'array',
    description: 'One for each visit, in order; an error is of one that was not counted',
    items: { anyOf: [visitAnswer, answerOf({ error: text, code: errorCode })] },
  },
});

export const visitListAnswer = answerOf({
  profileId: text,
  counts: {
    type: 'object',
    additionalProperties: { type: 'integer', minimum: 0 },
    description: 'The count of each requested product, by its handle',
  },
});

export const resetAnswer = answerOf({ profileId: text, productHandle: text });

export const countAnswer = answerOf({
  profileId: text,
  productHandle: text,
  count: { type: 'integer', minimum: 0 },
});

export const statusAnswer = (status: string) => answerOf({ status: word([status]) });

export const readyAnswer = {
  type: 'object',
  required: ['status'],
  properties: {
    status: word(['ready']),
    troubles: { type: 'array', description: 'Parts of Redis that do not work', items: text },
  },
} as const;

export const errorAnswer = {
  type: 'object',
  required: ['error', 'code'],
  properties: {
    error: { type: 'string', description: 'One sentence' },
    code: errorCode,
    issues: {
      type: 'array',
      description: 'Every field at fault',
      items: issue,
    },
  },
} as const;

export const itemAddAnswer = answerOf({
  profileId: text,
  itemId: text,
  productId: id,
  variantId: idOrNull,
  quantity: count,
});

export const itemRemoveAnswer = answerOf({
  profileId: text,
  removed: { type: 'boolean', description: 'False if there was no such item' },
  productId: id,
  variantId: idOrNull,
});

const items = { type: 'array', items: item, description: 'Newest first' } as const;

export const itemListAnswer = answerOf({ profileId: text, items });
export const itemCheckAnswer = answerOf({
  profileId: text,
  items: {
    type: 'array',
    description: 'One for each product, in order; with the variant that is on the list',
    items: answerOf({
      productId: id,
      variantId: idOrNull,
      itemId: { ...textOrNull, description: 'Null if it is not on the list' },
    }),
  },
});
export const itemCountAnswer = answerOf({
  profileId: text,
  count: { type: 'integer', minimum: 0, description: 'Items on the list' },
});
export const sharedItemsAnswer = answerOf({ shareCode: text, profileId: text, items });
export const shareAnswer = answerOf({ shareLink: text, code: text });

export const erasureAnswer = answerOf({
  erased: { type: 'boolean', description: 'Whether anything was kept of the visitor' },
});

export const mergeAnswer = answerOf({
  profileId: text,
  merged: { type: 'boolean', description: 'Whether this very request merged two profiles' },
});

export const settingsAnswer = answerOf({ autoRemoveAfterPurchase: boolean });

export const deliveryAnswer = answerOf({});

/** The reason of an answer to another shop's order. */
export const OTHER_SHOP = 'shop';

export const purchaseAnswer = {
  type: 'object',
  required: ['recorded'],
  properties: {
    recorded: { type: 'integer', minimum: 0, description: 'Lines that are recorded' },
    reason: { type: 'string', enum: [...LEFT_OUT, OTHER_SHOP], description: 'Why no line is' },
    issues: {
      type: 'array',
      description: 'Fields of a signed order that are wrong: without their line, or without the field',
      items: issue,
    },
  },
} as const;
