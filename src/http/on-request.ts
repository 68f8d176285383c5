// What a request of one operation passes before its body is read: hooks that are called once each, in this order, and
// refuse by a ServiceError. What a request weighs by its body (`limitBody`) is counted once the body is there.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { ServiceError } from '../errors.js';
import { type Caller, isGuarded } from './access.js';
import { callerAddress, isLoopback } from './address.js';
import type { Exchange, ExchangeOptions } from './exchange.js';
import type { Turn } from './load-shedding.js';
import type { Operation } from './operation.js';

/** The hooks of one operation. @param turn that sheds load */
export function onRequest(operation: Operation, options: ExchangeOptions, turn: Turn) {
  const { access, limits, trustedProxies } = options;
  const { subject, weight, answerError } = operation;
  const isWrite = operation.method !== 'get';
  // Health, metrics and public routes are exempt from load shedding and limits.
  const guarded = isGuarded(subject);
  const callers = guarded ? limits.callers : undefined;
  // A delivery is known by its signature alone, once its body is there: its sender is not anonymous.
  const anonymous = guarded && subject !== 'delivery' ? limits.anonymous : undefined;
  const isLimited = (callers ?? anonymous) !== undefined;
  return {
    /** @throws ServiceError `overloaded` */
    shedLoad(): void {
      if (guarded) turn.shedLoad();
    },
    /** Sets the exchange's caller. @throws ServiceError `unauthorized` or `forbidden` */
    authenticate(exchange: Exchange): void {
      exchange.caller = access.identify(subject, exchange.head, exchange.rawQuery, isWrite);
      exchange.answerError = answerError;
    },
    /** Also for wrong credentials, which count for their address. @throws ServiceError `rate_limited` */
    limit(exchange: Exchange, res: HttpResponse, req: HttpRequest): void {
      if (!isLimited) return;
      const { kind, account = null } = (exchange.caller as Caller | undefined) ?? {};
      const key = account ?? callerAddress(res, req, trustedProxies);
      exchange.rateLimitKey = key;
      // A shop's visitors all come from Shopify's addresses, unless proxies are trusted to tell theirs.
      const isAnonymous = account === null && (kind !== 'storefront' || trustedProxies > 0);
      if (isAnonymous && !isLoopback(key)) anonymous?.count(key);
      callers?.count(key);
    },
    /**
     * Counts what a request weighs beyond one; undefined where none does.
     * @throws ServiceError `rate_limited`, or `invalid_request` where it weighs more than may ever pass
     */
    limitBody:
      callers &&
      weight &&
      (({ rateLimitKey, body }: Exchange): void => {
        const requests = weight(body);
        if (requests > callers.perSecond)
          throw new ServiceError(
            'invalid_request',
            `This is as ${requests} requests, and RATE_LIMIT is ${callers.perSecond} in a second: send fewer at once.`,
          );
        callers.count(rateLimitKey, requests - 1);
      }),
  };
}
