// The process behind steady.ts: it sends requests at random times (a Poisson process) over keep-alive connections, one in
// flight on each, and reports the latencies to its parent. A request that finds no free connection waits, and is timed from
// when it was due all the same.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { createRandom } from '../demo/random.js';
import { percentile } from '../statistics.js';
import type { SteadyOrder, SteadyResult } from './steady.js';

const CONNECTIONS = 256;
const SETTLE_S = 1;
const LAST_ANSWERS_MS = 10_000;
/** Node's timers have a resolution of 1 ms. A busy loop would take the processor that the server needs. */
const LONGEST_SLEEP_MS = 0.05;
const SHORTEST_SLEEP_MS = 0.005;
const HEADERS_END = '\r\n\r\n';
const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;

const order = JSON.parse(process.argv[2] ?? '{}') as SteadyOrder;
const requests = readFileSync(order.file, 'latin1').split('\0').slice(0, -1);
const random = createRandom(order.port);

// By number of the request. Allocated at once: an array that grows would hold up the generator.
const room = Math.ceil((SETTLE_S + order.seconds) * order.rate * 1.5) + 1_000;
const due = new Float64Array(room);
const sentAfter = new Float64Array(room);
const answeredAfter = new Float64Array(room);
let arrived = 0;
let sent = 0;
let answered = 0;
let failed = 0;

const free = await Promise.all(Array.from({ length: CONNECTIONS }, open));
const inFlight = new Map<Socket, number>();
const begin = performance.now() + 5;
const measured = begin + SETTLE_S * 1_000;
const end = measured + order.seconds * 1_000;
const gap = () => (-Math.log(1 - random.next()) * 1_000) / order.rate;
const cell = new Int32Array(new SharedArrayBuffer(4));
let next = begin + gap();
setImmediate(tick);

/** Sends all requests that are due, sleeps until the next one and lets answers be read. */
function tick(): void {
  const now = performance.now();
  for (; next <= now && next < end; next += gap()) {
    due[arrived] = next;
    sentAfter[arrived++] = performance.now() - next;
    const socket = free.pop();
    if (socket !== undefined) sendNext(socket);
  }
  if (next >= end && (answered + failed === arrived || now > end + LAST_ANSWERS_MS)) {
    process.send?.(result(), undefined, {}, () => process.exit(0));
    return;
  }
  const rest = Math.min(next - performance.now(), LONGEST_SLEEP_MS);
  if (rest > SHORTEST_SLEEP_MS) Atomics.wait(cell, 0, 0, rest);
  setImmediate(tick);
}

function sendNext(socket: Socket): void {
  const number = sent++;
  inFlight.set(socket, number);
  socket.write(requests[number % requests.length] as string, 'latin1');
}

async function open(): Promise<Socket> {
  const socket = connect({ port: order.port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  let text = '';
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part;
    const headers = text.indexOf(HEADERS_END);
    if (headers < 0) return;
    const length = Number(CONTENT_LENGTH.exec(text)?.[1] ?? 0);
    if (text.length < headers + HEADERS_END.length + length) return;
    const number = inFlight.get(socket) as number;
    inFlight.delete(socket);
    answeredAfter[number] = performance.now() - (due[number] as number);
    if (text.startsWith('HTTP/1.1 2')) answered++;
    else failed++;
    text = '';
    if (sent < arrived) sendNext(socket);
    else free.push(socket);
  });
  socket.on('error', () => socket.destroy());
  socket.on('close', () => {
    if (inFlight.has(socket)) throw new Error('the server closed a connection under a request');
  });
  return socket;
}

function result(): SteadyResult {
  const inTime = (ms: Float64Array) =>
    ms
      .subarray(0, arrived)
      .filter((_, number) => (due[number] as number) >= measured)
      .sort();
  const latencies = inTime(answeredAfter);
  return {
    answered,
    failed: arrived - answered,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    maxMs: percentile(latencies, 1),
    generatorLateP99Ms: percentile(inTime(sentAfter), 0.99),
  };
}
