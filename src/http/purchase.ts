// POST /webhook/purchase: an order, from Shopify or from a shop's own server. What was bought leaves the wishlist.
//
// A delivery is recorded under its id before it is acted on, and acted on under that record: one that failed
// half-way is completed by its repeat, a repeat of one that is done does nothing. With the setting off, orders
// are not looked at and leave no record.

import { ServiceError } from '../errors.js';
import { fitsBytes } from '../identity/rules.js';
import type { Visitors } from '../identity/visitors.js';
import type { Once } from '../redis/once.js';
import { deliveryAnswer } from '../validation/answers.js';
import { readOrder } from '../validation/order.js';
import { orderBody } from '../validation/schemas.js';
import type { Purchases } from '../wishlist/purchases.js';
import type { SettingsStore } from '../wishlist/settings.js';
import { MAX_DELIVERY } from './limits.js';
import type { Operation, Request } from './operation.js';
import { verifyWebhookSignature } from './webhook-signature.js';

const SIGNATURE = 'x-shopify-hmac-sha256';
const DELIVERY_ID = 'x-shopify-webhook-id';
const MAX_DELIVERY_ID = 255;
const NOTHING_TO_SAY = '{}';

const EXAMPLE = {
  id: 820982911946154,
  customer: { id: 115310627314723 },
  note_attributes: [{ name: 'wishlist_session_id', value: 's-1' }],
  line_items: [{ product_id: 1001, variant_id: 2002, quantity: 1, price: '79.90' }],
};

/**
 * @param deliveries remembers what was delivered
 * @param shopifySecret of the app; empty where the shop is not Shopify's
 */
export function purchaseOperation(
  visitors: Visitors,
  settings: SettingsStore,
  purchases: Purchases,
  deliveries: Once,
  shopifySecret: string,
): Operation {
  return {
    method: 'post',
    doc: {
      summary: "Takes Shopify's `orders/paid`: with the setting on, purchased items leave the wishlist",
      body: { schema: orderBody, example: EXAMPLE },
      answer: deliveryAnswer,
    },
    path: '/webhook/purchase',
    subject: 'delivery',
    maxBody: MAX_DELIVERY,
    wantsBytes: true,
    headers: [SIGNATURE, DELIVERY_ID],
    async handle(request) {
      const order = readOrder(authenticBody(request, shopifySecret));
      const deliveryId = readDeliveryId(request);
      if (!(await settings.read()).autoRemoveAfterPurchase) return NOTHING_TO_SAY;
      const [scope, key] = deliveryId === '' ? ['order', order.orderId] : ['delivery', deliveryId];
      return deliveries.run(scope, key, order, async (delivery) => {
        const { identity } = delivery.request;
        if (identity === null) return NOTHING_TO_SAY;
        const { known, profileId } = await visitors.find(identity, false);
        if (known) await purchases.remove(profileId, identity, delivery);
        return NOTHING_TO_SAY;
      });
    },
  };
}

/** @throws ServiceError `unauthorized` */
function authenticBody(request: Request, secret: string): Buffer {
  const bytes = request.bytes as Buffer;
  if (request.caller.kind === 'server') return bytes;
  if (verifyWebhookSignature(bytes, request.header(SIGNATURE), secret)) return bytes;
  throw new ServiceError('unauthorized', 'The webhook signature is not valid.');
}

function readDeliveryId(request: Request): string {
  const id = request.header(DELIVERY_ID);
  if (fitsBytes(id, MAX_DELIVERY_ID)) return id;
  throw new ServiceError('invalid_request', undefined, [
    { path: 'X-Shopify-Webhook-Id', message: `must have at most ${MAX_DELIVERY_ID} bytes` },
  ]);
}
