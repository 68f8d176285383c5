// The limit: uWebSockets.js with nothing behind it. It reads and parses the same JSON, and answers as wishmeter
// would: no Redis, no validation, no limits.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { loadUws } from '../../src/http/uws.js';

interface Body {
  readonly identity: { readonly sessionId: string };
  readonly productHandle: string;
}

function visit(res: HttpResponse, _req: HttpRequest): void {
  let aborted = false;
  res.onAborted(() => {
    aborted = true;
  });
  let parts: Buffer | undefined;
  res.onData((chunk, isLast) => {
    const part = Buffer.from(chunk);
    if (!isLast) {
      parts = Buffer.concat(parts ? [parts, part] : [part]); // a copy: the chunk is only lent
      return;
    }
    const { identity, productHandle } = JSON.parse(
      (parts ? Buffer.concat([parts, part]) : part).toString(),
    ) as Body;
    if (aborted) return;
    const body = JSON.stringify({ profileId: identity.sessionId, productHandle });
    res.cork(() => {
      res.writeHeader('content-type', 'application/json');
      res.end(body);
    });
  });
}

const { uws } = await loadUws();
const app = uws.App().post('/product/visit', visit);
app.listen('127.0.0.1', 0, (socket) => {
  if (socket) process.send?.({ ready: true, port: uws.us_socket_local_port(socket) });
  else process.send?.({ failed: 'bare uWebSockets.js can not listen' });
});
