// GET /healthz, /readyz and /metrics.

import { atMostOnceASecond } from '../metrics/exposition.js';
import { readyAnswer, statusAnswer } from './answer-schemas.js';
import type { Answer, Operation, OperationDoc } from './operation.js';

const METRICS = 'text/plain; version=0.0.4; charset=utf-8';

export interface Readiness {
  readonly why?: string;
  readonly troubles?: readonly string[];
}

export function operatingOperations(
  readiness: () => Promise<Readiness>,
  metrics: () => Promise<Required<Pick<Answer, 'type' | 'body'>>>,
  now?: () => number,
): Operation[] {
  const stats = atMostOnceASecond(metrics, now);
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
          'The process can work; `troubles` has what is wrong with parts of Redis. Otherwise 503 with the reason',
        answer: readyAnswer,
      },
      async () => {
        const { why, troubles = [] } = await readiness();
        if (why === undefined && troubles.length === 0) return { body: '{"status":"ready"}' };
        if (why === undefined) return { body: JSON.stringify({ status: 'ready', troubles }) };
        const body = { error: `Not ready: ${why}.`, code: 'unavailable' };
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
      async () => ({ ...(await stats()), headers: { 'cache-control': 'no-store' } }),
      'metrics',
    ),
  ];
}
