// Supervises a child process: starts it, waits until it is ready, and restarts it after a crash.
//
//   starting ──ready──▶ ready ──dies──▶ died ──back-off──▶ starting …
//   any state ──stop()──▶ SIGTERM ──deadline──▶ SIGKILL ──▶ stopped
//
// The child ends with this process, even after kill -9: GUARD starts a watcher, which reads from a pipe that only this
// process holds. A line means that the child has ended; at end of file the watcher kills the child.
//
// Each child has a process group of its own, so Ctrl-C reaches only this process.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { backoffMs, pause } from '../../backoff.js';
import { StartupError } from '../../errors.js';

const GUARD = `
umask 077
seconds=$1; shift
(
  exec 0<&3 3<&- 4<&- >/dev/null 2>&1
  trap '' HUP INT TERM
  read -r _ && exit
  kill -TERM $$
  while [ "$seconds" -gt 0 ] && kill -0 $$; do sleep 1; seconds=$((seconds - 1)); done
  kill -KILL $$
) &
exec "$@" 3<&-
`;

const STOP_MS = 10_000;
/** If the parent is killed, its child has ended after so many milliseconds. */
export const GONE_MS = STOP_MS + 2_000;
const STEADY_MS = 30_000;
const TAIL_BYTES = 4_096;
/** The prefix of a Redis log line, `<pid>:M <time> # `, and all before it: greedy, so that only the last line stays. */
const BEFORE_REDIS_REASON = /^.*\b\d+:[A-Z] [^#*|]{15,30} [#*] /s;

export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

export type ChildState =
  | { readonly state: 'starting'; readonly pid: number | undefined }
  | { readonly state: 'ready'; readonly pid: number | undefined; readonly afterMs: number }
  | { readonly state: 'died'; readonly reason: string; readonly restartInMs: number }
  | { readonly state: 'stopped'; readonly killed: boolean };

export interface ChildSpec<Ready> {
  readonly name: string;
  readonly command: (last: Ready | undefined) => Command;
  /** Resolves once the child is ready. @param ended aborts when the child has ended or takes too long */
  readonly ready: (child: ChildProcess, ended: AbortSignal) => Promise<Ready>;
  readonly ipc?: boolean;
  /** If set, the output isn't shown, and its end is part of errors. */
  readonly output?: 'tail';
  readonly restart?: boolean | undefined;
  readonly readyMs?: number;
  readonly stopMs?: number;
  readonly onState?: ((state: ChildState) => void) | undefined;
}

export interface Child<Ready> {
  readonly pid: number | undefined;
  readonly ready: Ready;
  stop(): Promise<void>;
}

export type ChildMessage = { readonly ready: true } | { readonly failed: string };

export async function readyOverIpc<Ready extends { ready: true }>(
  child: ChildProcess,
  ended: AbortSignal,
): Promise<Ready> {
  const [message] = (await once(child, 'message', { signal: ended })) as [ChildMessage];
  if ('failed' in message) throw new StartupError(message.failed);
  return message as Ready;
}

export function nodeCommand(module: URL, args: readonly string[], env = process.env): Command {
  return { file: process.execPath, args: [fileURLToPath(module), ...args], env };
}

const NEEDED = /^(PATH|TMPDIR|TZ|LANG|LC_\w+|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH)$/;

/** @returns an environment without secrets, because SQL can read environment variables */
export function bareEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => NEEDED.test(name)));
}

class Run {
  readonly process: ChildProcess;
  readonly exited: Promise<void>;
  readonly startedAt = performance.now();
  readonly #ended = new AbortController();
  #tail = '';
  #reason = '';
  /** The child's own sentence. It may also send one after it was ready. */
  #failed: string | undefined;

