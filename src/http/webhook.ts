// What all webhooks have in common: who may deliver, and the id under which a delivery repeats.

import { ServiceError } from '../errors.js';
import { fitsBytes } from '../identity-rules.js';
import type { Request } from './operation.js';
import { mayBeSignature, verifyWebhookSignature } from './webhook-signature.js';

export const SIGNATURE = 'x-shopify-hmac-sha256';
export const DELIVERY_ID = 'x-shopify-webhook-id';
/** The same for all deliveries of one event, where Shopify sends it. */
export const EVENT_ID = 'x-shopify-event-id';
const MAX_DELIVERY_ID = 255;

/** Refuses by the head alone what can't be authentic. @throws ServiceError `unauthorized` */
export function admitDelivery(request: Request, shopifySecret: string): void {
  if (request.caller.kind === 'server') return;
  const signature = request.header(SIGNATURE);
  if (signature === '') throw new ServiceError('unauthorized', UNSIGNED);
  if (shopifySecret === '') throw new ServiceError('unauthorized', UNCHECKED);
  if (!mayBeSignature(signature, shopifySecret)) throw wrong();
}

/** @throws ServiceError `unauthorized` */
export function authenticBody(request: Request, shopifySecret: string): Buffer {
  const bytes = request.bytes as Buffer;
  if (request.caller.kind === 'server') return bytes;
  if (verifyWebhookSignature(bytes, request.header(SIGNATURE), shopifySecret)) return bytes;
  throw wrong();
}

/** The first of these headers that was sent; empty where none was. @throws ServiceError `invalid_request` */
export function readDeliveryId(request: Request, ...names: readonly string[]): string {
  const name = names.find((one) => request.header(one) !== '');
  if (name === undefined) return '';
  const id = request.header(name);
  if (fitsBytes(id, MAX_DELIVERY_ID)) return id;
  const path = name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
  throw new ServiceError('invalid_request', undefined, [
    { path, message: `must have at most ${MAX_DELIVERY_ID} bytes` },
  ]);
}

const UNSIGNED = 'A credential is required: a secret key or a webhook signature (X-Shopify-Hmac-Sha256).';
const UNCHECKED = "The webhook signature can't be checked: SHOPIFY_SECRET is not set.";
const wrong = () =>
  new ServiceError('unauthorized', 'The webhook signature is not the one of this body under SHOPIFY_SECRET.');
