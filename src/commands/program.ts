// A Program is a command's view of its process.

import type { Readable, Writable } from 'node:stream';
import type { Logger } from 'pino';
import { Waiting } from '../app/waiting.js';
import { StartupError } from '../errors.js';
import type { CommandName, ConfigOf, OptionsOf } from './command-line.js';
import type { Channel } from './siblings.js';

export type Environment = Readonly<Record<string, string | undefined>>;

export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

export interface Program<Name extends CommandName> {
  readonly options: OptionsOf<Name>;
  readonly operands: readonly string[];
  readonly env: Environment;
  readonly config: ConfigOf<Name>;
  readonly version: string;
  readonly pid: number;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly log: Logger;
  /** Resolves at the first signal; a second one ends the process. Call before `ready`, which may cause a signal. */
  untilStopped(): Promise<StopSignal>;
  beforeForcedExit(last: () => void): void;
  ready(message: object): void;
  readonly channel: Channel | undefined;
  /** Aborts when the parent dies. Its successor may then wait for our port or folder. */
  readonly orphaned: AbortSignal;
  kill(pid: number, signal: NodeJS.Signals): void;
}

/**
 * Waits for the databases. A child of `start` fails instead, so that its parent reports why.
 * @returns undefined if a signal came first
 */
export async function startWaiting<T>(
  { channel, log, untilStopped }: Pick<Program<CommandName>, 'channel' | 'log' | 'untilStopped'>,
  start: (waiting: Waiting | undefined) => Promise<T>,
): Promise<T | undefined> {
  if (channel !== undefined) return await start(undefined);
  const started = start(new Waiting(log)).then((value) => ({ value }));
  const first = await Promise.race([started, untilStopped().then((signal) => ({ signal }))]);
  if ('value' in first) return first.value;
  log.info(first, 'stopping');
  return undefined;
}

export type Command<Name extends CommandName> = (program: Program<Name>) => Promise<number>;

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
