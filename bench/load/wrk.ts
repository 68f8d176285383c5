// Load from wrk: as fast as the server answers, one thread, each connection waiting for its answer before it sends the next
// request. It is a closed loop: for latency at a given rate see steady.ts.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Pool } from '../traffic/pools.js';

const SCRIPT = fileURLToPath(new URL('../../../bench/load/replay.lua', import.meta.url));
const CONNECTIONS = 64;
/** Seconds that a limited replay may take, and that the last answers may take. */
const LONGEST_S = 120;
const LAST_ANSWERS_S = 10;

export interface Replay {
  readonly port: number;
  readonly pool: Pool;
  /** Index of the first request. */
  readonly first?: number;
  /** Ends after so many requests (0: no limit) or so many seconds. */
  readonly requests?: number;
  readonly seconds?: number;
  readonly connections?: number;
  /** The server may refuse requests with 503. */
  readonly maySeeRefusals?: boolean;
}

export interface Answered {
  /** 2xx. With `refused` exactly as many as requests were sent. */
  readonly answers: number;
  readonly refused: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

interface Printed {
  readonly sent: number;
  readonly answered: number;
  readonly refused: number;
  readonly broken: number;
  readonly seconds: number;
  readonly p50Us: number;
  readonly p99Us: number;
}

/** @throws if any request was not answered 2xx, except for refusals that may be */
export async function replay(spec: Replay): Promise<Answered> {
  const { port, pool, first = 0, requests = 0, seconds = LONGEST_S, connections = CONNECTIONS } = spec;
  const wrk = spawn(
    'wrk',
    [
      ...['--threads', '1', '--connections', String(connections)],
      ...['--duration', String(Math.ceil(seconds) + LAST_ANSWERS_S), '--script', SCRIPT],
      ...[`http://127.0.0.1:${port}/`, '--'],
      ...[pool.file, first, requests, seconds, connections].map(String),
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const ended = new Promise<void>((resolve, reject) => wrk.once('error', reject).once('close', resolve));
  const lines: string[] = [];
  let printed: Printed | undefined;
  createInterface({ input: wrk.stderr }).on('line', (line) => lines.push(line));
  createInterface({ input: wrk.stdout }).on('line', (line) => {
    lines.push(line);
    if (line === 'drained') wrk.kill('SIGINT');
    else if (line.startsWith('result ')) printed = JSON.parse(line.slice('result '.length)) as Printed;
  });
  await ended;
  await sleep(0); // for the last lines
  if (printed === undefined) throw new Error(`wrk gave no result: ${lines.slice(-5).join(' | ')}`);
  const { sent, answered, refused, broken, seconds: took } = printed;
  if (
    broken > 0 ||
    (refused > 0 && !spec.maySeeRefusals) ||
    answered !== sent ||
    !lines.includes('drained')
  ) {
    throw new Error(
      `not every request was answered well: ${sent} sent, ${answered} answered, ${refused} with 4xx or 5xx, ${broken} broken`,
    );
  }
  return {
    answers: answered - refused,
    refused,
    perSecond: (answered - refused) / took,
    p50Ms: printed.p50Us / 1_000,
    p99Ms: printed.p99Us / 1_000,
  };
}
