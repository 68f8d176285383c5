// Starts programs that do not report that they are ready.

import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, type Command, startChild } from '../../src/extras/embedded/child.js';

/** Resolves once the program listens on this loopback port. */
export function startListening(
  name: string,
  port: number,
  command: Command,
): Promise<Child<{ readonly port: number }>> {
  return startChild({
    ...{ name, command: () => command, output: 'tail', restart: false },
    ready: async (_child, ended) => {
      while (!(await accepts(port))) await sleep(10, undefined, { signal: ended });
      return { port };
    },
  });
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect({ port, host: '127.0.0.1' });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
