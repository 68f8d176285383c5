// The floor answers each visit, also where nothing more comes after it. (That its answers are right, `make bench` proves.)

import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startTarget } from '../../bench/servers/start.js';
import { postVisit } from '../../bench/traffic/requests.js';

const PAIRS = 500;
/** Microseconds that the second of a pair comes later, at most: about as long as a visit takes. */
const LATEST_US = 400;
const HANG_MS = 5_000;

t.test('of two visits that come shortly after each other both are answered', async (t) => {
  const { port, stop } = await startTarget({ server: 'floor', dir: join(t.testdir(), 'floor') });
  t.teardown(stop);
  const sockets = await Promise.all(
    [0, 1].map(async () => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      t.teardown(() => socket.destroy());
      await once(socket, 'connect');
      return socket;
    }),
  );
  const request = postVisit({ sessionId: 's-1', productHandle: 'red-shoe' });
  let answered = 0;
  for (let pair = 0; pair < PAIRS; pair++) {
    const answers = sockets.map((socket) => once(socket, 'data').then(() => answered++));
    const due = performance.now() + ((pair % 100) * LATEST_US) / 100_000;
    for (const [n, socket] of sockets.entries()) {
      while (n > 0 && performance.now() < due);
      socket.write(request);
    }
    await Promise.race([Promise.all(answers), sleep(HANG_MS, undefined, { ref: false })]);
    if (answered < 2 * (pair + 1)) break;
  }
  t.equal(answered, 2 * PAIRS);
});
