// Listens with uWebSockets.js on a port that several processes share.

import type { TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import { StartupError } from '../errors.js';
import type { Uws } from './uws.js';

export function listenOn(uws: Uws, app: TemplatedApp, host: string, port: number): us_listen_socket {
  const tryPort = (at: number) => {
    let listening: us_listen_socket | false = false;
    app.listen(host, at, (socket) => {
      listening = socket;
    });
    return listening as us_listen_socket | false;
  };
  let socket = tryPort(port);
  if (socket && port === 0) {
    // uWebSockets.js sets SO_REUSEPORT only for a named port, so listen again by number.
    const free = uws.us_socket_local_port(socket);
    uws.us_listen_socket_close(socket);
    socket = tryPort(free);
  }
  if (socket) return socket;
  throw new StartupError(`Port ${port} on ${host} can't be listened on: it is taken, or not ours to use.`);
}
