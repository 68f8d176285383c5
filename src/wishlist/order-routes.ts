// POST /webhook/purchase: records an order's current state and, if the setting is on, removes bought products.
// Webhooks may repeat and arrive out of sequence; ClickHouse keeps a row's newest version. The wishlist changes once;
// if it fails, the next webhook completes it. An order links no profiles, because an e-mail address at the checkout
// isn't a login.

import { encodeOrderLine } from '../events/row.js';
import { OTHER_SHOP, purchaseAnswer } from '../http/answer-schemas.js';
import type { LeftOut } from '../http/left-out.js';
import type { Operation } from '../http/operation.js';
import { TOPIC, type WebhookGate } from '../http/webhook.js';
import type { Identity } from '../identity-rules.js';
import type { Profiles } from '../profiles/profiles.js';
import { type FoundProfile, separately, type Visitors } from '../profiles/visitors.js';
import { orderBody } from '../validation/order-schema.js';
import type { VisitCounter } from '../visits/counter.js';
import type { OrderNote, OrderNotes } from './order-notes.js';
import { type Order, type ReadOrder, readOrder } from './order-webhook.js';
import type { Purchases, Removal } from './purchases.js';
import type { SettingsStore } from './settings.js';

/** The topic is empty if a shop's own server sends the order. */
const TOPICS = new Set(['', 'orders/paid', 'orders/create', 'orders/updated', 'orders/cancelled']);
const PAID = 'orders/paid';
/** Maximum bytes of a body; 500 lines take 1.2 MB. */
const MAX_ORDER = 4 * 1024 * 1024;
/** Maximum of lines recorded concurrently, which leaves capacity to other requests. */
const PAGE_SIZE = 1_000;
const MAX_ISSUES = 50;

const EXAMPLE = {
  id: 820982911946154,
  updated_at: '2026-11-18T12:06:40+01:00',
  processed_at: '2026-11-18T12:06:38+01:00',
  financial_status: 'paid',
  customer: { id: 115310627314723 },
  currency: 'EUR',
  note_attributes: [{ name: 'wishlist_session_id', value: 's-1' }],
  line_items: [{ id: 466157049, product_id: 1001, variant_id: 2002, quantity: 1, price: '79.90' }],
};

interface Parts {
  readonly visitors: Visitors;
  readonly counter: VisitCounter;
  readonly profiles: Profiles;
  readonly settings: SettingsStore;
  readonly purchases: Purchases;
  readonly notes: OrderNotes;
  /** Appends a row. @throws ServiceError `overloaded` */
  readonly append: (profileId: string, line: string) => Promise<void>;
  /** @returns milliseconds; 0 if there was none */
  readonly lastErasure: (profileId: string) => Promise<number>;
  /** Of an order that names none; '' if it is not set. */
  readonly shopCurrency: string;
  readonly onLeftOut: (reason: LeftOut, topic: string) => void;
  readonly onFaults: (paths: readonly string[]) => void;
}

interface Named extends FoundProfile {
  readonly who: Identity;
}

