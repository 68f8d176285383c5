// POST /event.

import { ServiceError } from '../errors.js';
import { profileAnswer } from '../http/answer-schemas.js';
import { hasKey, IDEMPOTENCY_KEY, once } from '../http/idempotency.js';
import { LATER, MAX_BODY, MAX_PAYLOAD, type Operation, operation, type Request } from '../http/operation.js';
import { fitsBytes } from '../identity-rules.js';
import { isPersonal, type Profiles } from '../profiles/profiles.js';
import type { Visitors } from '../profiles/visitors.js';
import type { KeyedOperation, RequestStore } from '../redis/requests.js';
import { type EventRequest as EventInput, readEvent } from '../validation/requests.js';
import { eventBody } from '../validation/schemas.js';
import { eventIdOfName } from './event-id.js';
import { type EventRecorder, EventRequest } from './recorder.js';
import { encodeEvent } from './row.js';

const EXAMPLE = {
  identity: { sessionId: 's-1', device: 'desktop' },
  type: 'add',
  payload: { productId: '1001', variantId: null, source: 'pdp' },
};

export function eventOperations(
  visitors: Visitors,
  recorder: EventRecorder,
  profiles: Profiles,
  requests: RequestStore,
): Operation[] {
  return [
    operation({
      method: 'post',
      doc: {
        id: 'recordEvent',
        tag: 'Events',
        summary: 'Records a wishlist event',
        body: { schema: eventBody, example: EXAMPLE },
        answer: profileAnswer,
      },
      path: '/event',
      accessGroup: 'wishlist',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: readEvent,
      handle(input, request) {
        const { identity } = request;
        const event = new RequestedEvent(request, input);
        if (isPersonal(identity) || hasKey(request)) return recordStepwise(event, input);
        recorder.submit(event, identity, request.caller.mayLink);
        return LATER;
      },
    }),
  ];

  function recordStepwise(event: RequestedEvent, input: EventInput): Promise<string> {
    const { request } = event;
    const { identity } = request;
    const { mayLink, kind } = request.caller;
    const location = () => visitors.likelyProfile(identity);
    return once(requests, request, { operation: 'event', input, location }, async (operation) => {
      // The event is recorded last, because the caller retries after an error.
      if (isPersonal(identity)) await profiles.keep(identity, mayLink, kind === 'server');
      const encode = (profileId: string) => event.encode(profileId, operation);
      return answer(await recorder.record(identity, mayLink, encode, operation));
    });
  }
}

class RequestedEvent extends EventRequest {
  readonly #payload: Readonly<Record<string, unknown>>;
  readonly #payloadJson: string;
  readonly type: string;

  constructor(
    readonly request: Request,
    { type, payload = {} }: EventInput,
  ) {
    super();
    this.type = type;
    this.#payload = payload;
    this.#payloadJson = JSON.stringify(payload);
    if (fitsBytes(this.#payloadJson, MAX_PAYLOAD)) return;
    throw new ServiceError('payload_too_large', `The payload is larger than ${MAX_PAYLOAD} bytes.`, [
      { in: 'body', path: '/payload', message: `must have at most ${MAX_PAYLOAD} bytes as JSON` },
    ]);
  }

  encode(profileId: string, operation?: KeyedOperation): string {
    return encodeEvent({
      type: this.type,
      origin: 'event',
      profileId,
      identity: this.request.identity,
      payload: this.#payload,
      payloadJson: this.#payloadJson,
      isFromServer: this.request.caller.kind === 'server',
      isFromBrowser: this.request.caller.kind === 'browser',
      id: operation && eventIdOfName(operation.at, operation.id),
      at: operation?.at,
    });
  }

  succeeded(): void {
    this.request.answer(answer(this.profileId));
  }

  failed(error: Error): void {
    this.request.fail(error);
  }
}

function answer(profileId: string): string {
  return `{"profileId":"${profileId}"}`;
}
