// Waits for programs that do not report that they are ready.

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves once a process listens on a loopback port. @throws where `ended` aborts first */
export async function untilListening(port: number, ended: AbortSignal): Promise<void> {
  while (!(await accepts(port))) await sleep(10, undefined, { signal: ended });
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const answer = (yes: boolean) => {
      socket.destroy();
      resolve(yes);
    };
    socket.once('connect', () => answer(true)).once('error', () => answer(false));
  });
}
