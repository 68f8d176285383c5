// How long `wishmeter start` takes on an empty folder, installed, until it says that it is ready.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Bench } from '../bench.js';
import { settingsBesideOthers } from '../servers/beside-others.js';
import { ROOT } from '../servers/wishmeter.js';
import { median } from '../statistics.js';

const ROUNDS = 3;

export interface Start {
  readonly readyMs: number;
}

export async function measureStart({ folder, say, settings }: Bench): Promise<Start> {
  const took: number[] = [];
  for (let round = 0; round < (settings.quick ? 1 : ROUNDS); round++) took.push(await startOnce(folder()));
  const readyMs = median(took);
  say(`ready ${Math.round(readyMs)} ms after start`);
  return { readyMs };
}

async function startOnce(dir: string): Promise<number> {
  await mkdir(dir);
  const { PATH, HOME, TMPDIR } = process.env;
  const began = performance.now();
  const child = spawn(process.execPath, [fileURLToPath(new URL('dist/src/main.js', ROOT)), 'start'], {
    env: { PATH, HOME, TMPDIR, ...settingsBesideOthers(dir) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let readyMs: number | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if ((JSON.parse(line) as { msg?: string }).msg !== 'ready') continue;
    readyMs = performance.now() - began;
    break;
  }
  child.stdout.resume();
  child.kill('SIGTERM');
  await ended;
  if (readyMs === undefined) throw new Error('`wishmeter start` ended before it was ready');
  return readyMs;
}
