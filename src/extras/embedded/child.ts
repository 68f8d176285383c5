// Supervises one child process: starts it, waits until it is ready, restarts it after a crash. The child never outlives
// this process, not even after kill -9.
//
//   starting ──ready──▶ ready ──dies──▶ died ──back-off──▶ starting …
//      │ fails (the first time: startChild rejects; later: died)
//   any state ──stop()──▶ SIGTERM ──deadline──▶ SIGKILL ──▶ stopped
//
// The guard: a few lines of sh start a watcher and then `exec` the program. The watcher reads from a pipe that only this
// process holds. A line means that the child has ended; end of file means that this process has died, so the watcher
// ends the child.
//
// Each child has its own process group: Ctrl-C reaches this process alone, which stops its children in order.

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

/** Default milliseconds from SIGTERM to SIGKILL. */
const STOP_MS = 10_000;
/** Milliseconds in which the child of a killed parent ends. */
export const GONE_MS = STOP_MS + 2_000;
/** A child that ran this long starts again with the shortest back-off. */
const STEADY_MS = 30_000;
const TAIL_BYTES = 4_096;
/** Redis and Valkey begin each log line with `<pid>:M <time> # `; only the last line has the reason. */
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
  /** Names the child in errors. */
  readonly name: string;
  /** The command of the next start. @param last what `ready` returned for the previous start (a port to keep, say) */
  readonly command: (last: Ready | undefined) => Command;
  /** Resolves when the child serves. @param ended aborts when the child dies */
  readonly ready: (child: ChildProcess, ended: AbortSignal) => Promise<Ready>;
  /** Opens an IPC channel (Node children). */
  readonly ipc?: boolean;
  /** `inherit` shows the output; `tail` keeps the last lines for errors. */
  readonly output?: 'inherit' | 'tail';
  /** false: no restart after a crash. */
  readonly restart?: boolean;
  /** Milliseconds to become ready. */
  readonly readyMs?: number;
  /** Milliseconds from SIGTERM to SIGKILL. */
  readonly stopMs?: number;
  readonly onState?: (state: ChildState) => void;
}

export interface Child<Ready> {
  /** undefined while no process runs. */
  readonly pid: number | undefined;
  /** Result of the last `ready`. */
  readonly ready: Ready;
  /** SIGTERM, then SIGKILL after the deadline; resolves when the process has ended. Idempotent. */
  stop(): Promise<void>;
}

/** A Node child sends its parent one message: `{ ready: true, … }`, or one sentence why it failed. */
export type ChildMessage = { readonly ready: true } | { readonly failed: string };

/** `ready` for Node children: waits for the ChildMessage. */
export async function readyOverIpc<Ready extends { ready: true }>(
  child: ChildProcess,
  ended: AbortSignal,
): Promise<Ready> {
  const [message] = (await once(child, 'message', { signal: ended })) as [ChildMessage];
  if ('failed' in message) throw new StartupError(message.failed);
  return message as Ready;
}

/** Runs a module of wishmeter in its own process. */
export function nodeCommand(module: URL, args: readonly string[], env = process.env): Command {
  return { file: process.execPath, args: [fileURLToPath(module), ...args], env };
}

/** Variables that a program needs to run; none is a key or a secret. */
const NEEDED = /^(PATH|TMPDIR|TZ|LANG|LC_\w+|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH)$/;

/** The environment of a database, without secrets: SQL can read environment variables. */
export function bareEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => NEEDED.test(name)));
}

/** One process, from its start to its end. */
class Run {
  readonly process: ChildProcess;
  /** Resolves when the program and its watcher have ended. */
  readonly exited: Promise<void>;
  readonly startedAt = performance.now();
  readonly #ended = new AbortController();
  #tail = '';
  #reason = '';

  constructor(command: Command, spec: Pick<ChildSpec<never>, 'ipc' | 'output' | 'stopMs'>) {
    const output = spec.output === 'tail' ? 'pipe' : 'inherit';
    const seconds = Math.ceil((spec.stopMs ?? STOP_MS) / 1_000);
    this.process = spawn('/bin/sh', ['-c', GUARD, 'guard', String(seconds), command.file, ...command.args], {
      ...(command.cwd === undefined ? {} : { cwd: command.cwd }),
      ...(command.env === undefined ? {} : { env: command.env }),
      detached: true,
      stdio: ['ignore', output, output, 'pipe', ...(spec.ipc ? (['ipc'] as const) : [])],
    });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#tail = (this.#tail + text).slice(-TAIL_BYTES);
      });
    }
    const guard = this.process.stdio[3] as Duplex;
    guard.on('error', () => {}); // the watcher may have ended first
    guard.resume(); // or `close` is not emitted
    const end = (reason: string) => {
      this.#reason ||= reason;
      this.#ended.abort();
    };
    this.process.once('exit', (code, signal) => {
      end(signal ?? `exit code ${code}`);
      guard.end('\n');
    });
    this.process.once('error', (error) => {
      end(error.message);
      guard.destroy();
    });
    // The watcher holds the other end of the pipe and ends last.
    this.exited = new Promise((gone) => guard.once('close', gone));
  }

  get alive(): boolean {
    return !this.#ended.signal.aborted;
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Exit code or signal, and the last lines of output. */
  get reason(): string {
    const isCut = this.#tail.length === TAIL_BYTES;
    const whole = isCut ? this.#tail.slice(this.#tail.indexOf('\n') + 1) : this.#tail;
    // A program that retries repeats its message: keep one.
    const lines = new Set(whole.trim().split('\n'));
    const words = [...lines].slice(-3).join(' | ').replace(BEFORE_REDIS_REASON, '');
    return words ? `${this.#reason}: ${words}` : this.#reason;
  }

  kill(signal: NodeJS.Signals): void {
    if (this.alive) this.process.kill(signal);
  }
}

/**
 * Starts a child and keeps it running until `stop()`.
 * @throws StartupError if the first start fails; nothing is left running then
 */
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
    for (let failures = 0; ; ) {
      await run.exited;
      if (stopping.signal.aborted || spec.restart === false) return;
      failures = performance.now() - run.startedAt > STEADY_MS ? 0 : failures + 1;
      const restartInMs = Math.round(backoffMs(failures));
      onState({ state: 'died', reason: run.reason, restartInMs });
      await pause(restartInMs, stopping.signal);
      if (stopping.signal.aborted) return;
      await start().catch(() => {}); // the next round reports `died`
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
