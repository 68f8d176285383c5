// Makes the operations of Shopify's webhooks, so that each checks signature, shop and topic before it reads a body:
//
//   signature ──wrong──▶ 401
//      └──▶ shop, topic ──another──▶ 200, left out: counted, logged once
//             └──▶ read ──▶ handle
//
// The signature is a base64 HMAC-SHA256 of the raw body. The secret is the app's, or the shop's if the webhook was
// created in the admin. A secret key serves, too; its owner speaks for this shop.
// https://shopify.dev/docs/apps/build/webhooks/subscribe/https

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import { ServiceError } from '../errors.js';
import { fitsBytes } from '../identity-rules.js';
import { isFields, parseExactly } from '../validation/shopify.js';
import { eachOnce } from './left-out.js';
import { type Operation, operation, type Request } from './operation.js';
import { isOtherShop } from './shop-domain.js';

const SIGNATURE = 'x-shopify-hmac-sha256';
const SHOP = 'x-shopify-shop-domain';
const SHOP_FIELDS = ['shop_domain', 'myshopify_domain'];
export const DELIVERY_ID = 'x-shopify-webhook-id';
/** The header with the topic, which isn't signed. */
export const TOPIC = 'x-shopify-topic';
/** An optional header with the event's id, which all its webhooks share. */
export const EVENT_ID = 'x-shopify-event-id';
export const MAX_DELIVERY = 1024 * 1024;
export const NOTHING_TO_SAY = '{}';
const MAX_DELIVERY_ID = 255;
const MAX_LOGGED_LENGTH = 255;
const DIGEST = /^[A-Za-z0-9+/]{43}=$/;

export const WEBHOOK_LEFT_OUT = ['shop', 'topic'] as const;
export type WebhookLeftOut = (typeof WEBHOOK_LEFT_OUT)[number];

interface Webhook<Input> extends Pick<Operation, 'doc' | 'headers' | 'maxBody' | 'path'> {
  /** The only topic that it takes; a webhook without a topic is taken. If undefined, `read` judges topics. */
  readonly topic?: string;
  /** The answer to another shop's webhook, and to one of another topic. */
  readonly leftOut: string;
  read(body: Buffer, request: Request): Input;
  handle(input: Input, request: Request): Promise<string>;
}

interface WebhookGateParts {
  /** Any of which may have signed a webhook; none if the shop isn't on Shopify. */
  readonly secrets: readonly string[];
  readonly shopDomain: string;
  readonly count: (reason: WebhookLeftOut) => void;
  readonly log: Logger;
}

export class WebhookGate {
  readonly #logShop: (shop: string) => void;
  readonly #logTopic: (topic: string) => void;

  constructor(private readonly parts: WebhookGateParts) {
    const logged = 'are left out; wishmeter_webhooks_left_out_total counts the next ones';
    this.#logShop = eachOnce((shop) =>
      parts.log.warn({ shop }, `webhooks of another shop than SHOP_DOMAIN ${logged}`),
    );
    this.#logTopic = eachOnce((topic) =>
      parts.log.warn({ topic }, `webhooks of another topic than their path's ${logged}`),
    );
  }

  operation<Input>({ topic, leftOut, read, handle, headers = [], ...row }: Webhook<Input>): Operation {
    return operation<{ readonly input: Input } | undefined>({
      ...row,
      method: 'post',
      accessGroup: 'delivery',
      wantsBytes: true,
      headers: [SIGNATURE, SHOP, TOPIC, ...headers],
      admit: (request) => this.#admit(request),
      read: (given, request) => {
        const body = this.#authentic(given as Buffer, request);
        const isLeftOut = this.#isOfOtherShop(body, request) || this.#isOfOtherTopic(topic, request);
        return isLeftOut ? undefined : { input: read(body, request) };
      },
      handle: (taken, request) => (taken === undefined ? leftOut : handle(taken.input, request)),
    });
  }

  /** Refuses before the body is read. */
  #admit(request: Request): void {
    if (request.caller.kind === 'server') return;
    const signature = request.header(SIGNATURE);
    if (signature === '') throw new ServiceError('unauthorized', UNSIGNED);
    if (this.parts.secrets.length === 0) throw new ServiceError('unauthorized', UNCHECKED);
    if (!DIGEST.test(signature)) throw wrong();
  }

  #authentic(body: Buffer, request: Request): Buffer {
    if (request.caller.kind === 'server') return body;
    if (isSigned(body, request.header(SIGNATURE), this.parts.secrets)) return body;
    throw wrong();
  }

  /** True if header or body names another shop, whatever the other one says. */
  #isOfOtherShop(body: Buffer, request: Request): boolean {
    if (request.caller.kind === 'server') return false;
    const other = [request.header(SHOP), ...shopsIn(body)].find((named) =>
      isOtherShop(named, this.parts.shopDomain),
    );
    if (other === undefined) return false;
    this.parts.count('shop');
    this.#logShop(String(other).slice(0, MAX_LOGGED_LENGTH));
    return true;
  }

  #isOfOtherTopic(expected: string | undefined, request: Request): boolean {
    const topic = request.header(TOPIC);
    if (expected === undefined || topic === '' || topic === expected) return false;
    this.parts.count('topic');
    this.#logTopic(`${topic.slice(0, MAX_LOGGED_LENGTH)} at /webhook/${expected}`);
    return true;
  }
}

function shopsIn(body: Buffer): unknown[] {
  // Orders have megabytes and no such field, so they aren't parsed twice.
  if (!SHOP_FIELDS.some((field) => body.includes(field))) return [];
  const fields = fieldsIn(body);
  return SHOP_FIELDS.map((field) => fields[field]);
}

function fieldsIn(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const parsed = parseExactly(body);
    return isFields(parsed) ? parsed : {};
  } catch (error) {
    // `read` decides what a body that isn't JSON is.
    if (error instanceof ServiceError) return {};
    throw error;
  }
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
