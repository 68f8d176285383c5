// PUT /products and POST /webhook/products. Without PRODUCT_ALERTS they only validate.

import type { Logger } from 'pino';
import { answerOf, id } from '../../field-schemas.js';
import { deliveryAnswer } from '../../http/answer-schemas.js';
import { IDEMPOTENCY_KEY, once } from '../../http/idempotency.js';
import { eachOnce } from '../../http/left-out.js';
import { type Operation, operation } from '../../http/operation.js';
import { MAX_DELIVERY, NOTHING_TO_SAY, TOPIC, type WebhookGate } from '../../http/webhook.js';
import type { RequestStore } from '../../redis/requests.js';
import { readProduct, readShopifyProduct } from './product-webhook.js';
import type { Products } from './products.js';
import { productBody, shopifyProductBody } from './schemas.js';

/** Bytes for 2,048 variants. */
const MAX_PRODUCT = 512 * 1024;
/** The topic is empty if a shop's own server sends the product. */
const TOPICS = new Set(['', 'products/update', 'products/create']);
export const PRODUCT_LEFT_OUT = ['topic', 'body'] as const;
export type ProductLeftOut = (typeof PRODUCT_LEFT_OUT)[number];
const productAnswer = answerOf({ productId: id });

const EXAMPLE = {
  productId: 'gid://shopify/Product/1001',
  productHandle: 'red-shoe',
  productTitle: 'Red shoe',
  variants: [
    { variantId: '2002', price: '59.90', compareAt: '79.90', currencyCode: 'EUR', inventoryAvailable: true },
  ],
};
const SHOPIFY_EXAMPLE = {
  id: 1001,
  handle: 'red-shoe',
  title: 'Red shoe',
  status: 'active',
  published_at: '2026-11-01T09:00:00+01:00',
  updated_at: '2026-11-18T12:06:40+01:00',
  variants: [
    {
      id: 2002,
      price: '59.90',
      compare_at_price: '79.90',
      inventory_policy: 'deny',
      inventory_quantity: 3,
    },
  ],
};

export function productOperations(
  products: Products | undefined,
  requests: RequestStore,
  webhooks: WebhookGate,
  onLeftOut: (reason: ProductLeftOut, topic: string) => void,
): Operation[] {
  return [
    operation({
      method: 'put',
      doc: {
        id: 'putProduct',
        tag: 'Products',
        summary: "Sets a product's prices and stock; alerts to visitors who saved it follow",
        body: { schema: productBody, example: EXAMPLE },
        answer: productAnswer,
      },
      path: '/products',
      accessGroup: 'administration',
      maxBody: MAX_PRODUCT,
      headers: [IDEMPOTENCY_KEY],
      read: readProduct,
      handle(input, request) {
        return once(requests, request, { operation: 'putProduct', input }, async () => {
          await products?.take(input);
          return JSON.stringify({ productId: input.productId });
        });
      },
    }),
    webhooks.operation({
      doc: {
        id: 'takeProduct',
        tag: 'Webhooks',
        summary: "As `PUT /products`, for Shopify's `products/update`",
        body: { schema: shopifyProductBody, example: SHOPIFY_EXAMPLE },
        answer: deliveryAnswer,
      },
      path: '/webhook/products',
      maxBody: MAX_DELIVERY,
      leftOut: NOTHING_TO_SAY,
      read(bytes, request) {
        return TOPICS.has(request.header(TOPIC)) ? (readShopifyProduct(bytes) ?? 'body') : 'topic';
      },
      async handle(given, request) {
        if (typeof given === 'string') onLeftOut(given, request.header(TOPIC));
        else await products?.take(given.product, given.updatedAt);
        return NOTHING_TO_SAY;
      },
    }),
  ];
}

export function productLeftOut(
  count: (reason: ProductLeftOut) => void,
  log: Logger,
): (reason: ProductLeftOut, topic: string) => void {
  const logOf = (why: string) =>
    eachOnce((topic) => log.warn({ topic }, `webhooks to /webhook/products are left out: ${why}`));
  const logs = { topic: logOf('they are of another topic'), body: logOf('their body is no product') };
  return (reason, topic) => {
    count(reason);
    logs[reason](topic);
  };
}
