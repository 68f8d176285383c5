// Servers under test: each has a port of its own; the floor answers every visit; and ours are those of production.

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { startTarget } from '../../bench/servers/start.js';
import { postVisit } from '../../bench/traffic/requests.js';

const run = promisify(execFile);
const PROCESSES = 4;
const PORTS = 600;

t.test('a free port is given to one of the processes that look for one at the same time', async (t) => {
  const module = new URL('../../bench/servers/ports.js', import.meta.url).href;
  // Each keeps its process until all have drawn, as test files do with their servers.
  const draw = `
    const { freePort } = await import(${JSON.stringify(module)});
    console.log(JSON.stringify(await Promise.all(Array.from({ length: ${PORTS} }, freePort))));
    await new Promise((done) => process.stdin.once('end', done).resume());`;
  const draws = Array.from({ length: PROCESSES }, () =>
    run(process.execPath, ['--input-type=module', '--eval', draw]),
  );
  await Promise.all(draws.map(({ child }) => new Promise((done) => child.stdout?.once('data', done))));
  for (const { child } of draws) child.stdin?.end();

  const given = (await Promise.all(draws)).flatMap(({ stdout }) => JSON.parse(stdout) as number[]);
  t.equal(given.length, PROCESSES * PORTS);
  t.equal(new Set(given).size, given.length, 'each port once');
});

const PAIRS = 200;
/** Microseconds that the second of a pair comes later, at most: about as long as a visit takes. */
const LATEST_US = 400;
const HANG_MS = 30_000;

t.test('the floor answers both of two visits that come shortly after each other', async (t) => {
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
    const due = performance.now() + ((pair % 50) * LATEST_US) / 50_000;
    for (const [n, socket] of sockets.entries()) {
      while (n > 0 && performance.now() < due);
      socket.write(request);
    }
    await Promise.race([Promise.all(answers), sleep(HANG_MS, undefined, { ref: false })]);
    if (answered < 2 * (pair + 1)) break;
  }
  t.equal(answered, 2 * PAIRS);
});
