// A command is a function from a Program, its view of the process, to an exit code. src/main.ts makes the Program.

import type { Readable, Writable } from 'node:stream';
import type { Logger } from 'pino';
import { Waiting } from '../app/waiting.js';
import { StartupError } from '../errors.js';
import type { CommandName, ConfigOf, OptionsOf } from './command-line.js';
import type { Channel } from './siblings.js';

export type Environment = Readonly<Record<string, string | undefined>>;

export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** @template Name the command */
export interface Program<Name extends CommandName> {
  readonly options: OptionsOf<Name>;
  /** Other arguments than options. */
  readonly operands: readonly string[];
  /** For child processes. */
  readonly env: Environment;
  /** The settings of the command. */
  readonly config: ConfigOf<Name>;
  readonly version: string;
  readonly pid: number;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly log: Logger;
  /**
   * Resolves at the first signal. At a second one the process ends. Before the first call signals have their default effect.
   */
  untilStopped(): Promise<StopSignal>;
  /** @param last called before the process ends at a second signal */
  beforeForcedExit(last: () => void): void;
  /** Reports to the parent, if there is one, that this process serves. */
  ready(message: object): void;
  /** To the parent, if `start` runs this process. */
  readonly channel: Channel | undefined;
  /** Aborts when that parent has died: its successor waits for our port or folder. */
  readonly orphaned: AbortSignal;
  /** Sends a signal to a process, which may have ended. */
  kill(pid: number, signal: NodeJS.Signals): void;
}

/**
 * Starts a process that waits for its databases. A child of `start` does not wait: its parent reports why it can't start.
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

/** @returns the exit code */
export type Command<Name extends CommandName> = (program: Program<Name>) => Promise<number>;

/** @throws StartupError that names the empty ones among required settings */
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
