// Serves /metrics, /healthz and /readyz of a process without an API.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { StartupError } from '../errors.js';
import { atMostOnceASecond, metricsAccess } from './exposition.js';

export interface MetricsServer {
  readonly port: number;
  close(): Promise<void>;
}

export interface MetricsServerSpec {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly registry: Registry;
  readonly log: Logger;
  readonly whyNotReady?: () => string | undefined;
}

export async function listenForMetrics(spec: MetricsServerSpec): Promise<MetricsServer> {
  const { host, port, token, registry, log, whyNotReady = () => undefined } = spec;
  const mayRead = metricsAccess(token);
  const stats = atMostOnceASecond(() => registry.metrics());
  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    const path = req.method === 'GET' || req.method === 'HEAD' ? req.url?.split('?')[0] : undefined;
    res.setHeader('x-content-type-options', 'nosniff').setHeader('cache-control', 'no-store');
    res.setHeader('content-type', path === '/metrics' ? registry.contentType : 'application/json');
    const why = path === '/readyz' ? whyNotReady() : undefined;
    if (path === '/healthz') res.end('{"status":"ok"}');
    else if (why !== undefined)
      res.writeHead(503).end(JSON.stringify({ error: `Not ready: ${why}.`, code: 'unavailable' }));
    else if (path === '/readyz') res.end('{"status":"ready"}');
    else if (path !== '/metrics') res.writeHead(404).end();
    else if (mayRead(req.headers.authorization ?? '')) res.end(await stats());
    else res.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
  };
  const server = createServer((req, res) => {
    // An unhandled rejection would end the process.
    answer(req, res).catch((error) => {
      log.error({ err: error }, 'a request for metrics failed');
      res.writeHead(500).end();
    });
  });
  server.listen(port, host);
  await once(server, 'listening').catch(() => {
    throw new StartupError(`FLUSH_METRICS_PORT: port ${port} on ${host} can't be listened on.`);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
