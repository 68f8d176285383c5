// Shopify's compliance webhooks. A request is stored before it is answered, and executed afterwards.

import { hash, randomUUID } from 'node:crypto';
import { deliveryAnswer } from '../../http/answer-schemas.js';
import type { Operation } from '../../http/operation.js';
import {
  DELIVERY_ID,
  EVENT_ID,
  MAX_DELIVERY,
  NOTHING_TO_SAY,
  readDeliveryId,
  type WebhookGate,
} from '../../http/webhook.js';
import { normaliseEmail } from '../../identity-rules.js';
import type { Emails } from '../../profiles/emails.js';
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
    summary: 'Erases every visitor of the shop, once `wishmeter requests confirm` has confirmed it',
    example: SHOP,
  },
};

export function complianceOperations(
  compliance: Compliance,
  worker: ComplianceWorker,
  emails: Emails,
  webhooks: WebhookGate,
): Operation[] {
  return COMPLIANCE_KINDS.map((kind) => {
    const { id, summary, example } = DOCS[kind];
    return webhooks.operation({
      doc: {
        id,
        tag: 'Webhooks',
        summary,
        body: { schema: complianceBody, example },
        answer: deliveryAnswer,
      },
      path: `/webhook/${kind}`,
      maxBody: MAX_DELIVERY,
      headers: [EVENT_ID, DELIVERY_ID],
      topic: kind,
      leftOut: NOTHING_TO_SAY,
      read: (body) => ({ ...readCompliance(body), digest: hash('sha256', body, 'base64url') }),
      async handle({ email, digest, ...delivery }, request) {
        const deliveryId = readDeliveryId(request, EVENT_ID, DELIVERY_ID) || randomUUID();
        const normal = normaliseEmail(email);
        const asked: ComplianceRequest = {
          kind,
          at: Date.now(),
          ...delivery,
          email: normal === undefined ? null : emails.digest(normal),
        };
        // One event may have several requests, so its id alone doesn't identify a repeated webhook.
        await compliance.take(`${kind} ${deliveryId} ${digest}`, isForNobody(asked) ? undefined : asked);
        worker.poke();
        return NOTHING_TO_SAY;
      },
    });
  });
}

function isForNobody({ kind, customerId, email }: ComplianceRequest): boolean {
  return kind === 'customers/redact' && customerId === null && email === null;
}
