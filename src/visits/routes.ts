// POST, GET and DELETE /product/visit.

import { countAnswer, resetAnswer, visitAnswer } from '../http/answer-schemas.js';
import { hasKey, IDEMPOTENCY_KEY, onceUnderKey } from '../http/idempotency.js';
import { LATER, MAX_BODY, type Operation, operation, type Request } from '../http/operation.js';
import { isRobot } from '../http/robots.js';
import type { Visitors } from '../profiles/visitors.js';
import type { RequestStore } from '../redis/requests.js';
import { TickQueue } from '../tick.js';
import { readFlag, readVisitBody, readVisitQuery, type VisitRequest } from '../validation/requests.js';
import { visitBody, visitQuery } from '../validation/schemas.js';
import { CountRequest, type VisitCounter } from './counter.js';
import type { VisitKind } from './visit-batch.js';

const PATH = '/product/visit';
/** Visits per look-up, few enough to stay in the processor's cache. */
const LOOKED_UP_TOGETHER = 64;
export const COUNT_QUERY = { properties: { count: { type: 'string', enum: ['true', 'false'] } } };
const EXAMPLE = { identity: { sessionId: 's-1', device: 'desktop' }, productHandle: 'red-shoe' };
const EXAMPLE_QUERY = { sessionId: 's-1', device: 'desktop', productHandle: 'red-shoe' };

export function visitOperations(
  visitors: Visitors,
  counter: VisitCounter,
  requests: RequestStore,
  onRobot: () => void,
): Operation[] {
  const lookUps = new TickQueue<RequestedCount>(
    'look-up',
    (counts) => {
      for (const count of counts) count.start(counter);
    },
    LOOKED_UP_TOGETHER,
  );
  // Compiles their schemas: the first visit would wait 30 ms.
  readVisitBody(EXAMPLE);
  readVisitQuery(new Map(Object.entries(EXAMPLE_QUERY)), null);
  return [
    operation({
      method: 'post',
      doc: {
        id: 'countVisit',
        tag: 'Visits',
        refusals: ['too_many_products'],
        summary: 'Counts a visit; `?count=true` answers the count',
        query: { schema: COUNT_QUERY, example: { count: 'true' } },
        body: { schema: visitBody, example: EXAMPLE },
        answer: visitAnswer,
      },
      path: PATH,
      accessGroup: 'visits',
      maxBody: MAX_BODY,
      takesText: true,
      headers: [IDEMPOTENCY_KEY],
      read: readVisitBody,
      handle(input, request) {
        const { kind: callerKind } = request.caller;
        const wantsCount = readFlag(request.query(), 'count');
        const { productHandle } = input;
        const isAnonymous = callerKind === 'anyone' || callerKind === 'browser';
        if (isAnonymous && isRobot(request.head.userAgent)) {
          onRobot();
          lookUps.push(new RequestedCount(request, 'read', productHandle, wantsCount));
          return LATER;
        }
        if (!hasKey(request)) {
          const kind = wantsCount ? 'count' : 'visit';
          lookUps.push(new RequestedCount(request, kind, productHandle, wantsCount));
          return LATER;
        }
        return enterOnce('visit', request, input, wantsCount);
      },
    }),
    operation({
      method: 'get',
      doc: {
        id: 'getVisitCount',
        tag: 'Visits',
        summary: 'Reads the count',
        query: { schema: visitQuery, example: EXAMPLE_QUERY },
        answer: countAnswer,
      },
      path: PATH,
      accessGroup: 'visits',
      maxBody: 0,
      read: (_, request) => readQuery(request),
      handle({ productHandle }, request) {
        lookUps.push(new RequestedCount(request, 'read', productHandle, true));
        return LATER;
      },
    }),
    operation({
      method: 'delete',
      doc: {
        id: 'resetVisitCount',
        tag: 'Visits',
        summary: 'Resets the count, by body or query',
        query: { schema: { properties: visitQuery.properties }, example: {} },
        body: { schema: visitBody, example: EXAMPLE, optional: true },
        answer: resetAnswer,
      },
      path: PATH,
      accessGroup: 'visits',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: (body, request) => (body === undefined ? readQuery(request) : readVisitBody(body)),
      handle(input, request) {
        if (hasKey(request)) return enterOnce('reset', request, input, false);
        lookUps.push(new RequestedCount(request, 'reset', input.productHandle, false));
        return LATER;
      },
    }),
  ];

  function enterOnce(
    kind: 'visit' | 'reset',
    request: Request,
    input: VisitRequest,
    wantsCount: boolean,
  ): Promise<string> {
    const { identity } = request;
    const { mayLink } = request.caller;
    const { productHandle } = input;
    const location = () => visitors.likelyProfile(identity);
    // A visit with its count is another operation, because its stored answer differs.
    const what = { operation: wantsCount ? `${kind} with count` : kind, input, location };
    return onceUnderKey(requests, request, what, async (operation) => {
      const { profileId, count } = await counter.enterOnce(
        identity,
        mayLink,
        { kind, handle: productHandle },
        operation,
      );
      return answer(profileId, productHandle, wantsCount ? count : undefined);
    });
  }
}

class RequestedCount extends CountRequest {
  readonly #request: Request;
  readonly #wantsCount: boolean;

  constructor(request: Request, kind: VisitKind, productHandle: string, wantsCount: boolean) {
    super(kind, productHandle, request.identity.device);
    this.#request = request;
    this.#wantsCount = wantsCount;
  }

  start(counter: VisitCounter): void {
    const { identity, caller } = this.#request;
    try {
      counter.count(this, identity, caller.mayLink);
    } catch (error) {
      this.failed(error as Error);
    }
  }

  succeeded(count: number | undefined): void {
    this.#request.answer(answer(this.profileId, this.handle, this.#wantsCount ? count : undefined));
  }

  failed(error: Error): void {
    this.#request.fail(error);
  }
}

/** A storefront's signature may name the customer. */
function readQuery(request: Request): VisitRequest {
  return readVisitQuery(request.query(), request.caller.customerId);
}

// Profile ids have no characters that JSON escapes.
export function answer(profileId: string, productHandle: string, count?: number): string {
  const fields = `{"profileId":"${profileId}","productHandle":${JSON.stringify(productHandle)}`;
  return count === undefined ? `${fields}}` : `${fields},"count":${count}}`;
}
