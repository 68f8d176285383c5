// `serve` processes that share a port and a Redis, as on one machine in production, and a restart of them in turn.

import type { Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { MOST_PATIENT_MS, type Part, programPart } from '../faults/service.js';
import { startTestRedis } from '../harness/redis.js';
import { putUnderLoad } from './shop-under-load.js';

/** @param env more settings */
export async function startServes(t: Test, count: number, env: NodeJS.ProcessEnv = {}) {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const port = await freePort();
  const address = { HOST: '127.0.0.1', PORT: String(port), DRAIN_MS: '400' };
  const settings = { REDIS_URL: redis.url, REDIS_TIMEOUT_MS: MOST_PATIENT_MS, ...address, ...env };
  const parts = Array.from({ length: count }, (_, i) => programPart(`serve ${i + 1}`, 'serve', settings));
  t.teardown(() => Promise.all(parts.map((part) => part.stop())));
  for (const part of parts) await part.start();
  return { port, parts };
}

/** Each is stopped with SIGTERM and started again; then comes the next. No client's request fails. */
export async function restartUnderLoad(t: Test, port: number, parts: readonly Part[], name?: string) {
  const load = putUnderLoad(port, 8, name);
  await load.more(50);
  for (const part of parts) {
    await part.stop();
    await load.more(50);
    await part.start();
  }
  await load.more(50);
  await load.expectExact(t);
}
