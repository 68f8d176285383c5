// Counts order webhooks that get 200 but aren't recorded, and logs each reason once.

import type { Logger } from 'pino';

export const LEFT_OUT = [
  'topic',
  'invalid',
  'no_visitor',
  'unpaid',
  'cancelled',
  'voided',
  'refunded',
  'nothing_left',
  'erased',
] as const;
export type LeftOut = (typeof LEFT_OUT)[number];

const MAX_LOGGED = 100;

/** Reports each name once, and at most 100 names, since callers may choose them. */
export function eachOnce(report: (name: string) => void): (name: string) => void {
  const known = new Set<string>();
  return (name) => {
    if (known.has(name) || known.size === MAX_LOGGED) return;
    known.add(name);
    report(name);
  };
}

export function leftOut(
  count: (reason: LeftOut) => void,
  log: Logger,
): (reason: LeftOut, topic: string) => void {
  const logTopic = eachOnce((topic) =>
    log.info({ topic }, 'webhooks of this topic are left out: they hold no order'),
  );
  const logReason = eachOnce((reason) =>
    log.warn({ reason }, 'an order is left out; wishmeter_orders_left_out_total counts the next ones'),
  );
  return (reason, topic) => {
    count(reason);
    if (reason === 'topic') logTopic(topic);
    else logReason(reason);
  };
}

/** @param count called with fields without line numbers, so that the schema bounds their number */
export function faultyFields(
  count: (field: string) => void,
  log: Logger,
): (paths: readonly string[]) => void {
  const logField = eachOnce((field) =>
    log.warn(
      { field },
      'a field of a signed order is wrong and is left out; wishmeter_order_faults_total counts the next ones',
    ),
  );
  return (paths) => {
    for (const path of paths) {
      const field = path.replace(/\/\d+(?=\/|$)/g, '/*') || '/';
      count(field);
      logField(field);
    }
  };
}
