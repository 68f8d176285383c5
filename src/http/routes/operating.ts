// GET /healthz, /readyz and /metrics: what runs the service, not what uses it.

import { atMostOnceASecond } from '../../metrics/exposition.js';
import { statusAnswer } from '../answer-schemas.js';
import type { Answer, Operation, OperationDoc } from '../operation.js';

/** As the package that makes the figures names it. */
const METRICS = 'text/plain; version=0.0.4; charset=utf-8';

/**
 * @param whyNotReady the reason, in words, where the service can't do its work now
 * @param metrics the figures as Prometheus reads them
 * @param now milliseconds
 */
export function operatingOperations(
  whyNotReady: () => Promise<string | undefined>,
  metrics: () => Promise<Required<Pick<Answer, 'type' | 'body'>>>,
  now?: () => number,
): Operation[] {
  const figures = atMostOnceASecond(metrics, now);
  const operation = (
    path: string,
    doc: OperationDoc,
    handle: Operation['handle'],
    accessGroup: Operation['accessGroup'] = 'open',
  ): Operation => ({
    method: 'get',
    path,
    doc,
    accessGroup,
    maxBody: 0,
    handle,
  });
  return [
    operation(
      '/healthz',
      { id: 'getHealth', tag: 'Operating', summary: 'The process is up', answer: statusAnswer('ok') },
      () => ({ body: '{"status":"ok"}' }),
    ),
    operation(
      '/readyz',
      {
        id: 'getReadiness',
        tag: 'Operating',
        refusals: ['unavailable'],
        summary:
          'Every master of Redis takes writes and has its data, and the process is not stopping; 503 with the reason otherwise',
        answer: statusAnswer('ready'),
      },
      async () => {
        const reason = await whyNotReady();
        if (reason === undefined) return { body: '{"status":"ready"}' };
        const body = { error: `Not ready: ${reason}.`, code: 'unavailable' };
        return {
          status: '503 Service Unavailable',
          headers: { 'retry-after': '1' },
          body: JSON.stringify(body),
        };
      },
    ),
    operation(
      '/metrics',
      {
        id: 'getMetrics',
        tag: 'Operating',
        summary: 'Figures for Prometheus',
        pages: { 200: { description: 'The text format of Prometheus', types: [METRICS] } },
      },
      async () => ({ ...(await figures()), headers: { 'cache-control': 'no-store' } }),
      'metrics',
    ),
  ];
}
