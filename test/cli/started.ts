// A real `wishmeter start` on a folder and free ports of its own, for tests.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { settingsBesideOthers } from '../../bench/servers/wishmeter.js';
import { MOST_PATIENT_MS } from '../faults/service.js';
import { forFetch } from '../harness/clickhouse.js';
import { ask } from '../harness/client.js';
import type { Scope } from '../harness/redis.js';
import { type Send, type Shop, shopClient } from '../harness/shop.js';
import { type Process, processesOf } from './processes.js';
import { type Ended, type Running, spawnWishmeter, until } from './wishmeter.js';

interface ReadyLine {
  readonly url: string;
  readonly clickhouseUrl: string;
  readonly dashboardUrl: string;
  readonly afterMs: number;
}

export interface Started extends ReadyLine {
  readonly running: Running;
  readonly dir: string;
  stop(): Promise<Ended>;
}

/** A call to a killed service ends after this time, so that a test can try again. */
const CALL_MS = 30_000;

export function startSettings(dir: string): NodeJS.ProcessEnv {
  const pace = { REDIS_TIMEOUT_MS: MOST_PATIENT_MS, FLUSH_INTERVAL_MS: '500' };
  return { ...settingsBesideOthers(dir), ...pace };
}

export async function started(t: Scope, dir: string, env: NodeJS.ProcessEnv = {}): Promise<Started> {
  const running = spawnWishmeter({ args: ['start'], env: { ...startSettings(dir), ...env } });
  t.teardown(async () => {
    running.child.kill('SIGKILL');
    await running.ended;
    await nothingLeft(dir);
  });
  const line = await running.logged('ready');
  const stop = () => {
    running.child.kill('SIGTERM');
    return running.ended;
  };
  return { ...(line as unknown as ReadyLine), running, dir, stop };
}

/**
 * The processes of a folder. Pauses after, because reading all of /proc costs as much CPU as starting a
 * process.
 */
async function pollProcesses(dir: string): Promise<Process[]> {
  const processes = await processesOf(dir);
  await sleep(100);
  return processes;
}

export async function nothingLeft(dir: string, withinMs = 60_000): Promise<void> {
  try {
    await until(`nothing of ${dir} is left`, async () => (await pollProcesses(dir)).length === 0, withinMs);
  } catch {
    throw new Error(`left of ${dir} after ${withinMs} ms: ${JSON.stringify(await processesOf(dir))}`);
  }
}

export async function killAndAwaitNext(dir: string, title: RegExp): Promise<void> {
  const living = async () => {
    const all = await pollProcesses(dir);
    return all.filter((process) => title.test(process.title)).map(({ pid }) => pid);
  };
  const before = await until(`${title} is there`, async () => {
    const pids = await living();
    return pids.length > 0 && pids;
  });
  for (const pid of before) process.kill(pid, 'SIGKILL');
  await until(`another ${title}`, async () => {
    const next = (await living()).filter((pid) => !before.includes(pid));
    return next.length === before.length;
  });
}

export function shopAt(url: string, key: string): Shop {
  const port = Number(new URL(url).port);
  const send: Send = (method, path, body, headers) => {
    const all = { 'content-type': 'application/json', ...headers };
    return ask(port, method, path, { body, headers: all, signal: AbortSignal.timeout(CALL_MS) });
  };
  return shopClient(send, { 'x-api-key': key });
}

export async function apiKey(dir: string): Promise<string> {
  return (await readFile(join(dir, 'api-key'), 'utf8')).trim();
}

export async function sql(clickhouseUrl: string, query: string): Promise<string> {
  const { origin, headers } = forFetch(clickhouseUrl);
  const answer = await fetch(`${origin}/?database=wishmeter`, {
    method: 'POST',
    headers: new URL(clickhouseUrl).username === '' ? {} : headers,
    body: query,
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text.trim();
}
