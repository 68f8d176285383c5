// One supervised child process: it starts, says when it is ready, is started again when it dies on
// its own, and never outlives this process, however this process ends (kill -9 included).
//
//   starting ──ready──▶ ready ──dies──▶ died ──back-off──▶ starting …
//      │ fails (the first time: startChild rejects; later: died)
//   any state ──stop()──▶ SIGTERM ──deadline──▶ SIGKILL ──▶ stopped
//
// The guard. A child is not told that its parent was killed, and a program that is not ours will not
// watch for it. So each child is started by a few lines of sh, which leave a watcher beside it and then
// *become* the program (exec: its pid, its exit and its signals are the child's own). The watcher
// sleeps in `read` on a pipe that only this process holds: a line says that the child has ended and the
// watcher may go, the end of file says that this process has ended, and the watcher ends the child.
//
// Children get a process group of their own: Ctrl-C reaches this process alone, which stops them in order.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { backoffMs, pause } from '../backoff.js';
import { StartupError } from '../errors.js';

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

/** Milliseconds from SIGTERM to SIGKILL, where nothing else is said. */
const STOP_MS = 10_000;
/** Milliseconds after which a child is gone whose parent was killed; its watcher looks once a second. */
export const GONE_MS = STOP_MS + 2_000;
/** A child that lived this long has its failures forgotten. */
const STEADY_MS = 30_000;
const TAIL_BYTES = 4_096;
/** Redis and Valkey begin each line of their log with `<pid>:M <time> # `, and only the last one is the reason. */
const BEFORE_REDIS_REASON = /^.*\b\d+:[A-Z] [^#*|]{15,30} [#*] /s;

/** What to run. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** What happened to the child, for logs and for callers that wait. */
export type ChildState =
  | { readonly state: 'starting'; readonly pid: number | undefined }
  | { readonly state: 'ready'; readonly pid: number | undefined; readonly afterMs: number }
  | { readonly state: 'died'; readonly reason: string; readonly restartInMs: number }
  | { readonly state: 'stopped'; readonly killed: boolean };

export interface ChildSpec<Ready> {
  /** Names the child in errors. */
  readonly name: string;
  /** The command of the next start; `last` is what the previous one answered when it was ready (a port to keep, say). */
  readonly command: (last: Ready | undefined) => Command;
  /** Resolves when the child serves; `ended` aborts when it has died. See `readyOverIpc`. */
  readonly ready: (child: ChildProcess, ended: AbortSignal) => Promise<Ready>;
  /** Whether it gets an IPC channel (Node children). */
  readonly ipc?: boolean;
  /** `inherit` shows what it writes; `tail` keeps the last lines for errors. */
  readonly output?: 'inherit' | 'tail';
  /** false: once it has died it stays dead. */
  readonly restart?: boolean;
  /** Milliseconds that it may take to be ready. */
  readonly readyMs?: number;
  /** Milliseconds from SIGTERM to SIGKILL. */
  readonly stopMs?: number;
  readonly onState?: (state: ChildState) => void;
}

export interface Child<Ready> {
  /** Pid of the running process; undefined while there is none. */
  readonly pid: number | undefined;
  /** What the child last said when it was ready. */
  readonly ready: Ready;
  /** SIGTERM, then SIGKILL after the deadline; resolves when the process is gone. May be called again. */
  stop(): Promise<void>;
}

/** What a Node child sends its parent, once: `process.send({ ready: true, … })` or one sentence on why it can't. */
export type ChildMessage = { readonly ready: true } | { readonly failed: string };

/** `ready` for Node children: waits for their ChildMessage. */
export async function readyOverIpc<Ready extends { ready: true }>(
  child: ChildProcess,
  ended: AbortSignal,
): Promise<Ready> {
  const [message] = (await once(child, 'message', { signal: ended })) as [ChildMessage];
  if ('failed' in message) throw new StartupError(message.failed);
  return message as Ready;
}

/** The command that runs one of our own modules in a process of its own. */
export function nodeCommand(module: URL, args: readonly string[], env = process.env): Command {
  return { file: process.execPath, args: [fileURLToPath(module), ...args], env };
}

/** What a program needs of our environment to run, and nothing else: no key, no secret. */
const NEEDED = /^(PATH|TMPDIR|TZ|LANG|LC_\w+|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH)$/;

/** The environment of a database: what it can be made to tell is not worth asking for. */
export function bareEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => NEEDED.test(name)));
}

/** One process, from its start to its end. */
class Run {
  readonly process: ChildProcess;
  /** Its watcher, too. */
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
    guard.on('error', () => {}); // it may have gone first
    guard.resume(); // so that its end is seen
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
    // The watcher has the other end of the pipe, and goes last.
    this.exited = new Promise((gone) => guard.once('close', gone));
  }

  get alive(): boolean {
    return !this.#ended.signal.aborted;
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** How it ended, and its last words. */
  get reason(): string {
    const isCut = this.#tail.length === TAIL_BYTES;
    const whole = isCut ? this.#tail.slice(this.#tail.indexOf('\n') + 1) : this.#tail;
    // What was tried again and failed in the same way is said once.
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
 * @throws StartupError where it fails before it was ready the first time; nothing is left running then.
 */
export async function startChild<Ready>(spec: ChildSpec<Ready>): Promise<Child<Ready>> {
  const { name, readyMs = 30_000, stopMs = STOP_MS, onState = () => {} } = spec;
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
      await start().catch(() => {}); // told as `died` on the next round
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
