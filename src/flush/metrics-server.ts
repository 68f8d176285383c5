// Serves /metrics, /healthz and /readyz of `flush` on FLUSH_METRICS_PORT.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { StartupError } from '../errors.js';
import { atMostOnceASecond, MetricsAccess } from '../metrics/exposition.js';

export interface FlushServer {
  readonly port: number;
  close(): Promise<void>;
}

export interface FlushServerSpec {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly registry: Registry;
  readonly log: Logger;
  readonly whyNotReady?: () => string | undefined;
}

export async function listenForMetrics(spec: FlushServerSpec): Promise<FlushServer> {
  const { host, port, token, registry, log, whyNotReady = () => undefined } = spec;
  const access = new MetricsAccess(token);
  const stats = atMostOnceASecond(() => registry.metrics());
  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    const path = req.method === 'GET' || req.method === 'HEAD' ? req.url?.split('?')[0] : undefined;
    res.setHeader('x-content-type-options', 'nosniff').setHeader('cache-control', 'no-store');
    if (path === '/healthz') {
      res.setHeader('content-type', 'application/json').end('{"status":"ok"}');
    } else if (path === '/readyz') {
      const why = whyNotReady();
      res.setHeader('content-type', 'application/json');
      if (why === undefined) res.end('{"status":"ready"}');
      else res.writeHead(503).end(JSON.stringify({ error: `Not ready: ${why}.`, code: 'unavailable' }));
    } else if (path !== '/metrics') {
      res.writeHead(404).end();
    } else if (!access.allows(req.headers.authorization ?? '')) {
      res.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    } else {
      res.setHeader('content-type', registry.contentType).end(await stats());
    }
  };
  const server = createServer((req, res) => {
    // An unhandled rejection would end the flusher.
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
