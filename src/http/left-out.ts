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

/** Limits the log: the topic is unsigned. */
const MAX_TOPICS = 100;

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

/** @param count receives fields without line numbers, so that the schema bounds them */
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
