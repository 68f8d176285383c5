// What a command may use of the process that it runs in. src/main.ts makes the one real Program;
// nothing below it touches `process`, so a command is a function from a Program to an exit code.

import type { Readable, Writable } from 'node:stream';
import type { Logger } from 'pino';
import type { Config } from '../config.js';
import { StartupError } from '../errors.js';
import type { Channel } from './siblings.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** How the process was asked to end. */
export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

export interface Program {
  /** What stands after the command's name. */
  readonly args: readonly string[];
  readonly env: Environment;
  /** Read from `env`, mistakes and all told, before a command runs. */
  readonly config: Config;
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

/** Runs to its end and says how it went; 0 is well. */
export type Command = (program: Program) => Promise<number>;

/** A command line that makes no sense: told with the usage, exit code 2. */
export class UsageError extends Error {
  constructor(sentence: string) {
    super(sentence);
    this.name = 'UsageError';
  }
}

/** @throws StartupError that names the settings which this command can't do without. */
export function requireSettings(
  command: string,
  config: Config,
  ...names: readonly ('REDIS_URL' | 'CLICKHOUSE_URL')[]
): void {
  const missing = names.filter((name) => config[name].length === 0);
  if (missing.length === 0) return;
  throw new StartupError(
    `\`wishmeter ${command}\` needs ${missing.join(' and ')}; \`wishmeter start\` runs databases of its own.`,
  );
}
