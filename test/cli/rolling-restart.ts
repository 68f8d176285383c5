// Two `serve` processes that share a port and a Redis, as on one machine in production.

import type { Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { MOST_PATIENT_MS, type Part, programPart } from '../faults/service.js';
import { startTestRedis } from '../harness/redis.js';

export interface Two {
  readonly port: number;
  readonly parts: readonly Part[];
}

/** @param env more settings */
export async function startTwo(t: Test, env: NodeJS.ProcessEnv = {}): Promise<Two> {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const port = await freePort();
  const address = { HOST: '127.0.0.1', PORT: String(port), DRAIN_MS: '400' };
  const settings = { REDIS_URL: redis.url, REDIS_TIMEOUT_MS: MOST_PATIENT_MS, ...address, ...env };
  const parts = [1, 2].map((i) => programPart(`serve ${i}`, 'serve', settings));
  t.teardown(() => Promise.all(parts.map((part) => part.stop())));
  for (const part of parts) await part.start();
  return { port, parts };
}

/** Each is stopped with SIGTERM and started again; then comes the next. */
export async function restartInTurn(parts: readonly Part[]): Promise<void> {
  for (const part of parts) {
    await part.stop();
    await part.start();
  }
}
