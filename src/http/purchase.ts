// POST /webhook/purchase: an order, from Shopify or from a shop's own server. Each line is recorded for analysts, and with
// the setting on, what was bought leaves the wishlist.
//
// Deliveries repeat, under the same id or under another one for the same order. Both are recorded before the order is
// acted on, and it is acted on under the record of the order: what failed half-way is completed by any repeat, a repeat
// of what is done does nothing. An order that names no visitor leaves no record.

import type { Emails } from '../identity/emails.js';
import type { Visitors } from '../identity/visitors.js';
import { namesIn } from '../identity-rules.js';
import type { RequestStore } from '../redis/requests.js';
import { readOrder } from '../validation/order.js';
import { orderBody } from '../validation/schemas.js';
import type { Purchases } from '../wishlist/purchases.js';
import type { SettingsStore } from '../wishlist/settings.js';
import { deliveryAnswer } from './answers.js';
import type { Operation } from './operation.js';
import {
  admitDelivery,
  authenticBody,
  DELIVERY_ID,
  MAX_DELIVERY,
  readDeliveryId,
  SIGNATURE,
} from './webhook.js';

const NOTHING_TO_SAY = '{}';

const EXAMPLE = {
  id: 820982911946154,
  customer: { id: 115310627314723 },
  currency: 'EUR',
  note_attributes: [{ name: 'wishlist_session_id', value: 's-1' }],
  line_items: [{ product_id: 1001, variant_id: 2002, quantity: 1, price: '79.90' }],
};

/**
 * @param deliveries remembers what was delivered
 * @param shopifySecrets any of which may have signed a delivery; none where the shop is not Shopify's
 */
export function purchaseOperation(
  visitors: Visitors,
  emails: Emails,
  settings: SettingsStore,
  purchases: Purchases,
  deliveries: RequestStore,
  shopifySecrets: readonly string[],
): Operation {
  return {
    method: 'post',
    doc: {
      id: 'takePurchase',
      tag: 'Webhooks',
      summary:
        "Takes Shopify's `orders/paid`: records what was bought; with the setting on, it leaves the wishlist",
      body: { schema: orderBody, example: EXAMPLE },
      answer: deliveryAnswer,
    },
    path: '/webhook/purchase',
    subject: 'delivery',
    maxBody: MAX_DELIVERY,
    wantsBytes: true,
    headers: [SIGNATURE, DELIVERY_ID],
    admit: (request) => admitDelivery(request, shopifySecrets),
    async handle(request) {
      const order = readOrder(authenticBody(request, shopifySecrets));
      const deliveryId = readDeliveryId(request, DELIVERY_ID);
      const { identity } = order;
      if (identity === null) return NOTHING_TO_SAY;
      const { autoRemoveAfterPurchase } = await settings.read();
      const act = () =>
        deliveries.run({ scope: 'order', key: order.orderId, fingerprint: '' }, '', async (operation) => {
          const { known, profileId } = await visitors.find(identity, false);
          if (identity.email !== null) await emails.note(profileId, namesIn(identity), identity.email);
          await purchases.record(profileId, identity, order, operation);
          if (known && autoRemoveAfterPurchase) await purchases.remove(profileId, identity, order, operation);
          return NOTHING_TO_SAY;
        });
      if (deliveryId === '') return act();
      return deliveries.run({ scope: 'delivery', key: deliveryId, fingerprint: '' }, '', act);
    },
  };
}
