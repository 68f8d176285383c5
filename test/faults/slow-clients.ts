// Clients that take their time, that never end, and that leave, by the thousand. They live in a process of their own,
// which runs this file: who measures the good ones beside them must not wait for them.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Scope } from '../harness/redis.js';
import { open, openMany, requestOf } from './flood.js';

interface SlowClientsSpec {
  readonly port: number;
  readonly count: number;
}

interface SlowClientsResult {
  /** Answers to the slow ones, by status. */
  readonly answers: Readonly<Record<string, number>>;
  /** Clients that left in the middle of a body or of an answer. */
  readonly left: number;
}

const PROGRAM = fileURLToPath(import.meta.url);
/** Each sends something once a second, and not all at the same moment. */
const SLICES = 20;

/** Resolves when all are connected and each has sent its first bytes. */
export async function startSlowClients(t: Scope, spec: SlowClientsSpec) {
  const child = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  await messageOf(child);
  return {
    /** They all go. */
    async end(): Promise<SlowClientsResult> {
      const result = messageOf(child);
      child.send('end');
      return (await result) as SlowClientsResult;
    },
  };
}

async function messageOf(child: ChildProcess): Promise<unknown> {
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the slow clients ended with ${code}`);
  });
  failed.catch(() => {}); // it also ends after its last message
  const [message] = await Promise.race([once(child, 'message'), failed]);
  return message;
}

async function run({ port, count }: SlowClientsSpec): Promise<void> {
  const answers: Record<string, number> = {};
  let left = 0;
  const sockets = await openMany(port, count);
  const texts = sockets.map((_, i) => slowly(i));
  for (const socket of sockets)
    socket.on('data', (data) => {
      const status = String(data).slice(9, 12);
      answers[status] = (answers[status] ?? 0) + 1;
    });
  let slice = 0;
  const drip = () => {
    for (let i = slice % SLICES; i < sockets.length; i += SLICES)
      if (sockets[i]?.writable) sockets[i]?.write(texts[i]?.(Math.floor(slice / SLICES)) ?? '');
    slice++;
  };
  for (let i = 0; i < SLICES; i++) drip();
  setInterval(drip, 1_000 / SLICES);
  const leaving = setInterval(() => void leave(port, left++), 10);
  process.send?.('ready');
  await once(process, 'message');
  clearInterval(leaving);
  await sleep(100); // the last ones have left
  process.send?.({ answers, left }, undefined, {}, () => process.exit(0));
}

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
async function leave(port: number, n: number): Promise<void> {
  const visit = requestOf({ identity: { sessionId: 'leaver' }, productHandle: 'x' });
  const socket = await open(port);
  switch (n % 4) {
    case 0:
      socket.write(visit.slice(0, -9), () => socket.resetAndDestroy());
      break;
    case 1:
      socket.write(visit, () => socket.resetAndDestroy());
      break;
    case 2:
      socket.write(visit, () => socket.destroy());
      break;
    default: // the document is long: it does not read to its end
      socket.once('data', () => socket.resetAndDestroy());
      socket.write('GET /openapi.json HTTP/1.1\r\nhost: leaver\r\n\r\n');
  }
}

if (process.argv[1] === PROGRAM) await run(JSON.parse(process.argv[2] ?? '{}') as SlowClientsSpec);
