// Bodies in a million pieces: each piece costs the service a call, whatever its size, so they are refused by their head
// where that is enough, else cut off after a bounded number. FAULTS=full: the p99 of good requests beside them, and
// beside as many plain bodies in turns, is judged; else it is told, since this machine may be busy.

import { createHmac } from 'node:crypto';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { median } from '../../bench/statistics.js';
import { goodRequests, p99, told } from './good-requests.js';
import { type ServeAlone, startServeAlone } from './serve-alone.js';
import { FULL, KEY } from './service.js';

const SECRET = 'hush-hush-hush-hush';
const PATH = '/webhook/purchase';
const REQUESTS = FULL ? 100 : 30;
const ROUNDS = FULL ? 5 : 3;
const WINDOW_S = FULL ? 10 : 1.5;
const ATTACKERS = 4;
/** Times what a plain body of that size costs: the reach is 3, the rest is for a busy machine. Without a bound it is 400. */
const MOST_TIMES = FULL ? 3 : 6;
const MEBIBYTE = 1_048_576;

const wrongHmac = createHmac('sha256', 'another').update('').digest('base64');
const CHUNKED = 'transfer-encoding: chunked';
const head = (path: string, ...headers: string[]) =>
  `POST ${path} HTTP/1.1\r\nhost: flood\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`;
const chunks = (bytes: number, count: number) =>
  `${`${bytes.toString(16)}\r\n${' '.repeat(bytes)}\r\n`.repeat(count)}0\r\n\r\n`;

const PLAIN = Buffer.from(
  head(PATH, `content-length: ${MEBIBYTE}`, `x-shopify-hmac-sha256: ${wrongHmac}`) + ' '.repeat(MEBIBYTE),
);
const ATTACKS: Record<string, Buffer> = {
  'no signature': Buffer.from(head(PATH, CHUNKED) + chunks(1, 1e6)),
  'a signature that is none': Buffer.from(head(PATH, CHUNKED, 'x-shopify-hmac-sha256: x') + chunks(1, 1e6)),
  'a wrong signature': Buffer.from(
    head(PATH, CHUNKED, `x-shopify-hmac-sha256: ${wrongHmac}`) + chunks(1, 1e6),
  ),
  'a secret key': Buffer.from(head(PATH, CHUNKED, `x-api-key: ${KEY}`) + chunks(1, 1e6)),
  'as many pieces as may be': Buffer.from(
    head(PATH, CHUNKED, `x-shopify-hmac-sha256: ${wrongHmac}`) + chunks(870, 1_190),
  ),
  'a visit': Buffer.from(head('/product/visit', CHUNKED) + chunks(1, 1e6)),
  'an event of an anonymous caller': Buffer.from(head('/event', CHUNKED) + chunks(1, 1e6)),
  'a path that is none': Buffer.from(head('/nowhere', CHUNKED) + chunks(1, 1e6)),
};

/** Sends one request; resolves when it is answered or cut off. */
function send(port: number, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.on('error', () => {});
    socket.once('data', () => socket.destroy());
    socket.once('close', () => resolve());
    socket.write(bytes);
  });
}

async function cpuOf(serve: ServeAlone, bytes: Buffer): Promise<number> {
  const before = await serve.cpuMs();
  for (let i = 0; i < REQUESTS; i++) await send(serve.port, bytes);
  return ((await serve.cpuMs()) - before) / REQUESTS;
}

t.test(
  'a million chunks of one byte cost no more than a body of their size',
  { timeout: 600_000 },
  async (t) => {
    const serve = await startServeAlone(t, { SHOPIFY_SECRET: SECRET });
    for (let i = 0; i < 20; i++) await send(serve.port, PLAIN);
    const plain = Math.min(await cpuOf(serve, PLAIN), await cpuOf(serve, PLAIN));
    for (const [name, bytes] of Object.entries(ATTACKS)) {
      const cost = await cpuOf(serve, bytes);
      t.comment(`${name}: ${cost.toFixed(2)} ms of CPU, a plain MiB ${plain.toFixed(2)} ms`);
      t.ok(cost <= MOST_TIMES * plain, name);
    }
    t.equal(await serve.openRequests(), 1, 'nothing is left open');

    /** The p99 of good requests while some send such requests, ten a second each. */
    const beside = async (requests: readonly Buffer[]): Promise<number> => {
      let isOver = false;
      const attackers = Array.from({ length: ATTACKERS }, async (_, i) => {
        for (let n = i; !isOver; n++, await sleep(100))
          await send(serve.port, requests[n % requests.length] as Buffer);
      });
      const good = await goodRequests(serve.port, WINDOW_S);
      isOver = true;
      await Promise.all(attackers);
      t.same(good.wrong, [], 'every good request was answered with 200');
      t.comment(`beside ${requests.length === 1 ? 'plain bodies' : 'bodies in pieces'}: ${told(good)}`);
      return p99(good);
    };
    const [plainly, inPieces] = [[], []] as [number[], number[]];
    for (let round = 1; round <= ROUNDS; round++) {
      plainly.push(await beside([PLAIN]));
      inPieces.push(await beside(Object.values(ATTACKS)));
    }
    const ratio = median(inPieces) / median(plainly);
    t.comment(`p99, medians of ${ROUNDS}: ${ratio.toFixed(2)} times that beside plain bodies`);
    if (FULL) t.ok(ratio <= 1.5, 'within 1.5 times');
  },
);
