// Parsed JSON or query -> typed, normalised input. What comes out of here is trusted by everything below.

import { ServiceError } from '../errors.js';
import { type Identity, normaliseId } from '../identity/rules.js';
import { type EventType, eventBody, visitBody, visitQuery } from './schemas.js';
import { compile } from './validator.js';

export interface VisitRequest {
  readonly identity: Identity;
  readonly productHandle: string;
}

export interface EventRequest {
  readonly identity: Identity;
  readonly type: EventType;
  readonly payload: Readonly<Record<string, unknown>> | undefined;
}

type RawIdentity = Partial<Record<keyof Identity, string | null>>;

const checkVisitBody = compile<{ identity: RawIdentity; productHandle: string }>(visitBody);
const checkVisitQuery = compile<RawIdentity & { productHandle: string }>(visitQuery);
const checkEvent = compile<{ identity: RawIdentity; type: EventType; payload?: Record<string, unknown> }>(
  eventBody,
);

function readIdentity(raw: RawIdentity): Identity {
  return {
    customerId: raw.customerId == null ? null : normaliseId(raw.customerId),
    sessionId: raw.sessionId == null ? null : normaliseId(raw.sessionId),
    device: raw.device ?? null,
    locale: raw.locale ?? null,
    email: raw.email ?? null,
    firstName: raw.firstName ?? null,
    lastName: raw.lastName ?? null,
  };
}

export function readVisitBody(body: unknown): VisitRequest {
  const { identity, productHandle } = checkVisitBody(body);
  return { identity: readIdentity(identity), productHandle };
}

const VISIT_PARAMETERS = Object.keys(visitQuery.properties);

/** An empty parameter is one that was not given: links are often templates with blanks left in them. */
export function readVisitQuery(query: Readonly<Record<string, string | string[] | undefined>>): VisitRequest {
  const given: Record<string, string> = {};
  for (const name of VISIT_PARAMETERS) {
    const value = query[name];
    if (Array.isArray(value)) {
      throw new ServiceError('invalid_request', undefined, [
        { path: `/${name}`, message: 'must be given once' },
      ]);
    }
    if (value) given[name] = value;
  }
  const checked = checkVisitQuery(given);
  return { identity: readIdentity(checked), productHandle: checked.productHandle };
}

export function readEvent(body: unknown): EventRequest {
  const { identity, type, payload } = checkEvent(body);
  return { identity: readIdentity(identity), type, payload };
}
