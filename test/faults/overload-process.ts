// The process behind overload.ts: its spec is its argument, as JSON; it sends its result to its parent and ends.

import type { Socket } from 'node:net';
import { createRandom } from '../../bench/demo/random.js';
import { runArrivals } from '../../bench/load/arrivals.js';
import { percentile } from '../../bench/statistics.js';
import { open } from './flood.js';
import type { Entry } from './load.js';
import type { Overload, OverloadResult, Times } from './overload.js';

const SESSIONS = 50;
/** One in so many is an event, which is small; the others are visits. */
const EVENT_EVERY = 50;
/** Bytes that a visit brings along. */
const LUGGAGE = 8 * 1024;
/** Milliseconds that a request waits for a connection. */
const PATIENCE_MS = 1_000;
/** Longer than anything may take; a guard against what hangs, not a promise of speed. */
const HANG_MS = 20_000;
const OPENED_AT_ONCE = 100;

const spec = JSON.parse(process.argv[2] ?? '{}') as Overload;

interface Line {
  socket: Socket;
  text: string;
  /** What is asked; undefined while the connection is free. */
  asked: Entry | undefined;
  sentAt: number;
  dueAt: number;
}

const visits = new Map<string, Entry>();
const events = new Map<string, Entry>();
const answers: Record<string, number> = {};
const answered: number[] = [];
const dueToAnswered: number[] = [];
const late: number[] = [];
let [due, sent, turnedAway, underWay, withoutRetryAfter, acknowledgedInTime] = [0, 0, 0, 0, 0, 0];

const luggage = JSON.stringify(
  Array.from({ length: Math.ceil(LUGGAGE / 40) }, (_, i) => ({ handle: `h${i}`, price: '12.50', seen: i })),
);
const requests = Array.from({ length: SESSIONS }, (_, i) => {
  const [sessionId, productHandle] = [`${spec.name}${i}`, 'x'];
  const entry: Entry = { sent: 0, acknowledged: 0 };
  visits.set(`${sessionId} ${productHandle}`, entry);
  const identity = JSON.stringify({ sessionId });
  const body = `{"identity":${identity},"productHandle":"${productHandle}","luggage":${luggage}}`;
  return { entry, bytes: Buffer.from(requestOf('/product/visit', body)) };
});

const free: Line[] = [];
const waiting: number[] = []; // when they were due
let waitingFrom = 0;
for (let i = 0; i < spec.connections; i += OPENED_AT_ONCE) {
  const batch = Math.min(OPENED_AT_ONCE, spec.connections - i);
  free.push(...(await Promise.all(Array.from({ length: batch }, openLine))));
}

const { user, system } = process.cpuUsage();
const begin = performance.now();
const end = begin + spec.seconds * 1_000;
if (spec.rate === undefined) for (const line of free.splice(0)) ask(line, begin);
await runArrivals({
  rate: spec.rate ?? Number.MIN_VALUE, // no arrivals
  begin,
  end,
  random: createRandom(spec.port),
  arrive,
  isOver(now) {
    if (now < end) return false;
    dropImpatient(now);
    return (underWay === 0 && waitingFrom === waiting.length) || now > end + HANG_MS;
  },
});
const took = (performance.now() - begin) / 1_000;
const used = process.cpuUsage({ user, system });
if (underWay > 0) answers['hangs'] = underWay;
const result: OverloadResult = {
  due,
  sent,
  turnedAway,
  answers,
  withoutRetryAfter,
  goodput: acknowledgedInTime / spec.seconds,
  answered: timesOf(answered),
  dueToAnswered: timesOf(dueToAnswered),
  lateP99: spec.rate === undefined ? 0 : timesOf(late).p99,
  cpu: (used.user + used.system) / 1e6 / took,
  events,
  visits,
};
process.send?.(result, undefined, {}, () => process.exit(0));

function arrive(dueAt: number): void {
  const now = performance.now();
  due++;
  late.push(now - dueAt);
  dropImpatient(now);
  const line = free.shift(); // in turns: the server ends a connection that was idle for 10 s, maybe just as we write
  if (line === undefined) waiting.push(dueAt);
  else ask(line, dueAt);
}

function dropImpatient(now: number): void {
  for (; waitingFrom < waiting.length && now - (waiting[waitingFrom] as number) > PATIENCE_MS; waitingFrom++)
    turnedAway++;
}

function ask(line: Line, dueAt: number): void {
  line.sentAt = performance.now();
  line.dueAt = dueAt;
  underWay++;
  if (spec.rate === undefined) due++;
  if (++sent % EVENT_EVERY === 0) {
    line.asked = { sent: 1, acknowledged: 0 };
    const productId = `${spec.name}e${sent}`;
    events.set(productId, line.asked);
    const identity = { sessionId: `${spec.name}${sent % SESSIONS}` };
    line.socket.write(requestOf('/event', JSON.stringify({ identity, type: 'add', payload: { productId } })));
    return;
  }
  const { entry, bytes } = requests[sent % SESSIONS] as { entry: Entry; bytes: Buffer };
  line.asked = entry;
  entry.sent++;
  line.socket.write(bytes);
}

function settle(line: Line, status: string): void {
  const now = performance.now();
  underWay--;
  answers[status] = (answers[status] ?? 0) + 1;
  answered.push(now - line.sentAt);
  dueToAnswered.push(now - line.dueAt);
  if (status === '200') {
    (line.asked as Entry).acknowledged++;
    if (now <= end) acknowledgedInTime++;
  }
  line.asked = undefined;
}

/** What the connection does next. */
function goOn(line: Line): void {
  const now = performance.now();
  dropImpatient(now);
  if (spec.rate === undefined && now < end) ask(line, now);
  else if (waitingFrom < waiting.length) ask(line, waiting[waitingFrom++] as number);
  else free.push(line);
}

async function openLine(): Promise<Line> {
  const line: Line = { socket: await open(spec.port), text: '', asked: undefined, sentAt: 0, dueAt: 0 };
  listen(line);
  return line;
}

function listen(line: Line): void {
  line.socket.on('data', (part) => {
    line.text += part;
    const head = line.text.indexOf('\r\n\r\n');
    if (head < 0) return;
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(line.text)?.[1] ?? 0);
    if (line.text.length < head + 4 + length) return;
    const status = line.text.slice(9, 12);
    if (status === '503' && !/\r\nretry-after: [1-9]/i.test(line.text)) withoutRetryAfter++;
    line.text = '';
    settle(line, status);
    goOn(line);
  });
  // One that was closed is opened anew: the crowd is not smaller for it.
  line.socket.once('close', async () => {
    const at = free.indexOf(line);
    if (at >= 0) free.splice(at, 1);
    line.text = '';
    if (line.asked !== undefined) settle(line, 'none');
    try {
      line.socket = await open(spec.port);
    } catch {
      return;
    }
    listen(line);
    goOn(line);
  });
}

function requestOf(path: string, body: string): string {
  const head = `POST ${path} HTTP/1.1\r\nhost: crowd\r\nx-api-key: ${spec.key}\r\n`;
  return `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function timesOf(values: number[]): Times {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number) => (sorted.length === 0 ? 0 : percentile(sorted, share));
  return { p50: at(0.5), p99: at(0.99), longest: at(1) };
}
