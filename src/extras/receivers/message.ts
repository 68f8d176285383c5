// Builds a delivery's body from a queued line. Lines have no personal data; it is added when the delivery is sent.

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
  readonly payload?: unknown;
}

export interface PersonalData {
  readonly email: string | null;
  readonly firstName: string | null;
  readonly lastName: string | null;
}

const LINE_OF_ORDER = 'order';
const ALERT = 'alert';

/** @returns undefined if the line isn't an event: another program may have written it */
export function parseLine(text: string): Line | undefined {
  try {
    const line = JSON.parse(text) as Line;
    const { event_id, type, profile_id } = line;
    const isEvent = [event_id, type, profile_id].every((one) => typeof one === 'string' && one !== '');
    const occurred_at = new Date(line.occurred_at).getTime();
    const payload = typeof line.payload === 'string' ? JSON.parse(line.payload) : line.payload;
    return isEvent && !Number.isNaN(occurred_at) ? { ...line, occurred_at, payload } : undefined;
  } catch {
    return undefined;
  }
}

/** @param profileId the line's profile, or its merge's target */
export function bodyOf(line: Line, profileId: string, personal: PersonalData | undefined): string {
  const timestamp = new Date(line.occurred_at).toISOString();
  const data = dataOf(line, timestamp, profileId);
  return JSON.stringify({ type: line.type, timestamp, data: { ...data, ...personal } });
}

function dataOf(line: Line, timestamp: string, profileId: string): object {
  const { customer_id: customerId = null, session_id: sessionId = null } = line;
  const payload = line.payload ?? {};
  const visitor = { profileId, customerId, sessionId };
  if (line.origin === ALERT) return { ...visitor, ...payload };
  if (line.origin === LINE_OF_ORDER) {
    const { line: _line, version: _version, ...purchase } = payload as Record<string, unknown>;
    return { ...visitor, ...purchase };
  }
  return {
    ...{ eventId: line.event_id, occurredAt: timestamp, ...visitor },
    ...{ device: line.device ?? '', locale: line.locale ?? '', payload },
  };
}

export function testBody(now = new Date()): string {
  return JSON.stringify({ type: 'test', timestamp: now.toISOString(), data: {} });
}
