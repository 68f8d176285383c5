// The process behind steady.ts: reads its order from the command line, sends its result to its parent, ends.
//
// A timer of Node's is as fine as a millisecond, and requests here are some tens of microseconds apart. So every
// turn of the event loop sends what is due and then sleeps until the next is, if that is not at once. It does not
// spin: the processor is wanted by the server under test.

import { readFileSync } from 'node:fs';
import { createRandom } from '../demo/random.js';
import { percentile } from '../statistics.js';
import { Connection } from './connection.js';
import type { SteadyOrder, SteadyResult } from './steady.js';

const CONNECTIONS = 256;
/** Longest sleep: an answer that comes in the meantime is seen so much later. */
const LONGEST_SLEEP_MS = 0.05;
/** Milliseconds that the last answers may take. */
const LAST_ANSWERS_MS = 10_000;

const order = JSON.parse(process.argv[2] ?? '{}') as SteadyOrder;
const requests = readRequests(order.file);
const random = createRandom(order.port);
const cell = new Int32Array(new SharedArrayBuffer(4));

const free: Connection[] = [];
const waiting: number[] = []; // intended times
let waitingFrom = 0;
let mostWaiting = 0;
let sent = 0;
let answered = 0;
let failed = 0;
const latencies: number[] = [];
const lateness: number[] = [];

const connections = await Promise.all(
  Array.from({ length: CONNECTIONS }, () => Connection.open(order.port, settled)),
);
free.push(...connections);

const begin = performance.now() + 5;
const measured = begin + order.settleSeconds * 1_000;
const end = measured + order.seconds * 1_000;
let next = begin + gap();
turn();

function turn(): void {
  const now = performance.now();
  for (; next <= now && next < end; next += gap()) send(next);
  if (next >= end && (answered + failed === sent || now > end + LAST_ANSWERS_MS)) {
    finish();
    return;
  }
  const rest = Math.min(next - performance.now(), LONGEST_SLEEP_MS);
  if (rest > 0.005) Atomics.wait(cell, 0, 0, rest);
  setImmediate(turn);
}

/** Milliseconds to the next arrival. */
function gap(): number {
  return (-Math.log(1 - random.next()) * 1_000) / order.rate;
}

function send(intended: number): void {
  sent++;
  const connection = free.pop();
  if (connection !== undefined) {
    if (intended >= measured) lateness.push(performance.now() - intended);
    connection.send(requests[sent % requests.length] as Buffer, intended);
    return;
  }
  waiting.push(intended);
  mostWaiting = Math.max(mostWaiting, waiting.length - waitingFrom);
}

function settled(connection: Connection, intended: number, ok: boolean): void {
  if (ok) answered++;
  else failed++;
  if (intended >= measured) latencies.push(performance.now() - intended);
  if (waitingFrom === waiting.length) {
    free.push(connection);
    return;
  }
  connection.send(requests[answered % requests.length] as Buffer, waiting[waitingFrom++] as number);
}

function finish(): void {
  latencies.sort((a, b) => a - b);
  lateness.sort((a, b) => a - b);
  const { user, system } = process.cpuUsage();
  const result: SteadyResult = {
    sent,
    answered,
    failed: sent - answered,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    maxMs: percentile(latencies, 1),
    generatorLateP99Ms: percentile(lateness, 0.99),
    mostWaiting,
    cpuSeconds: (user + system) / 1e6,
  };
  process.send?.(result, undefined, {}, () => process.exit(0));
}

function readRequests(file: string): Buffer[] {
  const bytes = readFileSync(file);
  const list: Buffer[] = [];
  for (let from = 0; from < bytes.length; ) {
    const to = bytes.indexOf(0, from);
    list.push(bytes.subarray(from, to));
    from = to + 1;
  }
  return list;
}
