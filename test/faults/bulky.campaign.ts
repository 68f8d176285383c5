// Bodies that are small on the wire and large once they are parsed, from a thousand connections at the same moment and
// without any credential: answered or refused, and memory stays within bounds.

import type { Socket } from 'node:net';
import t from 'tap';
import { needsProc } from '../harness/needs.js';
import { open } from './flood.js';
import { startServeAlone } from './serve-alone.js';

const CONNECTIONS = 1_000;
const AT_ONCE = 100;
/** In 60 KB: some 1.2 MB of heap. */
const OBJECTS = 20_000;
/** A fraction of what they take together when they are all kept. */
const GROWTH_MB = 400;

t.test('a thousand bodies of twenty thousand objects', { timeout: 120_000, ...needsProc() }, async (t) => {
  const serve = await startServeAlone(t);
  const sockets: Socket[] = [];
  while (sockets.length < CONNECTIONS)
    sockets.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => open(serve.port)))));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  const before = serve.megabytes();
  let most = before;
  const sampling = setInterval(() => {
    most = Math.max(most, serve.megabytes());
  }, 50);
  t.teardown(() => clearInterval(sampling));

  const objects = Array.from({ length: OBJECTS }, () => '{}').join();
  const body = `{"identity":{"sessionId":"bulky"},"productHandle":"x","z":[${objects}]}`;
  const request = `POST /product/visit HTTP/1.1\r\nhost: bulky\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const statuses = await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<string>((done) => {
          socket.once('data', (data) => done(String(data).slice(9, 12)));
          socket.once('close', () => done('none'));
          socket.write(request);
        }),
    ),
  );
  t.same(
    statuses.filter((status) => status !== '200' && status !== '503'),
    [],
    'each was answered',
  );
  t.ok(most - before < GROWTH_MB, `${before.toFixed(0)} MB, grown by ${(most - before).toFixed(0)} MB`);
  t.ok(serve.isAlive());
  t.equal(await serve.openRequests(), 1);
});
