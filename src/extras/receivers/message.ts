// Builds a delivery's body from a queued line. Lines have no e-mail addresses and names, which are added when the
// delivery is sent.

export interface Line {
  readonly event_id: string;
  readonly type: string;
  /** Milliseconds since 1970. */
  readonly occurred_at: number;
  readonly profile_id: string;
  readonly origin?: string;
  readonly customer_id?: string | null;
  readonly session_id?: string | null;
  readonly device?: string;
  readonly locale?: string;
  /** Parsed by `parseLine`; a queued line has it as text. */
  readonly payload?: object;
}

const LINE_OF_ORDER = 'order';
const ALERT = 'alert';

/** @returns undefined if the line isn't an event: another program may have written it */
export function parseLine(text: string): Line | undefined {
  try {
    const line = JSON.parse(text);
    const { event_id, type, profile_id } = line;
    const isEvent = [event_id, type, profile_id].every((one) => typeof one === 'string' && one !== '');
    const occurred_at = new Date(line.occurred_at).getTime();
    const payload = typeof line.payload === 'string' ? JSON.parse(line.payload) : line.payload;
    return isEvent && !Number.isNaN(occurred_at) ? { ...line, occurred_at, payload } : undefined;
  } catch {
    return undefined;
  }
}

/** @param profileId the line's profile, or its merge's target @param personal empty, or e-mail address and names */
export function bodyOf(line: Line, profileId: string, personal: object): string {
  const timestamp = new Date(line.occurred_at).toISOString();
  const data = { ...dataOf(line, timestamp, profileId), ...personal };
  return JSON.stringify({ type: line.type, timestamp, data });
}

function dataOf(line: Line, occurredAt: string, profileId: string): object {
  const { customer_id: customerId = null, session_id: sessionId = null, payload = {} } = line;
  const visitor = { profileId, customerId, sessionId };
  if (line.origin === ALERT) return { ...visitor, ...payload };
  if (line.origin === LINE_OF_ORDER) return { ...visitor, ...payload, line: undefined, version: undefined };
  const { event_id: eventId, device = '', locale = '' } = line;
  return { eventId, occurredAt, ...visitor, device, locale, payload };
}

export function testBody(): string {
  return JSON.stringify({ type: 'test', timestamp: new Date().toISOString(), data: {} });
}
