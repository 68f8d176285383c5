// GET /healthz, /readyz and /metrics: what runs the service, not what uses it.

import { statusAnswer } from '../validation/answers.js';
import type { Answer, Operation } from './operation.js';
import type { OperationDoc } from './operation-doc.js';

/**
 * @param ready throws where the service can't do its work now; the message is the reason
 * @param metrics the figures as Prometheus reads them
 */
export function operatingOperations(
  ready: () => Promise<void>,
  metrics: () => Promise<Required<Pick<Answer, 'type' | 'body'>>>,
): Operation[] {
  const operation = (
    path: string,
    doc: OperationDoc,
    handle: Operation['handle'],
    subject: Operation['subject'] = 'open',
  ): Operation => ({
    method: 'get',
    path,
    doc,
    subject,
    maxBody: 0,
    handle,
  });
  return [
    operation('/healthz', { summary: 'The process is up', answer: statusAnswer }, () => '{"status":"ok"}'),
    operation(
      '/readyz',
      { summary: 'Redis answers; 503 with the reason otherwise', answer: statusAnswer },
      async () => {
        try {
          await ready();
          return '{"status":"ready"}';
        } catch (error) {
          const body = { error: `Not ready: ${(error as Error).message}.`, code: 'unavailable' };
          return { status: '503 Service Unavailable', body: JSON.stringify(body) };
        }
      },
    ),
    operation(
      '/metrics',
      { summary: 'Figures for Prometheus' },
      async () => ({ ...(await metrics()), headers: { 'cache-control': 'no-store' } }),
      'metrics',
    ),
  ];
}
