// Runs the real command line, as a shell would: `node dist/src/main.js …` in a process of its own.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { Scope } from '../harness/redis.js';
import { until } from '../harness/until.js';

export { until };

export const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url));

/** Nothing of the caller's settings, so that a test means the same everywhere. */
const BARE_ENV = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  TMPDIR: process.env.TMPDIR,
  // A folder that does not exist: the working directory may have that of `make run`.
  DATA_DIR: join(tmpdir(), `wm-no-data-${process.pid}`),
};

/** Kills the children of a test that is cut short. */
const living = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL');
});
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(1));

/** Environment of a command that gets a signal in the very moment in which it tells its parent that it is ready. */
export const STOPPED_ONCE_READY = {
  NODE_OPTIONS: `--import="data:text/javascript,process.send=()=>process.kill(process.pid,'SIGTERM')"`,
};

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Invocation {
  /** Another version's main.js. */
  readonly main?: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly stdin?: string;
}

export async function wishmeter(invocation: Invocation): Promise<Ended> {
  const running = spawnWishmeter(invocation);
  return await running.ended;
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout(): string;
  /** The first line of its log with this message. Rejects if it ends without one. */
  logged(message: string): Promise<LogLine>;
}

/** The sentence of a command that failed, from plain text or from a JSON log. */
export function failureIn(stderr: string): string {
  const [, sentence] = /^wishmeter: ([^\n]+)\n$/.exec(stderr) ?? [];
  return sentence ?? String(logLines(stderr)[0]?.['msg']);
}

export type LogLine = Readonly<Record<string, unknown>>;

export function logLines(stdout: string): LogLine[] {
  const lines = stdout.split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line));
}

export function spawnWishmeter({ main = MAIN, args, env = {}, stdin }: Invocation): Running {
  const child = spawn(process.execPath, [main, ...args], { env: { ...BARE_ENV, ...env } });
  living.add(child);
  child.once('exit', () => living.delete(child));
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => {}).end(stdin ?? '');
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }) as Ended);
  let hasEnded = false;
  void ended.then(() => {
    hasEnded = true;
  });
  const logged = (message: string) =>
    until(`${args[0]} logs "${message}"`, () => {
      const line = logLines(stdout).find(({ msg }) => msg === message);
      if (line === undefined && hasEnded) throw new Error(`${args[0]} ended: ${stderr}${stdout}`);
      return line;
    });
  return { child, ended, logged, stdout: () => stdout };
}

/** A command that runs on until the test ends, if it does not end before. */
export function runWishmeter(t: Scope, invocation: Invocation): Running {
  const running = spawnWishmeter(invocation);
  t.teardown(async () => {
    running.child.kill('SIGKILL');
    await running.ended;
  });
  return running;
}

/** A command on a terminal of its own, which script(1) of util-linux makes. @param command for a shell */
export function onTerminal(t: Test, command: string, env: NodeJS.ProcessEnv = {}) {
  const terminal = spawn('script', ['-qec', `exec ${process.execPath} ${MAIN} ${command}`, '/dev/null'], {
    env: { PATH: process.env.PATH, ...env },
  });
  let screen = '';
  terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text.replaceAll('\r', '');
  });
  const ended = once(terminal, 'close');
  t.teardown(() => void terminal.kill('SIGKILL'));
  return {
    screen: () => screen,
    async ended(code = 0) {
      t.same(await ended, [code, null]);
      return screen;
    },
    ctrlC: () => void terminal.stdin.write('\u0003'),
  };
}

export async function tempDir(t: Scope): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'wm-cli-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}
