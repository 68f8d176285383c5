// Shopify's webhook signature: base64 HMAC-SHA256, under the app's secret, of the raw body.
// https://shopify.dev/docs/apps/build/webhooks/subscribe/https

import { createHmac, timingSafeEqual } from 'node:crypto';

/** 32 bytes in base64. */
const DIGEST = /^[A-Za-z0-9+/]{43}=$/;

/** Whether there is a body for which the signature could be right. @param secret as below */
export function mayBeSignature(signature: string, secret: string): boolean {
  return secret !== '' && DIGEST.test(signature);
}

/** @param secret the app's; with an empty one nothing is valid */
export function verifyWebhookSignature(body: Buffer, signature: string, secret: string): boolean {
  if (secret === '') return false;
  const expected = Buffer.from(createHmac('sha256', secret).update(body).digest('base64'));
  const given = Buffer.from(signature);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
