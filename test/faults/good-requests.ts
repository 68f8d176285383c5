// What visitors notice while other clients misbehave: some clients that count visits, and how long each answer took.

import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../../bench/statistics.js';

const GOOD_CLIENTS = 8;

export interface Good {
  /** Milliseconds, ascending. */
  readonly latencies: readonly number[];
  /** Whatever is not 200. */
  readonly wrong: readonly string[];
}

/** Some clients that count visits, and rest a little in between. */
export async function goodRequests(port: number, seconds: number): Promise<Good> {
  const agent = new Agent({ keepAlive: true, maxSockets: GOOD_CLIENTS });
  const latencies: number[] = [];
  const wrong: string[] = [];
  const end = performance.now() + seconds * 1_000;
  const body = JSON.stringify({ identity: { sessionId: 'good' }, productHandle: 'x' });
  const one = () =>
    new Promise<void>((done) => {
      const at = performance.now();
      const settle = (what: string) => {
        latencies.push(performance.now() - at);
        if (what !== '200') wrong.push(what);
        done();
      };
      const req = request({
        host: '127.0.0.1',
        port,
        agent,
        method: 'POST',
        path: '/product/visit?count=true',
        headers: { 'content-length': body.length },
      });
      req.on('response', (res) => res.resume().on('end', () => settle(String(res.statusCode))));
      req.on('error', (error) => settle(error.message));
      req.end(body);
    });
  await Promise.all(
    Array.from({ length: GOOD_CLIENTS }, async () => {
      for (; performance.now() < end; await sleep(5)) await one();
    }),
  );
  agent.destroy();
  return { latencies: latencies.sort((a, b) => a - b), wrong };
}

export function p99({ latencies }: Good): number {
  return percentile(latencies, 0.99);
}

export function told(good: Good | undefined): string {
  const { latencies } = good as Good;
  const at = (share: number) => percentile(latencies, share).toFixed(1);
  return `${latencies.length} good requests, p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)} ms`;
}
