// A receiver: URL, delivery types, and the secrets that sign deliveries.

import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { boolean, text } from '../../field-schemas.js';
import { issueFinder } from '../../validation/validator.js';

/** `test` is sent only on request. */
export const DELIVERY_TYPES = [
  'add',
  'remove',
  'moveToCart',
  'share',
  'autoRemoveAfterPurchase',
  'purchase',
  'priceDrop',
  'backInStock',
] as const;
export const EVERY_TYPE = '*';
export type ReceiverType = (typeof DELIVERY_TYPES)[number] | typeof EVERY_TYPE;

/** Secrets are stored in plain text, since they sign deliveries. */
export interface Receiver {
  readonly id: string;
  readonly url: string;
  readonly types: readonly ReceiverType[];
  readonly includePersonal: boolean;
  readonly isEnabled: boolean;
  /** Set by `deliver` when it disables the receiver. */
  readonly disabledWhy?: string | undefined;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly secret: string;
  /** Earlier secrets, latest first. Each also signs until `until`, in milliseconds since 1970. */
  readonly previous: readonly { readonly secret: string; readonly until: number }[];
}

/** Only what this version reads. */
const findIssues = issueFinder({
  type: 'object',
  required: ['id', 'url', 'types', 'includePersonal', 'isEnabled', 'createdAt', 'secret', 'previous'],
  properties: {
    id: text,
    url: text,
    createdAt: text,
    secret: text,
    includePersonal: boolean,
    isEnabled: boolean,
    types: { type: 'array', items: text },
    previous: {
      type: 'array',
      items: {
        type: 'object',
        required: ['secret', 'until'],
        properties: { secret: text, until: { type: 'number' } },
      },
    },
  },
});

/** @returns undefined if this version can't read it */
export function parseReceiver(kept: string): Receiver | undefined {
  try {
    const receiver: Receiver = JSON.parse(kept);
    return findIssues(receiver).length === 0 && URL.canParse(receiver.url) ? receiver : undefined;
  } catch {
    return undefined;
  }
}

export type NewReceiver = Pick<Receiver, 'url' | 'types' | 'includePersonal'>;

type Changed = Pick<Receiver, 'url' | 'types' | 'isEnabled' | 'disabledWhy'> & {
  readonly rotateSecret: boolean;
};
export type ReceiverChange = { readonly [Name in keyof Changed]?: Changed[Name] | undefined };

const SECRET_PREFIX = 'whsec_';
const SECRET_BYTES = 32;
const ROTATION_MS = 24 * 60 * 60_000;
/** Enough for a caller that repeats a rotation whose answer was lost, and few enough for a small header. */
const MAX_PREVIOUS = 4;

export function createReceiver(asked: NewReceiver, id: string = randomUUID()): Receiver {
  const { url, types, includePersonal } = asked;
  const createdAt = new Date().toISOString();
  const secret = newSecret();
  return { id, url, types, includePersonal, isEnabled: true, createdAt, secret, previous: [] };
}

export function changeReceiver(receiver: Receiver, change: ReceiverChange, now = Date.now()): Receiver {
  const { url = receiver.url, types = receiver.types, isEnabled = receiver.isEnabled } = change;
  const disabledWhy = isEnabled ? undefined : (change.disabledWhy ?? receiver.disabledWhy);
  const changed = { ...receiver, url, types, isEnabled, disabledWhy };
  if (change.rotateSecret !== true) return changed;
  const before = [{ secret: receiver.secret, until: now + ROTATION_MS }, ...receiver.previous];
  const previous = before.filter(({ until }) => now < until).slice(0, MAX_PREVIOUS);
  return { ...changed, secret: newSecret(), previous };
}

export function takesType({ types }: Pick<Receiver, 'types'>, type: string): boolean {
  const taken: readonly string[] = types.includes(EVERY_TYPE) ? DELIVERY_TYPES : types;
  return taken.includes(type);
}

function newSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/** See Standard Webhooks 1.0.0, "Signature scheme". @param id stays the same across attempts */
export function signedHeaders(
  { secret, previous }: Pick<Receiver, 'secret' | 'previous'>,
  id: string,
  body: string,
  now = Date.now(),
): Readonly<Record<string, string>> {
  const seconds = Math.floor(now / 1_000);
  const secrets = [secret, ...previous.filter(({ until }) => now < until).map((one) => one.secret)];
  const signatures = secrets.map((one) => `v1,${sign(one, `${id}.${seconds}.${body}`)}`);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': signatures.join(' '),
  };
}

function sign(secret: string, text: string): string {
  const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
  return createHmac('sha256', key).update(text).digest('base64');
}
