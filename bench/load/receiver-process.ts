// A receiver that takes every delivery at once, and says how many it took.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const SAY_MS = 50;
let taken = 0;
const server = createServer((req, res) => {
  req.resume().on('end', () => {
    taken++;
    res.writeHead(204).end();
  });
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ port });
  setInterval(() => process.send?.({ taken }), SAY_MS);
});
process.once('disconnect', () => process.exit(0));
