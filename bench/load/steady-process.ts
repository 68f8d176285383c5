// The process behind steady.ts: reads its order from the command line, sends its result to its parent, ends.

import { readFileSync } from 'node:fs';
import { createRandom } from '../demo/random.js';
import { percentile } from '../statistics.js';
import { runArrivals } from './arrivals.js';
import { Connection } from './connection.js';
import type { SteadyOrder, SteadyResult, Timed } from './steady.js';

const CONNECTIONS = 256;
/** Milliseconds that the last answers may take. */
const LAST_ANSWERS_MS = 10_000;
const SLOWEST = 100;

const order = JSON.parse(process.argv[2] ?? '{}') as SteadyOrder;
const requests = readRequests(order.file);

const free: Connection[] = [];
const waiting: number[] = []; // intended times
let waitingFrom = 0;
let mostWaiting = 0;
let sent = 0;
let answered = 0;
let failed = 0;
// All are kept, and those of the time that is not measured left out at the end: code that is new when the measuring
// begins, or an array that grows, holds up the generator just then.
const room = Math.ceil((order.settleSeconds + order.seconds) * order.rate * 1.5) + 1_000;
const noted = () => ({ due: new Float64Array(room), ms: new Float64Array(room), count: 0 });
const answeredAfter = noted();
const sentAfter = noted();
/** How late those of answeredAfter were sent. */
const sentMs = new Float64Array(room);

const connections = await Promise.all(
  Array.from({ length: CONNECTIONS }, () => Connection.open(order.port, settled)),
);
free.push(...connections);

const begin = performance.now() + 5;
const measured = begin + order.settleSeconds * 1_000;
const end = measured + order.seconds * 1_000;
await runArrivals({
  rate: order.rate,
  begin,
  end,
  random: createRandom(order.port),
  arrive: send,
  isOver: (now) => answered + failed === sent || now > end + LAST_ANSWERS_MS,
});
finish();

function send(intended: number): void {
  sent++;
  note(sentAfter, intended);
  const connection = free.pop();
  if (connection !== undefined) {
    connection.send(requests[sent % requests.length] as Buffer, intended);
    return;
  }
  waiting.push(intended);
  mostWaiting = Math.max(mostWaiting, waiting.length - waitingFrom);
}

function settled(connection: Connection, intended: number, ok: boolean): void {
  if (ok) answered++;
  else failed++;
  sentMs[answeredAfter.count] = connection.sentAt - intended;
  note(answeredAfter, intended);
  if (waitingFrom === waiting.length) {
    free.push(connection);
    return;
  }
  connection.send(requests[answered % requests.length] as Buffer, waiting[waitingFrom++] as number);
}

/** Notes how long after it was due something has happened. */
function note(list: typeof sentAfter, due: number): void {
  list.due[list.count] = due;
  list.ms[list.count++] = performance.now() - due;
}

/** Of what was due in the measured time, milliseconds, in order. */
function measuredOf({ due, ms, count }: typeof sentAfter): Float64Array {
  return ms
    .subarray(0, count)
    .filter((_, i) => (due[i] as number) >= measured)
    .sort();
}

/** Those of the measured ones that took longest. */
function slowest({ due, ms, count }: typeof answeredAfter): Timed[] {
  const clock = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  return Array.from({ length: count }, (_, i) => i)
    .filter((i) => (due[i] as number) >= measured)
    .sort((a, b) => (ms[b] as number) - (ms[a] as number))
    .slice(0, SLOWEST)
    .map((i) => {
      const at = clock + (due[i] as number);
      return { due: at, sent: at + (sentMs[i] as number), answered: at + (ms[i] as number) };
    });
}

function finish(): void {
  const latencies = measuredOf(answeredAfter);
  const lateness = measuredOf(sentAfter);
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
    slowest: slowest(answeredAfter),
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
