// Answers for `serve` while it waits for Redis: /healthz 200, everything else 503.

import { randomBytes } from 'node:crypto';
import { ERRORS } from '../errors.js';
import { listenOn } from './listen.js';
import type { Uws } from './uws.js';

export interface WaitingServer {
  readonly port: number;
  close(): void;
}

export function startWaitingServer(
  uws: Uws,
  host: string,
  port: number,
  why: () => string | undefined,
): WaitingServer {
  const refusal = (error: string) => JSON.stringify({ error, code: 'unavailable' });
  const app = uws.App().any('/*', (res, req) => {
    const path = req.getUrl();
    const isHealth = path === '/healthz';
    const sentence = path === '/readyz' ? `Not ready: ${why()}.` : ERRORS.unavailable.sentence;
    res.cork(() => {
      if (!isHealth) res.writeStatus('503 Service Unavailable').writeHeader('Retry-After', '1');
      res
        .writeHeader('Content-Type', 'application/json')
        .writeHeader('X-Request-Id', randomBytes(9).toString('base64url'))
        .end(isHealth ? '{"status":"ok"}' : refusal(sentence), true);
    });
  });
  const socket = listenOn(uws, app, host, port);
  return {
    port: uws.us_socket_local_port(socket),
    close() {
      uws.us_listen_socket_close(socket);
      app.close();
    },
  };
}
