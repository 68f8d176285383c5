// Webhooks of orders that are answered 200 and left out: each is counted by its reason, and each reason is logged once.

import type { Logger } from 'pino';

/** Why nothing of an order is recorded. */
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

/** Topics that are logged; any caller that has seen one signed body may send it with others. */
const MAX_TOPICS = 100;

/**
 * Called with the reason and the topic of each webhook that is left out.
 * @param count called each time
 */
export function leftOut(
  count: (reason: LeftOut) => void,
  log: Logger,
): (reason: LeftOut, topic: string) => void {
  const [topics, reasons] = [new Set<string>(), new Set<LeftOut>()];
  return (reason, topic) => {
    count(reason);
    if (reason === 'topic') {
      if (topics.has(topic) || topics.size === MAX_TOPICS) return;
      topics.add(topic);
      log.warn({ topic }, 'webhooks of this topic are left out: they are not about orders');
    } else if (!reasons.has(reason)) {
      reasons.add(reason);
      log.warn({ reason }, 'an order is left out; wishmeter_orders_left_out_total counts the next ones');
    }
  };
}

/**
 * Called with the paths of fields that are wrong in a signed order. Each field is counted, and logged once.
 * @param count called with the field, without the numbers of lines: there are as many as the schema of an order has
 */
export function faultyFields(
  count: (field: string) => void,
  log: Logger,
): (paths: readonly string[]) => void {
  const logged = new Set<string>();
  return (paths) => {
    for (const path of paths) {
      const field = path.replace(/\/\d+(?=\/|$)/g, '/*') || '/';
      count(field);
      if (logged.has(field)) continue;
      logged.add(field);
      log.warn(
        { field },
        'a field of a signed order is wrong and is left out; wishmeter_order_faults_total counts the next ones',
      );
    }
  };
}
