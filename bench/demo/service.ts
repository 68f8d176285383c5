// The service that the demo talks to: its own `wishmeter start` on a temp folder and free ports, or the one
// at WISHMETER_URL (with its API_KEY and CLICKHOUSE_URL).

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url));

export interface Service {
  readonly url: string;
  readonly key: string;
  readonly clickhouseUrl: string;
  readonly database: string;
  /** Whether nobody else uses it, so that totals are the demo's own. */
  readonly own: boolean;
  /** Ends the service, if it is the demo's own. */
  stop(): Promise<void>;
}

/** @throws where the settings for another service are not complete, or our own does not start. */
export async function reachService(env: NodeJS.ProcessEnv): Promise<Service> {
  const database = env.CLICKHOUSE_DATABASE ?? 'wishmeter';
  if (env.WISHMETER_URL === undefined) return await startOwn(env, database);
  const { WISHMETER_URL: url, API_KEY: key, CLICKHOUSE_URL: clickhouseUrl } = env;
  if (!key || !clickhouseUrl) throw new Error('WISHMETER_URL needs API_KEY and CLICKHOUSE_URL beside it.');
  return { url, key, clickhouseUrl, database, own: false, stop: async () => {} };
}

async function startOwn(env: NodeJS.ProcessEnv, database: string): Promise<Service> {
  const dir = await mkdtemp(join(tmpdir(), 'wishmeter-demo-'));
  const { API_KEYS: _keys, BASE_PATH: _base, LOG_LEVEL: _level, ...rest } = env;
  const settings = { DATA_DIR: dir, HOST: '127.0.0.1', PORT: '0', CLICKHOUSE_PORT: '0' };
  const child = spawn(process.execPath, [MAIN, 'start'], {
    env: { ...rest, ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true, // Ctrl-C is for the demo, which stops it
  });
  const ended = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    await rm(dir, { recursive: true, force: true });
  };
  for await (const line of createInterface({ input: child.stdout })) {
    const { msg, url, clickhouseUrl } = JSON.parse(line) as Record<string, string>;
    if (msg !== 'ready' || !url || !clickhouseUrl) continue;
    child.stdout.resume(); // what it logs from here on is not read
    const key = (await readFile(join(dir, 'api-key'), 'utf8')).trim();
    return { url, key, clickhouseUrl, database, own: true, stop };
  }
  await stop();
  throw new Error('`wishmeter start` ended before it was ready.');
}
