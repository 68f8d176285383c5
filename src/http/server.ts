// Routes and the listener. The table of operations is the API; whatever is not in it is 404 or 405.

import type { us_listen_socket } from 'uWebSockets.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartupError } from '../errors.js';
import type { Exchanges } from './exchanges.js';
import type { Operation } from './operation.js';
import type { Uws } from './uws.js';

export interface ListenOptions {
  readonly uws: Uws;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Stands before every path of `operations`, and of none of `unprefixed`. */
  readonly basePath: string;
  readonly operations: readonly Operation[];
  readonly unprefixed: readonly Operation[];
  readonly exchanges: Exchanges;
}

export interface Server {
  readonly port: number;
  /**
   * Sends callers elsewhere: to processes that share the port, or wherever a balancer leads them. For `ms` milliseconds,
   * or until `hurry` aborts, all goes on and /readyz tells balancers that ask. Then no connection is taken any more, and
   * answers close those that there are. Not before: each closed one would come back as a new one, and those that come in
   * the moment in which a process stops listening are reset by the kernel.
   */
  drain(ms: number, hurry?: AbortSignal): Promise<void>;
  /** Stops listening, answers what is under way, then drops the connections. */
  close(): Promise<void>;
}

/** Milliseconds in which a connection that is kept has its next request. */
const LAST_MS = 1_000;

/** @throws StartupError where the port can't be listened on */
export function listen(options: ListenOptions): Server {
  const { uws, host, port, basePath, exchanges } = options;
  const app = uws.App();
  const byPath = new Map<string, Operation[]>();
  for (const operation of options.unprefixed) addTo(byPath, operation.path, operation);
  for (const operation of options.operations) {
    addTo(byPath, basePath + operation.path, operation);
    if (operation.path === '/' && basePath !== '') addTo(byPath, basePath, operation); // as people type it
  }
  for (const [path, operations] of [...byPath]) {
    // Services that rewrite links add a slash.
    if (path.includes(':')) byPath.set(`${path}/`, operations);
  }
  for (const [path, operations] of byPath) {
    const methods: string[] = [];
    for (const operation of operations) {
      app[operation.method === 'delete' ? 'del' : operation.method](path, exchanges.handler(operation));
      methods.push(operation.method.toUpperCase());
      if (operation.method !== 'get') continue;
      app.head(path, exchanges.handler(operation, true));
      methods.push('HEAD');
    }
    const allow = methods.join(', ');
    app.options(path, exchanges.preflight(allow));
    app.any(path, exchanges.refusal('method_not_allowed', allow));
  }
  app.any('/*', exchanges.refusal('not_found'));

  const listenOn = (at: number) => {
    let listening: us_listen_socket | false = false;
    app.listen(host, at, (socket) => {
      listening = socket;
    });
    return listening as us_listen_socket | false;
  };
  let socket = listenOn(port);
  if (socket && port === 0) {
    // Only a port that is named is shared with other workers (SO_REUSEPORT): what was free is listened on by its name.
    const free = uws.us_socket_local_port(socket);
    uws.us_listen_socket_close(socket);
    socket = listenOn(free);
  }
  if (!socket)
    throw new StartupError(`Port ${port} on ${host} can't be listened on: it is taken, or not ours to use.`);
  const listening = socket;
  let isListening = true;
  const stopListening = () => {
    if (isListening) uws.us_listen_socket_close(listening);
    isListening = false;
  };
  return {
    port: uws.us_socket_local_port(listening),
    async drain(ms, hurry) {
      exchanges.isStopping = true;
      const pause = (time: number) => sleep(time, undefined, hurry && { signal: hurry }).catch(() => {});
      await pause(ms);
      stopListening();
      exchanges.closesConnections = true;
      await pause(Math.min(ms, LAST_MS));
    },
    async close() {
      stopListening();
      await exchanges.finish();
      app.close();
    },
  };
}

function addTo(byPath: Map<string, Operation[]>, path: string, operation: Operation): void {
  const operations = byPath.get(path);
  if (operations === undefined) byPath.set(path, [operation]);
  else operations.push(operation);
}
