// What a request of one operation passes before its body is read: hooks that are called once each, in this order, and
// refuse by a ServiceError. What a request weighs by its body (`limitBody`) is counted once the body is there.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { type Caller, isGuarded } from './access.js';
import { callerAddress } from './address.js';
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
  // A delivery is known by its signature alone, once its body is there: its sender is no stranger.
  const strangers = guarded && subject !== 'delivery' ? limits.strangers : undefined;
  const needsPayer = guarded && (callers ?? strangers ?? limits.newVisitors) !== undefined;
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
      if (!needsPayer) return;
      const { kind, account = null } = (exchange.caller as Caller | undefined) ?? {};
      exchange.payer = account ?? callerAddress(res, req, trustedProxies);
      // A shop's visitors all come from Shopify's addresses, unless proxies are trusted to tell theirs.
      exchange.isStranger = account === null && (kind !== 'storefront' || trustedProxies > 0);
      if (exchange.isStranger) strangers?.count(exchange.payer);
      callers?.count(exchange.payer);
    },
    /** Counts what a request weighs beyond one; undefined where none does. @throws ServiceError `rate_limited` */
    limitBody:
      callers && weight && (({ payer, body }: Exchange): void => callers.count(payer, weight(body) - 1)),
  };
}
