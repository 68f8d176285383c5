// What a command gets of the process that it runs in, so that a command is a function from a Program to an exit code.
// src/main.ts makes the one real Program. Only src/embedded/ uses `process` beside it, to run databases.

import type { Readable, Writable } from 'node:stream';
import type { Logger } from 'pino';
import { Waiting } from '../app/waiting.js';
import { StartupError } from '../errors.js';
import type { CommandName, ConfigOf, OptionsOf } from './command-line.js';
import type { Channel } from './siblings.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** How the process was asked to end. */
export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** @template Name the command that it is for */
export interface Program<Name extends CommandName> {
  readonly options: OptionsOf<Name>;
  /** The arguments beside options. */
  readonly operands: readonly string[];
  /** For child processes. Settings are in `config`. */
  readonly env: Environment;
  /** Read from `env` before the command runs: the settings that `--help` of the command lists, and no other. */
  readonly config: ConfigOf<Name>;
  readonly version: string;
  readonly pid: number;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly log: Logger;
  /**
   * Resolves at the first signal. A second one ends the process, after what `beforeForcedExit` was given.
   * Before the first call signals do what they do by default.
   */
  untilStopped(): Promise<StopSignal>;
  beforeForcedExit(last: () => void): void;
  /** Tells the parent, where there is one that listens, that this process serves. */
  ready(message: object): void;
  /** To the parent, where `start` runs this process beside others of its kind. */
  readonly channel: Channel | undefined;
  /** Aborts where that parent has gone: its successor waits for what this process holds. */
  readonly orphaned: AbortSignal;
  /** Sends a signal to a process that may be gone. */
  kill(pid: number, signal: NodeJS.Signals): void;
}

/**
 * Starts a process that waits for its databases. A child of `start` does not wait: its parent says why it can't start.
 * @returns undefined if a signal came first
 */
export async function startWaiting<T>(
  { channel, log, untilStopped }: Pick<Program<CommandName>, 'channel' | 'log' | 'untilStopped'>,
  start: (waiting: Waiting | undefined) => Promise<T>,
): Promise<T | undefined> {
  if (channel !== undefined) return await start(undefined);
  const stopped = untilStopped().then((signal) => {
    log.info({ signal }, 'stopping');
    return undefined;
  });
  return await Promise.race([start(new Waiting(log)), stopped]);
}

/** Runs to its end and says how it went; 0 is well. */
export type Command<Name extends CommandName> = (program: Program<Name>) => Promise<number>;

/** @throws StartupError that names the settings which are empty: this command can't do without them. */
export function requireSettings(
  command: CommandName,
  settings: Readonly<Record<string, string | readonly string[]>>,
): void {
  const missing = Object.keys(settings).filter((name) => settings[name]?.length === 0);
  if (missing.length === 0) return;
  throw new StartupError(
    `\`wishmeter ${command}\` needs ${missing.join(' and ')}; \`wishmeter start\` runs databases of its own.`,
  );
}
