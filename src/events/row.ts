// One event -> the JSONEachRow line that ClickHouse reads. Encoded once, here; nothing downstream parses it.
// Columns that are empty are left out of the line: the table's defaults fill them, and Redis holds less.

import { type Identity, normaliseId } from '../identity/rules.js';
import { newEventId } from './event-id.js';

/** Which operation made an event. */
export type Origin = 'event' | 'item' | 'share' | 'purchase';

export interface NewEvent {
  readonly type: string;
  readonly origin: Origin;
  readonly profileId: string;
  readonly identity: Identity;
  readonly payload: Readonly<Record<string, unknown>>;
  /** The payload as JSON, where somebody has made it already. */
  readonly payloadJson?: string | undefined;
  /** UUID v7 and time (milliseconds since 1970), where the event has them already: it may be recorded again. */
  readonly id?: string | undefined;
  readonly at?: number | undefined;
}

const MAX_UINT32 = 0xffff_ffff;
/** What Decimal(18, 2) takes without rounding. */
const DECIMAL = /^-?\d{1,16}(\.\d{1,2})?$/;

// Columns have no control characters, which a terminal that shows them would obey; the payload has them as JSON's
// escapes. JSON.stringify escapes C0 only: DEL and C1, of which CSI is one, are for us.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/g;
const UNESCAPED_CONTROLS = /[\u007f-\u009f]/g;

function withoutControls(text: string): string {
  return text.replace(CONTROLS, '');
}

function escapeControls(json: string): string {
  return json.replace(UNESCAPED_CONTROLS, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);
}

// A lone surrogate has no UTF-8, and ClickHouse refuses a row for it: in a column it becomes U+FFFD. The payload
// keeps it, as the escape that it was.
function text(value: unknown): string {
  return typeof value === 'string' ? withoutControls(value.toWellFormed()) : '';
}

function id(value: unknown): string {
  return Number.isSafeInteger(value) ? String(value) : normaliseId(text(value));
}

function field(name: string, value: string | null): string {
  return value ? `,"${name}":${JSON.stringify(value)}` : '';
}

function decimal(name: string, value: unknown): string {
  return typeof value === 'string' && DECIMAL.test(value) ? `,"${name}":"${value}"` : '';
}

function uint32(name: string, value: unknown): string {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_UINT32
    ? `,"${name}":${value}`
    : '';
}

/** The id in an event's line. */
export function eventIdOf(line: string): string {
  return line.slice(13, 49);
}

/** A line that something else goes on with: what an event has beside its payload. */
export function beginEvent({
  type,
  origin,
  profileId,
  identity,
  id: eventId,
  at,
}: Omit<NewEvent, 'payload' | 'payloadJson'> & { readonly id: string; readonly at: number }): string {
  return (
    `{"event_id":"${eventId}","type":${JSON.stringify(type)},"occurred_at":${at},` +
    `"profile_id":"${profileId}","origin":"${origin}"` +
    field('customer_id', identity.customerId) +
    field('session_id', identity.sessionId) +
    field('device', text(identity.device)) +
    field('locale', text(identity.locale))
  );
}

/**
 * The line, ended by a newline. Documented payload fields of an unexpected type leave their column empty;
 * the payload itself is always stored whole.
 */
export function encodeEvent(event: NewEvent): string {
  const { payload, at = Date.now() } = event;
  const payloadJson = escapeControls(event.payloadJson ?? JSON.stringify(payload));
  const { type, origin, profileId, identity, id: eventId = newEventId(at) } = event;
  return (
    beginEvent({ type, origin, profileId, identity, id: eventId, at }) +
    field('product_id', id(payload['productId'])) +
    field('variant_id', id(payload['variantId'])) +
    field('product_handle', text(payload['productHandle'])) +
    field('source', text(payload['source'])) +
    field('channel', text(payload['channel'])) +
    field('share_code', text(payload['shareCode'])) +
    uint32('quantity', payload['quantity']) +
    decimal('price', payload['price']) +
    decimal('compare_at', payload['compareAt']) +
    `,"payload":${JSON.stringify(payloadJson)}}\n`
  );
}

/** A merge of two profiles, as a row that is no event: `origin` tells the tables apart in ClickHouse. */
export function encodeMerge(id: string, at: number, from: string, heir: string): string {
  return (
    `{"event_id":"${id}","type":"profileMerge","occurred_at":${at},"profile_id":"${from}",` +
    `"origin":"merge","payload":${JSON.stringify(JSON.stringify({ into: heir }))}}\n`
  );
}
