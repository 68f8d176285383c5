// Authenticates webhooks by a base64 HMAC-SHA256 of the raw body. The secret is the app's, or the shop's if the webhook
// was created in the admin. https://shopify.dev/docs/apps/build/webhooks/subscribe/https

import { createHmac, timingSafeEqual } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { fitsBytes } from '../identity-rules.js';
import type { Request } from './operation.js';

export const SIGNATURE = 'x-shopify-hmac-sha256';
export const DELIVERY_ID = 'x-shopify-webhook-id';
/** The header with the topic, which isn't signed. */
export const TOPIC = 'x-shopify-topic';
/** An optional header with the event's id, which all its webhooks share. */
export const EVENT_ID = 'x-shopify-event-id';
export const MAX_DELIVERY = 1024 * 1024;
export const NOTHING_TO_SAY = '{}';
const MAX_DELIVERY_ID = 255;
const DIGEST = /^[A-Za-z0-9+/]{43}=$/;

export function admitDelivery(request: Request, shopifySecrets: readonly string[]): void {
  if (request.caller.kind === 'server') return;
  const signature = request.header(SIGNATURE);
  if (signature === '') throw new ServiceError('unauthorized', UNSIGNED);
  if (shopifySecrets.length === 0) throw new ServiceError('unauthorized', UNCHECKED);
  if (!DIGEST.test(signature)) throw wrong();
}

export function authenticBody(body: unknown, request: Request, shopifySecrets: readonly string[]): Buffer {
  const bytes = body as Buffer;
  if (request.caller.kind === 'server') return bytes;
  if (isSigned(bytes, request.header(SIGNATURE), shopifySecrets)) return bytes;
  throw wrong();
}

function isSigned(body: Buffer, signature: string, secrets: readonly string[]): boolean {
  const given = Buffer.from(signature);
  const matches = secrets.filter((secret) => {
    const expected = Buffer.from(createHmac('sha256', secret).update(body).digest('base64'));
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  return matches.length > 0;
}

export function readDeliveryId(request: Request, ...names: readonly string[]): string {
  const name = names.find((one) => request.header(one) !== '');
  if (name === undefined) return '';
  const id = request.header(name);
  if (fitsBytes(id, MAX_DELIVERY_ID)) return id;
  const path = name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
  throw new ServiceError('invalid_request', undefined, [
    { in: 'header', path, message: `must have at most ${MAX_DELIVERY_ID} bytes` },
  ]);
}

const UNSIGNED = 'A credential is required: a secret key or a webhook signature (X-Shopify-Hmac-Sha256).';
const UNCHECKED = "The webhook signature can't be checked: SHOPIFY_SECRET is not set.";
const wrong = () =>
  new ServiceError('unauthorized', 'The webhook signature is not the one of this body under SHOPIFY_SECRET.');
