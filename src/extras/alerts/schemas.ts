// JSON Schemas of `PUT /products` and Shopify's `products/update`; see src/validation/schemas.ts.

import {
  boolean,
  currencyCode,
  image,
  price,
  priceOrNull,
  productHandle,
  productId,
  title,
  variantId,
} from '../../field-schemas.js';

/** Shopify's maximum. */
const MAX_VARIANTS = 2_048;

export const productBody = {
  type: 'object',
  blankIsNull: true,
  required: ['productId', 'productHandle', 'productTitle', 'variants'],
  properties: {
    productId,
    productHandle,
    productTitle: title,
    image,
    isPublished: {
      type: ['boolean', 'null'],
      default: true,
      description: 'While it is false, no alerts are sent',
    },
    variants: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_VARIANTS,
      items: {
        type: 'object',
        blankIsNull: true,
        required: ['price', 'inventoryAvailable'],
        properties: {
          variantId: { ...variantId, description: 'Null or absent of a product without variants' },
          price,
          compareAt: priceOrNull,
          currencyCode,
          inventoryAvailable: boolean,
        },
      },
    },
  },
} as const;

export const shopifyProductBody = {
  type: 'object',
  additionalProperties: true,
  required: ['id', 'handle', 'title', 'variants'],
  properties: {
    id: productId,
    handle: productHandle,
    title,
    variants: { type: 'array', items: {} },
  },
} as const;
