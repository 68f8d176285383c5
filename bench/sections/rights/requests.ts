// Compliance webhooks as Shopify delivers them.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { ComplianceKind, ComplianceRequest } from '../../../src/identity/compliance.js';
import { createKeys } from '../../../src/redis/keys.js';
import { ask } from '../../proofs/http.js';
import { KEY } from '../../traffic/requests.js';

const POLL_MS = 100;

export async function redact(port: number, kind: ComplianceKind, more: object, event: string): Promise<void> {
  const shop = { shop_id: 954889, shop_domain: 'shop.myshopify.com' };
  await ask(
    port,
    'POST',
    `/webhook/${kind}`,
    { ...shop, ...more },
    {
      authorization: `Bearer ${KEY}`,
      'x-shopify-event-id': event,
    },
  );
}

/** Resolves once all requests of a kind are erased from Redis. (They stay open, since there is no ClickHouse.) */
export async function untilErased(redis: Redis, kind: ComplianceKind): Promise<void> {
  for (;;) {
    const held = Object.entries(await redis.hgetall(createKeys('wm').compliance)).filter(
      ([id]) => id !== '#',
    );
    const asked = held
      .map(([, text]) => JSON.parse(text) as ComplianceRequest)
      .filter((one) => one.kind === kind);
    if (asked.length > 0 && asked.every(({ erased }) => erased)) return;
    await sleep(POLL_MS);
  }
}
