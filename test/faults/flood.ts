// As many visits as a number of connections can send, each the next one as soon as the last is answered: an offer
// that has no bound but the number of connections. Cheap, so that it is the service that is busy.

import { connect, type Socket } from 'node:net';

const SESSIONS = 50;

export const floodSession = (i: number) => `flood-${i % SESSIONS}`;

export interface FloodResult {
  readonly sent: number;
  /** Answers by status; `none` where the connection ended under a request. */
  readonly answers: Readonly<Record<string, number>>;
  /** 503 without Retry-After. */
  readonly withoutRetryAfter: number;
  /** Visits acknowledged, per second. */
  readonly goodput: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

/** Begins with all connections open; ends when all are answered, or `hangMs` after the last was sent. */
export async function flood(
  port: number,
  connections: number,
  seconds: number,
  hangMs = 20_000,
): Promise<FloodResult> {
  const requests = Array.from({ length: SESSIONS }, (_, i) => visitOf(floodSession(i)));
  const answers: Record<string, number> = {};
  const latencies: number[] = [];
  let sent = 0;
  let withoutRetryAfter = 0;
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  const began = performance.now();
  const end = began + seconds * 1_000;
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<void>((done) => {
          let at = 0;
          let text = '';
          let busy = false;
          const settle = (status: string) => {
            busy = false;
            answers[status] = (answers[status] ?? 0) + 1;
            latencies.push(performance.now() - at);
          };
          const next = () => {
            at = performance.now();
            if (at >= end) return finish();
            busy = true;
            socket.write(requests[sent++ % SESSIONS] as string);
          };
          const finish = () => {
            clearTimeout(hanging);
            if (busy) settle('none');
            socket.removeAllListeners('close').destroy();
            done();
          };
          const hanging = setTimeout(finish, seconds * 1_000 + hangMs);
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
            next();
          });
          next();
        }),
    ),
  );
  latencies.sort((a, b) => a - b);
  const at = (share: number) =>
    latencies[Math.min(Math.floor(latencies.length * share), latencies.length - 1)] ?? 0;
  return {
    sent,
    answers,
    withoutRetryAfter,
    goodput: Math.round((answers['200'] ?? 0) / ((performance.now() - began) / 1_000)),
    p50Ms: Math.round(at(0.5)),
    p99Ms: Math.round(at(0.99)),
    longestMs: Math.round(at(1)),
  };
}

function visitOf(sessionId: string): string {
  const body = JSON.stringify({ identity: { sessionId }, productHandle: 'x' });
  return `POST /product/visit HTTP/1.1\r\nhost: flood\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** A connection, kept trying for where the server's queue of new ones is full. */
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
