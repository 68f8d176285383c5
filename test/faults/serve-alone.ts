// A `serve` in a process of its own, on a Redis of its own: for floods that need no more.

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { startTestRedis } from '../harness/redis.js';
import { KEY, MOST_PATIENT_MS, programPart } from './service.js';

export interface ServeAlone {
  readonly port: number;
  readonly redisUrl: string;
  get(path: string): Promise<string>;
  /** Resident memory. Needs /proc. */
  megabytes(): number;
  isAlive(): boolean;
  /** Requests that are not answered yet, the one that asks included. */
  openRequests(): Promise<number>;
  /** Milliseconds of CPU that the process has used so far, after a second of rest. */
  cpuMs(): Promise<number>;
}

/** A little more than `/metrics` stays as it was. */
const FIGURES_LAST_MS = 1_010;

/** @param env more settings */
export async function startServeAlone(t: Test, env: NodeJS.ProcessEnv = {}): Promise<ServeAlone> {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
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
  const get = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  return {
    redisUrl: redis.url,
    port,
    get,
    megabytes: () => residentMegabytes(part.pid),
    isAlive: () => part.pid !== undefined,
    async cpuMs() {
      await sleep(FIGURES_LAST_MS);
      return 1_000 * Number(/^process_cpu_seconds_total (\S+)$/m.exec(await get('/metrics'))?.[1]);
    },
    async openRequests() {
      await sleep(FIGURES_LAST_MS);
      return Number(/^wishmeter_http_open_requests (\d+)$/m.exec(await get('/metrics'))?.[1]);
    },
  };
}

/** NaN where there is no such process. */
export function residentMegabytes(pid: number | undefined): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
  } catch {
    return Number.NaN;
  }
}
