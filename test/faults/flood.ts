// As many visits as a number of connections can send, each the next one as soon as the last is answered: an offer
// that has no bound but the number of connections. Cheap, so that it is the service that is busy. With a rest after each
// answer they are the visitors beside something else.

import { connect, type Socket } from 'node:net';
import { percentile } from '../../bench/statistics.js';

const SESSIONS = 50;
const OPENED_AT_ONCE = 100;

export const floodSession = (i: number) => `flood-${i % SESSIONS}`;

export interface FloodSpec {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  /** Milliseconds that each connection rests after an answer. */
  readonly restMs?: number;
  /** Bytes that a visit brings along: they are written as they are, and the service has to parse them. */
  readonly luggage?: number;
}

export type FloodResult = Awaited<ReturnType<typeof flood>>;

/** A request without an answer for this long hangs. */
const HANG_MS = 20_000;

/** Begins with all connections open; ends when all are answered, or hang. */
export async function flood({ port, connections, seconds, restMs = 0, luggage = 0 }: FloodSpec) {
  const requests = Array.from({ length: SESSIONS }, (_, i) => visitOf(floodSession(i), luggage));
  const sockets = await openMany(port, connections);
  /** By status; `none` where the connection ended under a request. */
  const answers: Record<string, number> = {};
  const latencies: number[] = [];
  let sent = 0;
  let withoutRetryAfter = 0;
  const began = performance.now();
  const end = began + seconds * 1_000;
  const run = (socket: Socket) =>
    new Promise<void>((done) => {
      let at = 0;
      let text = '';
      let isBusy = false;
      const settle = (status: string) => {
        isBusy = false;
        answers[status] = (answers[status] ?? 0) + 1;
        latencies.push(performance.now() - at);
      };
      const finish = () => {
        clearTimeout(hanging);
        if (isBusy) settle('none');
        socket.removeAllListeners('close').destroy();
        done();
      };
      const hanging = setTimeout(finish, seconds * 1_000 + HANG_MS);
      const next = () => {
        at = performance.now();
        if (at >= end) return finish();
        isBusy = true;
        socket.write(requests[sent++ % SESSIONS] as string);
      };
      socket.on('close', finish);
      socket.on('data', (data) => {
        text += data;
        const head = text.indexOf('\r\n\r\n');
        if (head < 0) return;
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? 0);
        if (text.length < head + 4 + length) return;
        const status = text.slice(9, 12);
        if (status === '503' && !/\r\nretry-after: [1-9]/i.test(text)) withoutRetryAfter++;
        text = '';
        settle(status);
        if (restMs > 0) setTimeout(next, restMs);
        else next();
      });
      next();
    });
  await Promise.all(sockets.map(run));
  latencies.sort((a, b) => a - b);
  return {
    sent,
    answers,
    withoutRetryAfter,
    /** Visits acknowledged per second. */
    goodput: Math.round((answers['200'] ?? 0) / ((performance.now() - began) / 1_000)),
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    longestMs: latencies.at(-1) ?? 0,
  };
}

function visitOf(sessionId: string, luggage: number): string {
  const more = Array.from({ length: Math.ceil(luggage / 40) }, (_, i) => ({
    handle: `h${i}`,
    price: '12.50',
  }));
  return requestOf({ identity: { sessionId }, productHandle: 'x', more });
}

export function requestOf(visit: object): string {
  const body = JSON.stringify(visit);
  return `POST /product/visit HTTP/1.1\r\nhost: flood\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** Connections, opened some at a time: the server's queue of new ones is short. */
export async function openMany(port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const length = Math.min(OPENED_AT_ONCE, count - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length }, () => open(port)))));
  }
  return sockets;
}

export async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  socket.setEncoding('latin1');
  socket.on('error', () => socket.destroy());
  return socket;
}
