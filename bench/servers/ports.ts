// Free loopback ports for servers of tests and benchmarks, of which many processes start many at once. A port that was
// free a moment ago may be another's when the server binds it. So each process claims a block of ports, by listening on
// the block's first port until it ends, and gives each of the others away once.

import { randomInt } from 'node:crypto';
import { createServer, type Server } from 'node:net';

// Below those that systems give to outgoing connections (from 32,768 on Linux) and those that an embedded Redis looks
// among (src/extras/embedded/redis.ts).
const FIRST_PORT = 11_000;
const BLOCK = 20;
const BLOCKS = 1_000;

async function* claimedPorts(): AsyncGenerator<number, never> {
  for (;;) {
    const first = FIRST_PORT + BLOCK * randomInt(BLOCKS);
    const claim = await listenOn(first);
    if (!claim) continue;
    claim.unref();
    for (let port = first + 1; port < first + BLOCK; port++) {
      // A server of the process that had this block before may be about to leave.
      const server = await listenOn(port);
      if (!server) continue;
      await new Promise((done) => server.close(done));
      yield port;
    }
  }
}

const ports = claimedPorts();

/** A port of 127.0.0.1 on which nothing listens, given to this caller alone. */
export async function freePort(): Promise<number> {
  return (await ports.next()).value;
}

/** undefined where the port is taken. */
function listenOn(port: number): Promise<Server | undefined> {
  return new Promise((done) => {
    const server = createServer();
    server.once('error', () => done(undefined)).listen(port, '127.0.0.1', () => done(server));
  });
}
