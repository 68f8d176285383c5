// `serve` processes that share a Redis, as on one machine in production, and a restart of them in turn under load.

import type { Test } from 'tap';
import { Load } from '../faults/load.js';
import { reconcileVisits } from '../faults/reconcile.js';
import { KEY, kill, MOST_PATIENT_MS, type Part, programPart } from '../faults/service.js';
import { startTestRedis } from '../harness/redis.js';

/** @param ports one for each process; equal ports are shared @param env more settings */
export async function startServes(t: Test, ports: readonly number[], env: NodeJS.ProcessEnv = {}) {
  const redis = await startTestRedis(t);
  const settings = {
    REDIS_URL: redis.url,
    REDIS_TIMEOUT_MS: MOST_PATIENT_MS,
    // As in production: on a busy machine a kept connection may have no request in a shorter drain, and never
    // get `connection: close`.
    DRAIN_MS: '2000',
    HOST: '127.0.0.1',
    API_KEYS: KEY,
  };
  const parts = ports.map((port, i) =>
    programPart(`serve ${i + 1}`, 'serve', { ...settings, PORT: String(port), ...env }),
  );
  t.teardown(() => Promise.all(parts.map((part) => part.pid && kill(part)))); // a stop would drain
  await Promise.all(parts.map((part) => part.start()));
  return parts;
}

export async function restartUnderLoad(t: Test, port: number, parts: readonly Part[]) {
  const url = `http://127.0.0.1:${port}`;
  const load = new Load({ port, key: KEY, seed: 1, connections: 8, restMs: 40 });
  await load.untilServed(50);
  for (const part of parts) {
    await part.stop();
    await load.untilServed(50);
    await part.start();
  }
  await load.untilServed(50);
  await load.stop();
  t.same(Object.keys(load.answers), ['200'], `no request failed: ${load}`);
  t.same(
    [...load.faults, ...(await reconcileVisits([load], { url, key: KEY }))],
    [],
    'each visit counts once',
  );
}
