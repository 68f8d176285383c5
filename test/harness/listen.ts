// A test's own server on a free port of loopback, which runs until the test ends.

import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import type { Scope } from './redis.js';

export async function listen(t: Scope, server: Server & { closeAllConnections?(): void }): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections?.();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
