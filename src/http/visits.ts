// POST, GET and DELETE /product/visit.

import type { Asker } from '../identity/counting.js';
import type { Visitors } from '../identity/visitors.js';
import { type Identity, isBlank } from '../identity-rules.js';
import type { Operation as RepeatableOperation, RequestStore } from '../redis/requests.js';
import { TurnQueue } from '../turn.js';
import { readVisitBody, readVisitQuery } from '../validation/requests.js';
import { visitBody, visitQuery } from '../validation/schemas.js';
import type { VisitKind } from '../visits/visit-batch.js';
import type { Access } from './access.js';
import { countAnswer, resetAnswer, visitAnswer } from './answers.js';
import { hasKey, IDEMPOTENCY_KEY, once } from './idempotency.js';
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
        const { mayLink } = caller;
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
        const what = { operation: 'visit', input, identity };
        const place = () => visitors.likelyProfile(identity, mayLink);
        return once(requests, request, what, place, async (operation) => {
          const settled = await visitors.enterOnce(
            'visit',
            identity,
            mayLink,
            productHandle,
            operation as RepeatableOperation,
          );
          const { profileId, count } = settled;
          return answer(profileId, productHandle, wantsCount ? count : undefined);
        });
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
        if (hasKey(request)) {
          const { mayLink } = caller;
          const what = { operation: 'reset', input, identity };
          const place = () => visitors.likelyProfile(identity, mayLink);
          return once(requests, request, what, place, async (operation) => {
            const { profileId } = await visitors.enterOnce(
              'reset',
              identity,
              mayLink,
              productHandle,
              operation as RepeatableOperation,
            );
            return answer(profileId, productHandle);
          });
        }
        asked.push(new VisitAsker(request, 'reset', identity, productHandle, false));
        return LATER;
      },
    },
  ];
}

/** A request that asks for a count, or for one more, and is answered once that is known. */
class VisitAsker implements Asker {
  readonly #request: Request;
  readonly #kind: VisitKind;
  readonly #identity: Identity;
  readonly #productHandle: string;
  readonly #wantsCount: boolean;

  constructor(
    request: Request,
    kind: VisitKind,
    identity: Identity,
    productHandle: string,
    wantsCount: boolean,
  ) {
    this.#request = request;
    this.#kind = kind;
    this.#identity = identity;
    this.#productHandle = productHandle;
    this.#wantsCount = wantsCount;
  }

  ask(visitors: Visitors): void {
    try {
      visitors.count(this.#kind, this.#identity, this.#request.caller.mayLink, this.#productHandle, this);
    } catch (error) {
      this.failed(error as Error);
    }
  }

  counted(profileId: string, count: number): void {
    this.#request.answer(answer(profileId, this.#productHandle, this.#wantsCount ? count : undefined));
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
