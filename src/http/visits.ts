// POST, GET and DELETE /product/visit.

import { CountRequest } from '../identity/counting.js';
import type { Visitors } from '../identity/visitors.js';
import { type Identity, isBlank } from '../identity-rules.js';
import type { RequestStore } from '../redis/requests.js';
import { TurnQueue } from '../turn.js';
import { readVisitBody, readVisitQuery, type VisitRequest } from '../validation/requests.js';
import { visitBody, visitQuery } from '../validation/schemas.js';
import type { VisitKind } from '../visits/visit-batch.js';
import type { Access } from './access.js';
import { countAnswer, resetAnswer, visitAnswer } from './answers.js';
import { hasKey, IDEMPOTENCY_KEY, onceUnderKey } from './idempotency.js';
import { LATER, MAX_BODY, type Operation, type Request } from './operation.js';
import { isRobot } from './robots.js';

const PATH = '/product/visit';
/** Visits that are read before the first of them is looked up: they should still be in the processor's cache then. */
const LOOKED_UP_TOGETHER = 64;
export const COUNT_QUERY = { properties: { count: { type: 'string', enum: ['true', 'false'] } } };
const EXAMPLE = { identity: { sessionId: 's-1', device: 'desktop' }, productHandle: 'red-shoe' };
const EXAMPLE_QUERY = { sessionId: 's-1', device: 'desktop', productHandle: 'red-shoe' };

/** @param onRobot told of each visit that is answered and not counted, since a robot made it */
export function visitOperations(
  access: Access,
  visitors: Visitors,
  requests: RequestStore,
  onRobot: () => void,
): Operation[] {
  const asked = new TurnQueue<VisitAsker>(
    'look-up',
    (askers) => {
      for (const asker of askers) asker.ask(visitors);
    },
    LOOKED_UP_TOGETHER,
  );
  return [
    {
      method: 'post',
      doc: {
        id: 'countVisit',
        tag: 'Visits',
        refusals: ['too_many_products'],
        summary: 'Counts a visit; with `?count=true` the answer has the count',
        query: { schema: COUNT_QUERY, example: { count: 'true' } },
        body: { schema: visitBody, example: EXAMPLE },
        answer: visitAnswer,
      },
      path: PATH,
      subject: 'visits',
      maxBody: MAX_BODY,
      takesText: true,
      headers: [IDEMPOTENCY_KEY],
      handle(request) {
        const { caller } = request;
        const wantsCount = request.query()['count'] === 'true';
        const input = readVisitBody(request.body);
        const { productHandle } = input;
        const identity = access.actFor(caller, input.identity);
        const isAnonymous = caller.kind === 'anyone' || caller.kind === 'browser';
        if (isAnonymous && isRobot(request.userAgent)) {
          onRobot();
          asked.push(new VisitAsker(request, 'read', identity, productHandle, wantsCount));
          return LATER;
        }
        if (!hasKey(request)) {
          const kind = wantsCount ? 'visitAndCount' : 'visit';
          asked.push(new VisitAsker(request, kind, identity, productHandle, wantsCount));
          return LATER;
        }
        return enterOnce('visit', request, input, identity, wantsCount);
      },
    },
    {
      method: 'get',
      doc: {
        id: 'getVisitCount',
        tag: 'Visits',
        summary: 'Reads the count',
        query: { schema: visitQuery, example: EXAMPLE_QUERY },
        answer: countAnswer,
      },
      path: PATH,
      subject: 'visits',
      maxBody: 0,
      handle(request) {
        const { caller } = request;
        const { identity: named, productHandle } = readQuery(request);
        const identity = access.actFor(caller, named);
        asked.push(new VisitAsker(request, 'read', identity, productHandle, true));
        return LATER;
      },
    },
    {
      method: 'delete',
      doc: {
        id: 'resetVisitCount',
        tag: 'Visits',
        summary: 'Resets the count; where a proxy drops the body, the query names the same',
        query: { schema: { properties: visitQuery.properties }, example: {} },
        body: { schema: visitBody, example: EXAMPLE, optional: true },
        answer: resetAnswer,
      },
      path: PATH,
      subject: 'visits',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      handle(request) {
        const { caller } = request;
        const input = readDelete(request);
        const { productHandle } = input;
        const identity = access.actFor(caller, input.identity);
        if (hasKey(request)) return enterOnce('reset', request, input, identity, false);
        asked.push(new VisitAsker(request, 'reset', identity, productHandle, false));
        return LATER;
      },
    },
  ];

  /** Of a request with a key. */
  function enterOnce(
    kind: 'visit' | 'reset',
    request: Request,
    input: VisitRequest,
    identity: Identity,
    wantsCount: boolean,
  ): Promise<string> {
    const { mayLink } = request.caller;
    const { productHandle } = input;
    const place = () => visitors.likelyProfile(identity, mayLink);
    const what = { operation: kind, input, identity };
    return onceUnderKey(requests, request, what, place, async (operation) => {
      const { profileId, count } = await visitors.enterOnce(
        kind,
        identity,
        mayLink,
        productHandle,
        operation,
      );
      return answer(profileId, productHandle, wantsCount ? count : undefined);
    });
  }
}

/** A request that asks for a count, or for one more, and is answered once that is known. */
class VisitAsker extends CountRequest {
  readonly #request: Request;
  readonly #identity: Identity;
  readonly #wantsCount: boolean;

  constructor(
    request: Request,
    kind: VisitKind,
    identity: Identity,
    productHandle: string,
    wantsCount: boolean,
  ) {
    super(kind, productHandle, identity.device);
    this.#request = request;
    this.#identity = identity;
    this.#wantsCount = wantsCount;
  }

  ask(visitors: Visitors): void {
    try {
      visitors.count(this, this.#identity, this.#request.caller.mayLink);
    } catch (error) {
      this.failed(error as Error);
    }
  }

  counted(profileId: string, count: number): void {
    this.#request.answer(answer(profileId, this.handle, this.#wantsCount ? count : undefined));
  }

  failed(error: Error): void {
    this.#request.fail(error);
  }
}

/** Some proxies drop the body of a DELETE; then the query names the same. */
function readDelete(request: Request) {
  return request.body === undefined ? readQuery(request) : readVisitBody(request.body);
}

/** Whether a parameter of a query names something; one that is there twice is refused later. */
function isGiven(value: string | string[] | undefined): boolean {
  return typeof value === 'string' ? !isBlank(value) : value !== undefined;
}

/** A storefront's customer who is logged in need not be named: the signature does. */
function readQuery(request: Request) {
  const query = request.query();
  const { customerId } = request.caller;
  if (customerId === null || isGiven(query['customerId']) || isGiven(query['sessionId']))
    return readVisitQuery(query);
  return readVisitQuery({ ...query, customerId });
}

// Profile ids have no characters that JSON escapes.
export function answer(profileId: string, productHandle: string, count?: number): string {
  const fields = `{"profileId":"${profileId}","productHandle":${JSON.stringify(productHandle)}`;
  return count === undefined ? `${fields}}` : `${fields},"count":${count}}`;
}