  constructor(command: Command, spec: Pick<ChildSpec<never>, 'ipc' | 'output' | 'stopMs'>) {
    const output = spec.output === 'tail' ? 'pipe' : 'inherit';
    const seconds = Math.ceil((spec.stopMs ?? STOP_MS) / 1_000);
    this.process = spawn('/bin/sh', ['-c', GUARD, 'guard', String(seconds), command.file, ...command.args], {
      cwd: command.cwd,
      env: command.env,
      detached: true,
      stdio: ['ignore', output, output, 'pipe', ...(spec.ipc ? (['ipc'] as const) : [])],
    });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#tail = (this.#tail + text).slice(-TAIL_BYTES);
      });
    }
    const guard = this.process.stdio[3] as Duplex;
    guard.on('error', () => {});
    guard.resume(); // otherwise there is no event `close`
    const end = (reason: string) => {
      this.#reason ||= reason;
      this.#ended.abort();
    };
    this.process.on('message', (message: ChildMessage) => {
      if ('failed' in message) this.#failed = message.failed;
    });
    this.process.once('exit', (code, signal) => {
      end(signal ?? `exit code ${code}`);
      guard.end('\n');
    });
    this.process.once('error', (error) => {
      end(error.message);
      guard.destroy();
    });
    // If a child is killed before its guard runs, the pipe may close before the event `exit`.
    const ended = new Promise((resolve) => this.#ended.signal.addEventListener('abort', resolve));
    const closed = new Promise((resolve) => guard.once('close', resolve));
    this.exited = Promise.all([ended, closed]).then(() => {});
  }

  get alive(): boolean {
    return !this.#ended.signal.aborted;
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  get reason(): string {
    if (this.#failed !== undefined) return this.#failed;
    const isCut = this.#tail.length === TAIL_BYTES;
    const whole = isCut ? this.#tail.slice(this.#tail.indexOf('\n') + 1) : this.#tail;
    // A program that retries repeats its message.
    const lines = new Set(whole.trim().split('\n'));
    const words = [...lines].slice(-3).join(' | ').replace(BEFORE_REDIS_REASON, '');
    return words ? `${this.#reason}: ${words}` : this.#reason;
  }

  kill(signal: NodeJS.Signals): void {
    if (this.alive) this.process.kill(signal);
  }
}

/** @throws StartupError if the first start fails */
export async function startChild<Ready>(spec: ChildSpec<Ready>): Promise<Child<Ready>> {
  const { name, readyMs = 120_000, stopMs = STOP_MS, onState = () => {} } = spec;
  const stopping = new AbortController();
  let last: Ready | undefined;
  let run: Run;

  const start = async (): Promise<void> => {
    run = new Run(spec.command(last), spec);
    const { process: child, ended, startedAt } = run;
    onState({ state: 'starting', pid: child.pid });
    const late = AbortSignal.timeout(readyMs);
    try {
      last = await spec.ready(child, AbortSignal.any([ended, late]));
      onState({ state: 'ready', pid: child.pid, afterMs: performance.now() - startedAt });
    } catch (error) {
      run.kill('SIGKILL');
      await run.exited;
      if (error instanceof StartupError) throw error;
      const why = late.aborted ? `not ready after ${readyMs / 1_000} s` : run.reason;
      throw new StartupError(`${name} did not start: ${why}.`);
    }
  };

  const keepRunning = async (): Promise<void> => {
    let failed: string | undefined;
    for (let failures = 0; ; ) {
      await run.exited;
      if (stopping.signal.aborted || spec.restart === false) return;
      failures = performance.now() - run.startedAt > STEADY_MS ? 0 : failures + 1;
      const restartInMs = Math.round(backoffMs(failures));
      // A child that could not start has said why, and was then killed.
      onState({ state: 'died', reason: failed ?? run.reason, restartInMs });
      await pause(restartInMs, stopping.signal);
      if (stopping.signal.aborted) return;
      failed = await start().then(
        () => undefined,
        ({ message }: Error) => message,
      );
    }
  };

  await start();
  const running = keepRunning();

  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    stopping.abort();
    run.kill('SIGTERM');
    let killed = false;
    const timer = setTimeout(() => {
      killed = true;
      run.kill('SIGKILL');
    }, stopMs);
    await running;
    clearTimeout(timer);
    onState({ state: 'stopped', killed });
  };

  return {
    get pid() {
      return run.alive ? run.process.pid : undefined;
    },
    get ready() {
      return last as Ready;
    },
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}