export function purchaseOperation(parts: Parts, webhooks: WebhookGate): Operation {
  const { visitors, counter, profiles, settings, purchases, notes, lastErasure } = parts;
  const { append, shopCurrency, onLeftOut, onFaults } = parts;

  async function take(order: Order, identity: Identity, now: number): Promise<LeftOut | undefined> {
    const all = await Promise.all(
      separately(identity).map(async (who) => ({ who, ...(await visitors.find(who)) })),
    );
    const [first, session] = [all[0] as Named, all.find(({ who }) => who.sessionId !== null)];
    const isSessions = session !== undefined && mayBuyFor(session, first);
    const note = await notes.note(order.orderId, now, isSessions && session.exists ? 'session' : 'customer');
    // The order itself makes its session known, so the first delivery decides.
    const buyer = isSessions && note.buyer === 'session' ? session : first;
    const erasures = await Promise.all(all.map(({ own }) => lastErasure(own)));
    // Rows up to an erasure's time are erased, so an order of that millisecond is, too.
    const present = all.filter(({ isRetired }, i) => !isRetired && (erasures[i] as number) < note.firstAt);
    if (!present.includes(first) || !present.includes(buyer)) return 'erased';
    if (order.state === 'invalid' || order.state === 'unpaid') return order.state;
    const named: Named[] = [];
    for (const found of present) if (await know(found.who, found === first, note)) named.push(found);
    if (!named.includes(first) || !named.includes(buyer)) return 'erased';
    const known = { ...identity, sessionId: named.includes(session as Named) ? identity.sessionId : null };
    const dated = { ...order, occurredAt: order.occurredAt || note.firstAt };
    await record(dated, known, buyer.profileId, now);
    const isBought = order.state === 'bought';
    if (isBought && !order.isTest && !note.isDone && (await settings.read()).autoRemoveAfterPurchase)
      for (const { who, exists } of named) if (exists) await clear(who, buyer.profileId, dated, known);
    if (!isBought) return order.state as LeftOut;
    if (!order.isTest) await notes.markDone(order.orderId, note);
    return order.lines.some(({ quantity }) => quantity > 0) ? undefined : 'nothing_left';
  }

  /** Only the first id gets the address: an address opens a profile's data, and the session may be another person's. */
  function know(who: Identity, isFirst: boolean, { firstAt }: OrderNote): Promise<boolean> {
    return profiles.keepOfOrder(isFirst ? who : { ...who, email: null }, firstAt);
  }

  async function record(order: Order, identity: Identity, profileId: string, now: number): Promise<void> {
    const lines = order.lines.length > 0 ? order.lines : [undefined];
    for (let i = 0; i < lines.length; i += PAGE_SIZE)
      await Promise.all(
        lines
          .slice(i, i + PAGE_SIZE)
          .map((line) => append(profileId, encodeOrderLine(now, { profileId, identity }, order, line))),
      );
  }

  async function clear(who: Identity, buyer: string, order: Order, identity: Identity): Promise<void> {
    const { lines, orderId } = order;
    const bought = lines.filter(({ quantity }) => quantity > 0);
    const { answer } = await visitors.peek(who, (location) =>
      purchases.find(location, bought, order.occurredAt),
    );
    if (typeof answer === 'string') return;
    // Counts are reset before the removal, because after it a retry wouldn't find the items.
    for (const handle of new Set(answer.map(({ productHandle }) => productHandle)))
      await counter.enter('reset', who, false, handle);
    const change: Removal['change'] = (ask) => visitors.changeExisting(who, false, ask);
    await purchases.remove({ change, items: answer, buyer, identity, orderId });
  }

  async function outcomeOf({ order }: ReadOrder, now: number): Promise<LeftOut | undefined> {
    if (order === undefined) return 'invalid';
    if (order.identity !== null) return take(order, order.identity, now);
    return order.state === 'invalid' ? 'invalid' : 'no_visitor';
  }

  return webhooks.operation({
    doc: {
      id: 'takePurchase',
      tag: 'Webhooks',
      summary: 'Records what an order bought; with the setting on, removes it from the wishlist',
      body: { schema: orderBody, example: EXAMPLE },
      answer: purchaseAnswer,
    },
    path: '/webhook/purchase',
    maxBody: MAX_ORDER,
    leftOut: JSON.stringify({ recorded: 0, reason: OTHER_SHOP }),
    read(bytes, request) {
      const topic = request.header(TOPIC);
      const isTrusted = request.caller.kind === 'server';
      const now = Date.now();
      if (!TOPICS.has(topic)) return { now };
      const isPaid = isTrusted || topic === PAID;
      return { now, given: readOrder(bytes, { isTrusted, isPaid, now, shopCurrency }) };
    },
    async handle({ given, now }, request) {
      const issues = given?.issues ?? [];
      const reason = given === undefined ? 'topic' : await outcomeOf(given, now);
      if (reason !== undefined) onLeftOut(reason, request.header(TOPIC));
      onFaults(issues.map(({ path }) => path));
      const lines = given?.order?.lines ?? [];
      return JSON.stringify({
        recorded: reason === undefined ? lines.filter(({ quantity }) => quantity > 0).length : 0,
        reason,
        issues: issues.length > 0 ? issues.slice(0, MAX_ISSUES) : undefined,
      });
    },
  });
}

/** False if another customer is logged in on the session: the order is that of the customer whom it names. */
function mayBuyFor({ profileId, own, isRetired }: Named, customer: Named): boolean {
  return !isRetired && (profileId === own || profileId === customer.profileId);
}
