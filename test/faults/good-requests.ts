// What visitors notice while other clients misbehave: some clients that count visits, and how long each answer took.

import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../../bench/statistics.js';

const GOOD_CLIENTS = 8;
const BODY = JSON.stringify({ identity: { sessionId: 'good' }, productHandle: 'x' });

/** Some clients that count visits, and rest a little in between. @returns times in milliseconds, what was not 200 */
export async function goodRequests(port: number, seconds: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: GOOD_CLIENTS });
  const latencies: number[] = [];
  const wrong: string[] = [];
  const end = performance.now() + seconds * 1_000;
  const one = () =>
    new Promise<string>((done) => {
      const path = '/product/visit?count=true';
      const headers = { 'content-length': BODY.length };
      request({ host: '127.0.0.1', port, agent, method: 'POST', path, headers })
        .on('response', (res) => res.resume().on('end', () => done(String(res.statusCode))))
        .on('error', (error) => done(error.message))
        .end(BODY);
    });
  await Promise.all(
    Array.from({ length: GOOD_CLIENTS }, async () => {
      for (; performance.now() < end; await sleep(5)) {
        const at = performance.now();
        const status = await one();
        latencies.push(performance.now() - at);
        if (status !== '200') wrong.push(status);
      }
    }),
  );
  agent.destroy();
  latencies.sort((a, b) => a - b);
  const [p50, p99, longest] = [0.5, 0.99, 1].map((share) => percentile(latencies, share)) as [
    number,
    number,
    number,
  ];
  const shown = `${latencies.length} good requests, p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, longest ${longest.toFixed(1)} ms`;
  return { wrong, p99, shown };
}
