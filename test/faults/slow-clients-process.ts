// The process behind slow-clients.ts: says when all are connected, and what became of them when it is told to end.

import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { open } from './flood.js';
import type { SlowClientsResult, SlowClientsSpec } from './slow-clients.js';

const spec = JSON.parse(process.argv[2] ?? '{}') as SlowClientsSpec;
const OPENED_AT_ONCE = 100;
/** Each sends something once a second, and not all at the same moment. */
const SLICES = 20;

const answers: Record<string, number> = {};
let ended = 0;
let left = 0;

const sockets: Socket[] = [];
while (sockets.length < spec.count) {
  const batch = Math.min(OPENED_AT_ONCE, spec.count - sockets.length);
  sockets.push(...(await Promise.all(Array.from({ length: batch }, () => open(spec.port)))));
}
const texts = sockets.map((_, i) => slowly(i));
for (const socket of sockets) {
  socket.on('close', () => ended++);
  socket.on('data', (data: unknown) => {
    const status = String(data).slice(9, 12);
    answers[status] = (answers[status] ?? 0) + 1;
  });
}
let slice = 0;
const drip = () => {
  const [second, part] = [Math.floor(slice / SLICES), slice % SLICES];
  for (let i = part; i < sockets.length; i += SLICES) {
    const socket = sockets[i] as Socket;
    if (socket.writable) socket.write((texts[i] as (second: number) => string)(second));
  }
  slice++;
};
for (let i = 0; i < SLICES; i++) drip();
setInterval(drip, 1_000 / SLICES);
const leaving = setInterval(() => void leave(left++), 10);
process.send?.('ready');

process.once('message', async () => {
  clearInterval(leaving);
  await sleep(100); // the last ones have left
  const result: SlowClientsResult = { ended, answers, left };
  process.send?.(result, undefined, {}, () => process.exit(0));
});

/** What the `i`th slow client sends in its `n`th second. */
function slowly(i: number): (n: number) => string {
  const head = 'POST /product/visit HTTP/1.1\r\nhost: slow\r\n';
  switch (i % 4) {
    case 0: // a head, byte by byte
      return (n) => head[n % head.length] as string;
    case 1: // a body that was announced, byte by byte
      return (n) => (n === 0 ? `${head}content-length: 60000\r\n\r\n` : ' ');
    case 2: // a body of chunks that never ends
      return (n) => (n === 0 ? `${head}transfer-encoding: chunked\r\n\r\n` : '1\r\n \r\n');
    default: // nothing after the head
      return (n) => (n === 0 ? `${head}content-length: 10\r\n\r\n` : '');
  }
}

/** Goes away in the middle of its body, or before and in the middle of its answer. */
async function leave(n: number): Promise<void> {
  const body = JSON.stringify({ identity: { sessionId: 'leaver' }, productHandle: 'x' });
  const head = `POST /product/visit HTTP/1.1\r\nhost: leaver\r\ncontent-length: ${body.length}\r\n\r\n`;
  const socket = await open(spec.port);
  switch (n % 4) {
    case 0:
      socket.write(head + body.slice(0, 9), () => socket.resetAndDestroy());
      break;
    case 1:
      socket.write(head + body, () => socket.resetAndDestroy());
      break;
    case 2:
      socket.write(head + body, () => socket.destroy());
      break;
    default: // the document is long: it does not read to its end
      socket.once('data', () => socket.resetAndDestroy());
      socket.write('GET /openapi.json HTTP/1.1\r\nhost: leaver\r\n\r\n');
  }
}
