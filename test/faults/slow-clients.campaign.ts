// Clients that take their time, never end or leave, by the thousand, and bodies in a million pieces: good requests beside
// them are answered, nothing is kept of them, and a piece costs no more than its bytes. FAULTS=full: more of them, and the
// p99 of good requests, with and without them in turns, is judged; else it is reported, since this machine may be busy.

import { createHmac } from 'node:crypto';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { median } from '../../bench/statistics.js';
import { needsProc } from '../harness/needs.js';
import { flood } from './flood.js';
import { type ServeAlone, startServeAlone } from './serve-alone.js';
import { FULL, KEY } from './service.js';
import { startSlowClients } from './slow-clients.js';

const SLOW_CLIENTS = FULL ? 5_000 : 1_200;
const ROUNDS = FULL ? 5 : 3;
const WINDOW_S = FULL ? 13 : 1.5;
/** Visitors who notice what goes on beside them. */
const GOOD = { connections: 8, restMs: 5 };
/** Longer than a body may take. */
const BODIES_END_MS = 13_000;
/** What a process may grow by: buffers of thousands of connections, and the engine's own leisure. */
const GROWTH_MB = 150;
const OPTIONS = { timeout: 600_000, ...needsProc() };

/** Compares the p99 of good requests without and with something beside them, in turns. */
async function compare(
  t: Test,
  serve: ServeAlone,
  most: number,
  without: (good: () => Promise<void>) => Promise<void>,
  beside: (good: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const p99s: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++)
    for (const [i, how] of [without, beside].entries())
      await how(async () => {
        const result = await flood({ ...GOOD, port: serve.port, seconds: WINDOW_S });
        t.same(Object.keys(result.answers), ['200'], 'every good request was answered with 200');
        t.comment(`${i === 0 ? 'without' : 'beside'}: ${JSON.stringify(result)}`);
        p99s[i]?.push(result.p99Ms);
      });
  const ratio = median(p99s[1]) / median(p99s[0]);
  t.comment(`p99, medians of ${ROUNDS}: ${ratio.toFixed(2)} times`);
  if (FULL) t.ok(ratio <= most, `within ${most} times`);
}

t.test(`${SLOW_CLIENTS} slow clients`, OPTIONS, async (t) => {
  const serve = await startServeAlone(t);
  await flood({ ...GOOD, port: serve.port, seconds: 1 });
  const before = serve.megabytes();
  let unended = 0;
  const crowded = async (good: () => Promise<void>, ms = 0) => {
    const slow = await startSlowClients(t, { port: serve.port, count: SLOW_CLIENTS });
    await Promise.all([good(), sleep(ms)]);
    const grown = serve.megabytes() - before;
    const { answers, left } = await slow.end();
    t.comment(`${JSON.stringify(answers)}; ${left} left; grown by ${grown.toFixed(0)} MB`);
    unended = answers['408'] ?? 0;
    t.ok(left > 20, 'clients left in the middle');
    t.ok(grown < GROWTH_MB, 'memory is flat');
    await serve.untilIdle();
  };
  await compare(t, serve, 3, (good) => good(), crowded);
  await crowded(async () => {}, BODIES_END_MS);
  t.ok(unended > SLOW_CLIENTS / 4, 'bodies that do not end get 408 after 10 s');
});

const PATH = '/webhook/purchase';
const REQUESTS = FULL ? 100 : 30;
/** Times what a plain body of that size costs: the reach is 3, the rest is for a busy machine. Without a bound it is 400. */
const MOST_TIMES = FULL ? 3 : 6;
const MEBIBYTE = 1_048_576;
const WRONG = `x-shopify-hmac-sha256: ${createHmac('sha256', 'another').update('').digest('base64')}`;

const requestTo = (path: string, body: string, ...headers: string[]) =>
  Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: flood\r\n${headers.map((one) => `${one}\r\n`).join('')}\r\n${body}`,
  );
const inPieces = (path: string, headers: string[] = [], bytes = 1, count = 1e6) => {
  const pieces = `${bytes.toString(16)}\r\n${' '.repeat(bytes)}\r\n`.repeat(count);
  return requestTo(path, `${pieces}0\r\n\r\n`, 'transfer-encoding: chunked', ...headers);
};
const PLAIN = requestTo(PATH, ' '.repeat(MEBIBYTE), `content-length: ${MEBIBYTE}`, WRONG);
const ATTACKS: Record<string, Buffer> = {
  'no signature': inPieces(PATH),
  'a signature that is none': inPieces(PATH, ['x-shopify-hmac-sha256: x']),
  'a wrong signature': inPieces(PATH, [WRONG]),
  'a secret key': inPieces(PATH, [`x-api-key: ${KEY}`]),
  'as many pieces as may be': inPieces(PATH, [WRONG], 870, 1_190),
  'a visit': inPieces('/product/visit'),
  'an event of an anonymous caller': inPieces('/event'),
  'a path that is none': inPieces('/nowhere'),
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

t.test('a million chunks of one byte cost no more than a body of their size', OPTIONS, async (t) => {
  const serve = await startServeAlone(t, { SHOPIFY_SECRET: 'hush-hush-hush-hush' });
  const cpuOf = async (bytes: Buffer) => {
    const before = serve.cpuMs();
    for (let i = 0; i < REQUESTS; i++) await send(serve.port, bytes);
    return (serve.cpuMs() - before) / REQUESTS;
  };
  for (let i = 0; i < 20; i++) await send(serve.port, PLAIN);
  const plain = Math.min(await cpuOf(PLAIN), await cpuOf(PLAIN));
  for (const [name, bytes] of Object.entries(ATTACKS)) {
    const cost = await cpuOf(bytes);
    t.comment(`${name}: ${cost.toFixed(2)} ms of CPU, a plain MiB ${plain.toFixed(2)} ms`);
    t.ok(cost <= MOST_TIMES * plain, name);
  }
  await serve.untilIdle();

  /** While some send such requests, ten a second each. */
  const attackedBy = (requests: readonly Buffer[]) => async (good: () => Promise<void>) => {
    let isOver = false;
    const attackers = Array.from({ length: 4 }, async (_, i) => {
      for (let n = i; !isOver; n++, await sleep(100))
        await send(serve.port, requests[n % requests.length] as Buffer);
    });
    await good();
    isOver = true;
    await Promise.all(attackers);
  };
  await compare(t, serve, 1.5, attackedBy([PLAIN]), attackedBy(Object.values(ATTACKS)));
});
