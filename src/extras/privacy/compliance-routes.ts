// Shopify's compliance webhooks. A request is stored before it is answered, and executed afterwards.

import { randomUUID } from 'node:crypto';
import { deliveryAnswer } from '../../http/answer-schemas.js';
import { type Operation, operation } from '../../http/operation.js';
import {
  admitDelivery,
  authenticBody,
  DELIVERY_ID,
  EVENT_ID,
  MAX_DELIVERY,
  NOTHING_TO_SAY,
  readDeliveryId,
  SIGNATURE,
} from '../../http/webhook.js';
import { type Emails, normaliseEmail } from '../../profiles/emails.js';
import {
  COMPLIANCE_KINDS,
  type Compliance,
  type ComplianceKind,
  type ComplianceRequest,
} from './compliance.js';
import { complianceBody, readCompliance } from './compliance-webhook.js';
import type { ComplianceWorker } from './compliance-worker.js';

const SHOP = { shop_id: 954889, shop_domain: 'shop.myshopify.com' };
const CUSTOMER = { id: 191167, email: 'a@shop.example', phone: '555-625-1199' };

const DOCS: Readonly<Record<ComplianceKind, { id: string; summary: string; example: object }>> = {
  'customers/data_request': {
    id: 'takeDataRequest',
    summary: 'Keeps a request of a customer for their data, for `wishmeter requests`',
    example: { ...SHOP, orders_requested: [299938], customer: CUSTOMER, data_request: { id: 9999 } },
  },
  'customers/redact': {
    id: 'takeCustomerRedaction',
    summary: 'Erases a customer, by id and e-mail address, after the answer',
    example: { ...SHOP, customer: CUSTOMER, orders_to_redact: [299938] },
  },
  'shop/redact': {
    id: 'takeShopRedaction',
    summary: 'Erases every visitor of the shop, after the answer',
    example: SHOP,
  },
};

/** @param shopifySecrets any of which may have signed a webhook; none if the shop isn't on Shopify */
export function complianceOperations(
  compliance: Compliance,
  worker: ComplianceWorker,
  emails: Emails,
  shopifySecrets: readonly string[],
): Operation[] {
  return COMPLIANCE_KINDS.map((kind) => {
    const { id, summary, example } = DOCS[kind];
    return operation({
      method: 'post',
      doc: {
        id,
        tag: 'Webhooks',
        summary,
        body: { schema: complianceBody, example },
        answer: deliveryAnswer,
      },
      path: `/webhook/${kind}`,
      accessGroup: 'delivery',
      maxBody: MAX_DELIVERY,
      wantsBytes: true,
      headers: [SIGNATURE, EVENT_ID, DELIVERY_ID],
      admit: (request) => admitDelivery(request, shopifySecrets),
      read: (body, request) => readCompliance(authenticBody(body, request, shopifySecrets)),
      async handle({ email, ...delivery }, request) {
        const deliveryId = readDeliveryId(request, EVENT_ID, DELIVERY_ID) || randomUUID();
        const normal = normaliseEmail(email);
        const asked: ComplianceRequest = {
          kind,
          at: Date.now(),
          ...delivery,
          email: normal === undefined ? null : emails.digest(normal),
        };
        await compliance.take(`${kind} ${deliveryId}`, isForNobody(asked) ? undefined : asked);
        worker.poke();
        return NOTHING_TO_SAY;
      },
    });
  });
}

function isForNobody({ kind, customerId, email }: ComplianceRequest): boolean {
  return kind === 'customers/redact' && customerId === null && email === null;
}
