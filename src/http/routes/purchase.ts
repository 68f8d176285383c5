// POST /webhook/purchase: an order, from Shopify or from a shop's own server. Each line is recorded for analysts, and with
// the setting on, what was bought leaves the wishlist.
//
// An order names a customer, a session, or both; each becomes known by it, and the two stay as they are: another person's e-mail
// address at the checkout is no login.
//
// Deliveries repeat, under the same id or under another one for the same order. Both are recorded before the order is
// acted on, and it is acted on under the record of the order: what failed half-way is completed by any repeat, a repeat
// of what is done does nothing. These two records name no visitor, so that they outlive an erasure. What a removal has to
// remember of profiles has a record of its own. An order that names no visitor leaves no record.

import type { Logger } from 'pino';
import type { Profiles } from '../../identity/profiles.js';
import type { Visitors } from '../../identity/visitors.js';
import type { Identity } from '../../identity-rules.js';
import type { RequestStore } from '../../redis/requests.js';
import { type OrderState, readOrder } from '../../validation/order.js';
import { orderBody } from '../../validation/schemas.js';
import { type Purchase, type Purchases, rowsOf } from '../../wishlist/purchases.js';
import type { SettingsStore } from '../../wishlist/settings.js';
import { deliveryAnswer } from '../answer-schemas.js';
import { type Operation, operation } from '../operation.js';
import {
  admitDelivery,
  authenticBody,
  DELIVERY_ID,
  MAX_DELIVERY,
  NOTHING_TO_SAY,
  readDeliveryId,
  SIGNATURE,
  TOPIC,
} from './webhook.js';

/** Of webhooks that have a paid order; without a topic it is a shop's own server. */
const TOPICS = new Set(['', 'orders/paid', 'orders/create']);

/** Why an order is left out. */
export type LeftOut = OrderState | 'topic';
/** Lines that are recorded at once, so that no order takes all the places of other requests. */
const RECORDED_AT_ONCE = 1_000;

const EXAMPLE = {
  id: 820982911946154,
  customer: { id: 115310627314723 },
  currency: 'EUR',
  note_attributes: [{ name: 'wishlist_session_id', value: 's-1' }],
  line_items: [{ product_id: 1001, variant_id: 2002, quantity: 1, price: '79.90' }],
};

/**
 * @param deliveries remembers what was delivered
 * @param onLeftOut told why nothing is done, and the topic
 * @param shopifySecrets any of which may have signed a delivery; none where the shop is not Shopify's
 */
export function purchaseOperation(
  visitors: Visitors,
  profiles: Profiles,
  settings: SettingsStore,
  purchases: Purchases,
  deliveries: RequestStore,
  shopifySecrets: readonly string[],
  onLeftOut: (reason: LeftOut, topic: string) => void,
): Operation {
  /** @param at when the order was delivered first, milliseconds since 1970 */
  async function take(order: Purchase, identity: Identity, at: number): Promise<void> {
    const named = await Promise.all(
      separately(identity).map(async (who) => ({ who, ...(await visitors.find(who, false)) })),
    );
    const [first] = named as [(typeof named)[number]];
    const buyer = named.find(({ who, known }) => known && who.sessionId !== null) ?? first;
    const rows = rowsOf(identity, order, at);
    for (let i = 0; i < rows.length; i += RECORDED_AT_ONCE)
      await Promise.all(
        rows.slice(i, i + RECORDED_AT_ONCE).map((encode) => visitors.record(buyer.who, false, encode)),
      );
    if ((await settings.read()).autoRemoveAfterPurchase)
      for (const { who, known } of named) {
        if (!known) continue;
        const removal = await deliveries.part(
          `removal ${who.customerId === null ? 's' : 'c'}`,
          order.orderId,
        );
        await purchases.remove(
          (ask) => visitors.changeKnown(who, false, ask),
          buyer.profileId,
          identity,
          order,
          removal,
        );
      }
    // Last: a retry finds the same buyer.
    for (const { who } of named) await visitors.resolve(who, false);
    // An address leads to all that is kept of its visitor, and a session may be another's than the customer's: not there.
    await profiles.keep(first.who, false, true);
  }

  return operation({
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
    accessGroup: 'delivery',
    maxBody: MAX_DELIVERY,
    wantsBytes: true,
    headers: [SIGNATURE, DELIVERY_ID, TOPIC],
    admit: (request) => admitDelivery(request, shopifySecrets),
    read(body, request) {
      const bytes = authenticBody(body, request, shopifySecrets);
      return { order: TOPICS.has(request.header(TOPIC)) ? readOrder(bytes) : ('topic' as const) };
    },
    async handle({ order }, request) {
      if (typeof order === 'string') {
        onLeftOut(order, request.header(TOPIC));
        return NOTHING_TO_SAY;
      }
      const deliveryId = readDeliveryId(request, DELIVERY_ID);
      const { identity } = order;
      if (identity === null) return NOTHING_TO_SAY;
      const act = () =>
        deliveries.run({ scope: 'order', key: order.orderId, fingerprint: '' }, '', async ({ at }) => {
          await take(order, identity, at);
          return NOTHING_TO_SAY;
        });
      if (deliveryId === '') return act();
      return deliveries.run({ scope: 'delivery', key: deliveryId, fingerprint: '' }, '', act);
    },
  });
}

/** Topics that are logged; any caller that has seen one signed body may send it with others. */
const MAX_TOPICS = 100;

/** What is told of webhooks that are left out: each is counted, and each topic that is none of those wanted is logged once. */
export function leftOut(
  count: (reason: LeftOut) => void,
  log: Logger,
): (reason: LeftOut, topic: string) => void {
  const logged = new Set<string>();
  return (reason, topic) => {
    count(reason);
    if (reason !== 'topic' || logged.has(topic) || logged.size === MAX_TOPICS) return;
    logged.add(topic);
    log.warn({ topic }, 'webhooks of this topic are left out: they are no paid orders');
  };
}

/** An identity for each of its ids, the customer's first. */
function separately(identity: Identity): Identity[] {
  return [
    { ...identity, sessionId: null },
    { ...identity, customerId: null },
  ].filter(({ customerId, sessionId }) => customerId !== null || sessionId !== null);
}
