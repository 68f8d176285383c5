// GET /healthz, /readyz and /metrics: what runs the service, not what uses it.

import type { Registry } from 'prom-client';
import type { Operation } from './operation.js';

/** @param ready throws where the service can't do its work now; the message is the reason */
export function operatingOperations(ready: () => Promise<void>, registry: Registry): Operation[] {
  const operation = (path: string, handle: Operation['handle']): Operation => ({
    method: 'get',
    path,
    subject: 'open',
    maxBody: 0,
    handle,
  });
  return [
    operation('/healthz', () => '{"status":"ok"}'),
    operation('/readyz', async () => {
      try {
        await ready();
        return '{"status":"ready"}';
      } catch (error) {
        const body = { error: `Not ready: ${(error as Error).message}.`, code: 'unavailable' };
        return { status: '503 Service Unavailable', body: JSON.stringify(body) };
      }
    }),
    operation('/metrics', async () => ({ type: registry.contentType, body: await registry.metrics() })),
  ];
}
