// A `serve` in a process of its own, on a Redis of its own: for floods that need no more. Needs /proc.

import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import { cpuSeconds } from '../../bench/cpu.js';
import { freePort } from '../../bench/servers/ports.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { KEY, MOST_PATIENT_MS, programPart } from './service.js';

export type ServeAlone = Awaited<ReturnType<typeof startServeAlone>>;

/** @param env more settings */
export async function startServeAlone(t: Test, env: NodeJS.ProcessEnv = {}) {
  const redis = await startTestRedis(t);
  const port = await freePort();
  const part = programPart('serve', 'serve', {
    REDIS_URL: redis.url,
    API_KEYS: KEY,
    HOST: '127.0.0.1',
    PORT: String(port),
    REDIS_TIMEOUT_MS: MOST_PATIENT_MS,
    ...env,
  });
  await part.start();
  t.teardown(() => part.stop());
  const pid = part.pid as number;
  const get = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  return {
    redisUrl: redis.url,
    port,
    get,
    /** Resident memory. */
    megabytes: () =>
      Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
    cpuMs: () => 1_000 * cpuSeconds(pid),
    /** Resolves when no request is open but the one that asks. */
    untilIdle: () =>
      until('no request is open', async () =>
        (await get('/metrics')).includes('\nwishmeter_http_open_requests 1\n'),
      ),
  };
}
