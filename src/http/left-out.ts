// Counts order webhooks that are answered 200 but not recorded, by reason, and logs each reason once.

import type { Logger } from 'pino';

/** Reasons why an order is not recorded. */
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

/** Maximum logged topics: a caller who has seen one signed body may send it with any topic. */
const MAX_TOPICS = 100;

/**
 * @param count called for each webhook that is left out
 * @returns a function to call with its reason and topic
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
 * Counts wrong fields of signed orders, and logs each field once.
 * @param count called with the field, without line numbers: so fields are bounded by the schema
 * @returns a function to call with the paths of wrong fields
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
